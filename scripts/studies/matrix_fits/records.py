"""Recorded tuning results: every configuration near the best of a case, or the best of a tuning run.

A folder has near_best.csv.gz, recorded_best.csv.gz, or both, with the columns read here.
"""

import csv
import io
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Bool

from dse.data import safe_readers
from dse.errors import DseError
from dse.models.matrix.configuration import (
    AMD_PARAMETERS,
    NAMES,
    PARAMETERS,
    SPACES,
    Configurations,
)
from dse.models.matrix.problem import OPERANDS, Product, experts_layer

UNKNOWN_DEPTH = 4096  # hidden size if a file's name has none: between the smallest and largest of models
UNKNOWN_TOPK = 8
BLOCK = (128, 128)  # of scales, for tuners whose tiles must divide it


@dataclass(frozen=True)
class NearBest:
    """A case and all its configurations within 1 % of the best."""

    gpu: str
    product: Product
    configurations: tuple[tuple[int, ...], ...]
    seconds: tuple[float, ...]
    tried: frozenset[tuple[int, ...]]  # tiles and groups of the space that was searched

    @property
    def best(self) -> float:
        """The time of the fastest configuration."""
        return min(self.seconds)


@dataclass(frozen=True)
class Recorded:
    """The best configuration of a tuning run; `products` run with it in sequence."""

    gpu: str
    kernel: str
    depth_known: bool
    products: tuple[Product, ...]
    configuration: tuple[int, ...]
    block: tuple[int, int] | tuple[()]  # columns and depth that tiles must divide
    space: str = ""  # of the tuner, if its name is not the kernel's

    @property
    def tried(self) -> str:
        """The tuner's space."""
        return self.space or self.kernel

    def runs(self, table: Configurations) -> Bool[np.ndarray, " configurations"]:
        """Return which configurations of its space the tuner ran: by block and sizes, and always the best."""
        columns, depth = self.block or (1, 1)
        run = (table[:, 1] % columns == 0) & (table[:, 2] % depth == 0)
        if self.tried in ("moe_amd", "moe_amd_fp8"):
            sizes = [(product.rows, product.columns, product.depth) for product in self.products]
            run &= run_by_vllm(table, sizes, OPERANDS[self.products[0].operands].activation_bytes)
        return run | (table == self.configuration).all(1)


def near_best(folder: Path) -> list[NearBest]:
    """Read near_best.csv.gz; empty if it is missing. Operands are bf16, routing is "even".

    **Raises:** DseError, one line, for an invalid row.
    """
    cases: dict[tuple, tuple[list, list]] = defaultdict(lambda: ([], []))
    for row in rows(folder / "near_best.csv.gz"):
        key = (row["gpu"], row["weight_type"], *(row.count(name) for name in ("M", "E", "topk", "H", "N")))
        configurations, seconds = cases[key]
        configurations.append(tuple(row.count(name) for name in PARAMETERS))
        seconds.append(row.number("avg_duration") * 1e-6)
    tried = frozenset(configuration[:4] for winners, _ in cases.values() for configuration in winners)
    return [
        NearBest(gpu, _alone(sizes, weights), tuple(winners), tuple(times), tried)
        for (gpu, weights, *sizes), (winners, times) in cases.items()
    ]


def _alone(sizes: Sequence[int], weights: str) -> Product:
    """Return one product of a layer, timed without the other."""
    tokens, experts, topk, hidden, intermediate = sizes
    layer = experts_layer(tokens, experts, topk, hidden, intermediate, routing="even")
    return replace(layer[weights == "w2"], beside=0.0)


def recorded(folder: Path, vendor: str = "NVIDIA") -> list[Recorded]:
    """Read recorded_best.csv.gz: a vendor's records within the tuner's space; empty if it is missing.

    **Raises:** DseError, one line, for an invalid row.
    """
    records = []
    for row in rows(folder / "recorded_best.csv.gz"):
        if row["vendor"] != vendor or row["in_space"] != "1":
            continue
        block = row.block("block_shape")
        kind = {"bf16/fp16": "bf16", "float8": "fp8_w8a8"}.get(row["dtype"], row["dtype"])
        if block and f"{kind}_block" in OPERANDS:
            kind = f"{kind}_block"
        if kind not in OPERANDS:
            continue
        depth = row.count("K", UNKNOWN_DEPTH)
        tried = row["kernel"]
        if vendor == "AMD" and tried == "moe":
            tried = "moe_amd" if kind == "bf16" else "moe_amd_fp8"
            tried = "moe_amd_sglang" if row["space"].startswith("AMD-moe-sglang") else tried
        if row["kernel"] == "w8a8":
            products = (Product(row.count("M"), row.count("N"), depth, operands=kind),)
        else:
            experts, topk = row.count("E"), row.count("topk", UNKNOWN_TOPK)
            products = experts_layer(row.count("M"), experts, topk, depth, row.count("N"), kind)
            if row["part"] == "down":
                products = products[1:]
        records.append(
            Recorded(
                gpu=row["device"],
                kernel=row["kernel"],
                depth_known=bool(row["K"]),
                products=products,
                configuration=tuple(_parameter(row, name) for name in NAMES[: len(SPACES[tried])]),
                space=tried,
                block=BLOCK if row["space"].endswith("block128x128") else (),
            )
        )
    return records


@dataclass(frozen=True)
class Row:
    """A row of a table, with cells by name. **Raises:** DseError for any other cell."""

    where: str
    cells: dict[str, str]

    def __getitem__(self, name: str) -> str:
        if name not in self.cells:
            raise DseError(f"{self.where}: {name}: missing, expected a column of that name")
        return self.cells[name]

    def count(self, name: str, unknown: int | None = None) -> int:
        """Read a count; `unknown` if the cell is empty."""
        text = self[name]
        if text in ("", str(unknown)) and unknown is not None:
            return unknown
        if not re.fullmatch(r"[1-9]\d{0,9}", text, re.ASCII):
            raise DseError(f"{self.where}: {name}: found {text[:40]!r}, expected a whole number above 0")
        return int(text)

    def number(self, name: str, unknown: float | None = None) -> float:
        """Read a number above 0; `unknown` if the cell is empty."""
        if not self[name] and unknown is not None:
            return unknown
        try:
            number = float(self[name])
        except ValueError:
            number = 0.0
        if not 0 < number < math.inf:
            raise DseError(f"{self.where}: {name}: found {self[name][:40]!r}, expected a number above 0")
        return number

    def block(self, name: str) -> tuple[int, ...]:
        """Read columns and depth of a block, such as 128x128; () if there is none."""
        text = self[name]
        if not re.fullmatch(r"(\d{1,9}x\d{1,9})?", text, re.ASCII):
            raise DseError(f"{self.where}: {name}: found {text[:40]!r}, expected one as 128x128")
        return tuple(map(int, text.split("x"))) if text else ()


def columns(path: Path) -> tuple[str, ...]:
    """Return the names of a table's columns. **Raises:** DseError for a file that cannot be read."""
    return tuple(next(csv.reader(safe_readers.text(path).splitlines()[:1]), ()))


def rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a table. **Raises:** DseError, one line."""
    if not path.exists():
        return
    table = csv.DictReader(io.StringIO(safe_readers.text(path), newline=""), restval="")
    while True:
        try:
            row = next(table)
        except StopIteration:
            return
        except csv.Error as error:
            raise DseError(f"{path}: line {table.line_num}: {error}") from None
        yield Row(f"{path}: line {table.line_num}", row)


def _parameter(row: Row, name: str) -> int:
    return row.count(name, 0) if name in AMD_PARAMETERS else row.count(name)


def run_by_vllm(
    table: Configurations, products: Sequence[tuple[int, int, int]], element: float
) -> Bool[np.ndarray, " configurations"]:
    """Return which configurations vLLM's tuner runs on AMD's GPUs: it prunes those expected to be slow.

    `products` are rows, columns and depth of products timed together, with the bytes of their elements; a
    configuration runs if at least one product keeps it. **Source:** vLLM, benchmark_moe.py,
    prune_rocm_configs (Apache-2.0).
    """
    rows, columns, depth, group, warps = table[:, :5].T
    instruction = table[:, 7] if table.shape[1] > 7 else np.zeros(len(table))
    run = np.zeros(len(table), bool)
    for m, n, k in products:
        kept = instruction <= np.minimum(np.minimum(rows, columns), 16 if min(m, n) < 32 else 32)
        kept &= ((instruction < m) | (instruction == rows)) & ((instruction < n) | (instruction == columns))
        kept &= ((rows <= 2 * m) | (rows == 16)) & ((columns <= 2 * n) | (columns == 16))
        kept &= (k % depth == 0) & ((group * rows <= m) | (group == 1))
        kept &= depth * (rows + columns) * element <= 2**16
        if min(m, n) >= 2048:
            kept &= (np.minimum(np.minimum(rows, columns), depth) >= 64) & (warps >= 4)
        run |= kept
    return run
