"""Recorded tuning results: every configuration near the best of a case, or the best of a tuning run.

A folder has near_best.csv.gz, recorded_best.csv.gz, or both, with the columns read here.
"""

import csv
import gzip
import re
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from math import inf
from pathlib import Path

from dse.errors import DseError
from dse.gpus import GpuFile, find, load
from dse.matrix.configuration import PARAMETERS
from dse.matrix.problem import OPERANDS, Product, experts_layer

UNKNOWN_DEPTH = 4096  # hidden size where a file's name has none: between the smallest and largest of models
UNKNOWN_TOPK = 8
BLOCK = (128, 128)  # of scales, where a tuner demands that tiles divide into them
VENDORS = ("NVIDIA", "GEFORCE", "AMD")
RELATIVES = {"A800": "A100", "A10G": "A10", "GH200": "H200", "B300": "B200", "GB300": "GB200"}
NEAR = ("gpu", "weight_type", "M", "E", "topk", "H", "N", *PARAMETERS, "avg_duration")
BEST = ("vendor", "device", "kernel", "part", "dtype", "block_shape", "E", "N", "K", "topk", "M", *PARAMETERS)
BEST = (*BEST, "space", "in_space")


@dataclass(frozen=True)
class NearBest:
    """A case and all its configurations that ran within 1 % of the best."""

    gpu: str
    product: Product
    configurations: tuple[tuple[int, ...], ...]
    seconds: tuple[float, ...]

    @property
    def best(self) -> float:
        """The time of the fastest one."""
        return min(self.seconds)


@dataclass(frozen=True)
class Recorded:
    """The configuration that one tuning run found best; `products` run with it one after the other."""

    gpu: str
    kernel: str
    depth_known: bool
    products: tuple[Product, ...]
    configuration: tuple[int, ...]
    block: tuple[int, int] | tuple[()]  # columns and depth that tiles must divide into


@cache
def gpu_file(device: str) -> GpuFile:
    """The GPU file of a device as records call it: NVIDIA_A100-SXM4-80GB, H20, GeForce_RTX_4090, ...

    Words are left off from the end until a file is found; a bare name is the SXM card where there is one.
    Variants without a file of their own count as their nearest relative: the A800, an A100 with slower links,
    Grace's H100 as the H200, the B300 as the B200, whose SMs and memory's rate it has. **Raises:** DseError.
    """
    words = [word for word in re.split("[_ -]+", device.strip().upper()) if word and word not in VENDORS]
    words = [RELATIVES.get(word, word) for word in words]
    if "A100" in words and "40GB" in words:  # both forms have the memory of the PCIe card
        words = ["A100", "PCIE", "40GB"]
    while words:
        name = "-".join(words)
        for text in (f"{name}-SXM", name):
            with suppress(DseError):
                return load(find(text))
        words.pop()
    raise DseError(f"gpu: found {device!r}, expected a device that gpus/ has a file of")


def near_best(folder: Path) -> list[NearBest]:
    """Read near_best.csv.gz; none where it is missing. Operands are bf16, tokens handed out evenly."""
    cases: dict[tuple, tuple[list, list]] = defaultdict(lambda: ([], []))
    for row in _rows(folder / "near_best.csv.gz", NEAR):
        key = (row.text("gpu"), row.text("weight_type"), *map(row.number, ("M", "E", "topk", "H", "N")))
        configurations, seconds = cases[key]
        configurations.append(tuple(map(row.number, PARAMETERS)))
        seconds.append(row.time("avg_duration") * 1e-6)
    return [
        NearBest(gpu, experts_layer(*sizes, routing="even")[weights == "w2"], tuple(found), tuple(times))
        for (gpu, weights, *sizes), (found, times) in cases.items()
    ]


def recorded(folder: Path) -> list[Recorded]:
    """Read recorded_best.csv.gz: NVIDIA's, inside the tuner's space. None where it is missing."""
    found = []
    for row in _rows(folder / "recorded_best.csv.gz", BEST):
        if row.text("vendor") != "NVIDIA" or row.text("in_space") != "1":
            continue
        block = row.text("block_shape")
        kind = {"bf16/fp16": "bf16", "float8": "fp8_w8a8"}.get(row.text("dtype"), row.text("dtype"))
        if block and f"{kind}_block" in OPERANDS:
            kind = f"{kind}_block"
        if kind not in OPERANDS:
            continue
        depth = row.number("K") if row.text("K") else UNKNOWN_DEPTH
        tokens, columns, kernel = row.number("M"), row.number("N"), row.text("kernel")
        if kernel == "w8a8":
            products = (Product(tokens, columns, depth, operands=kind),)
        else:
            experts, topk = row.number("E"), row.number("topk") if row.text("topk") else UNKNOWN_TOPK
            products = experts_layer(tokens, experts, topk, depth, columns, kind)
            if row.text("part") == "down":
                products = products[1:]
        found.append(
            Recorded(
                gpu=row.text("device"),
                kernel=kernel,
                depth_known=bool(row.text("K")),
                products=products,
                configuration=tuple(map(row.number, PARAMETERS)),
                block=BLOCK if row.text("space").endswith("block128x128") else (),
            )
        )
    return found


@dataclass(frozen=True)
class _Row:
    """One row of a file, whose numbers are checked as they are taken."""

    where: str
    cells: dict[str, str]

    def text(self, name: str) -> str:
        return self.cells[name] or ""

    def number(self, name: str) -> int:
        text = self.text(name)
        if not text.isdecimal() or int(text) < 1:
            raise DseError(f"{self.where}: {name}: found {text!r}, expected a whole number of at least 1")
        return int(text)

    def time(self, name: str) -> float:
        text = self.text(name)
        with suppress(ValueError):
            if 0.0 < (number := float(text)) < inf:
                return number
        raise DseError(f"{self.where}: {name}: found {text!r}, expected a time above 0")


def _rows(path: Path, columns: Sequence[str]) -> Iterator[_Row]:
    if not path.exists():
        return
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            table = csv.DictReader(file)
            if missing := [name for name in columns if name not in (table.fieldnames or ())]:
                raise DseError(f"{path}: {missing[0]}: missing, expected a column of that name")
            for number, cells in enumerate(table, 2):
                yield _Row(f"{path}: line {number}", cells)
    except (OSError, EOFError, UnicodeDecodeError, csv.Error, zlib.error) as error:
        raise DseError(f"{path}: cannot read: {error}") from None
