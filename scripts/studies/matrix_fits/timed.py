"""Measured times of products and of layers of experts, one configuration per row, with predictions.

Candidates are all configurations that an autotuner tried for a problem: m, n, k, types and layouts of both
operands; time_ms is empty for failures. Tables of PyTorch Inductor are such: its kernel runs programs in
groups of 8 rows of tiles, has compile-time sizes, and is timed between two events after a flush of L2. A
layer of experts has one row: both products with their configuration, and all other launches.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from matrix_fits.records import Row, rows

from dse.errors import DseError
from dse.explore.matrix.devices import gpu_file
from dse.hardware.gpus import GpuFile
from dse.models.matrix import attention
from dse.models.matrix.attention import Attention, AttentionCase
from dse.models.matrix.case import BACK_TO_BACK, BETWEEN_EVENTS, Case, Timing
from dse.models.matrix.configuration import PARAMETERS, Configuration
from dse.models.matrix.constants import Constants
from dse.models.matrix.layer import Rest
from dse.models.matrix.machine import Machine, possible
from dse.models.matrix.problem import OPERANDS, Product, experts_layer
from dse.models.matrix.time import seconds

GROUP = 8  # of Inductor's template
VISITED = 128  # keys of its timed flex attention, for any number: one block of the mask
TYPES = ("a_dtype", "b_dtype", "a_layout", "b_layout", "tf32")
COLUMNS = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M", "num_warps", "num_stages")
HALVES = {"float16": "fp16", "bfloat16": "bf16"}
LIBRARIES = {"bf16": "bf16", "a8w8": "fp8_w8a8", "a8w8_blockscale": "fp8_w8a8_block"}  # AMD's kinds
ALONE = 1  # wave on a SIMD: Composable Kernel's launch bounds leave it all registers (intrawave kernels)
LONG = 1e-4  # s: shorter times include launch overheads that differ between libraries
TILE = re.compile(r"(\d{1,4})x(\d{1,4})x(\d{1,4})x(\d{1,4})", re.ASCII)
LAYOUT = re.compile(r"(row|column)(?::(\d{1,10}))?", re.ASCII)

Problem = tuple[Any, ...]  # one attention, or products in sequence


@dataclass(frozen=True)
class Timed:
    """Measured times. **Units:** s."""

    gpus: tuple[str, ...]  # names of their files
    gpu: Int[np.ndarray, " rows"]
    problems: tuple[Problem, ...]
    library: Float[np.ndarray, " problems"]  # of the vendor's library; NaN if unknown
    problem: Int[np.ndarray, " rows"]
    configurations: Int[np.ndarray, "rows parameters"]
    seconds: Float[np.ndarray, " rows"]  # NaN if it failed
    timing: Timing

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.seconds)

    def where(self, rows: np.ndarray) -> "Timed":
        """Select rows by indices or a mask."""
        return replace(
            self,
            gpu=self.gpu[rows],
            problem=self.problem[rows],
            configurations=self.configurations[rows],
            seconds=self.seconds[rows],
        )

    def possible(self) -> Bool[np.ndarray, " rows"]:
        """Return whether the buffers of each configuration fit in shared memory."""
        fits = np.zeros(len(self), bool)
        if isinstance(self.problems[0][0], Attention):
            return self._attentions_fit()
        asked = [
            (problem[0].operands, problem[0].copy_bytes, problem[0].shuffled) for problem in self.problems
        ]
        kinds = {key: problem[0] for key, problem in zip(asked, self.problems, strict=True)}
        places = {key: place for place, key in enumerate(kinds)}
        of = np.array([places[key] for key in asked])[self.problem]
        for place, name in enumerate(self.gpus):
            own = np.flatnonzero(self.gpu == place)
            table = possible(gpu_file(name), list(kinds.values()), self.configurations[own])
            fits[own] = table[of[own], np.arange(len(own))]
        return fits

    def _attentions_fit(self) -> Bool[np.ndarray, " rows"]:
        sizes = [(item.head_dim, OPERANDS[item.operands].activation_bytes) for (item,) in self.problems]
        depth, size = np.array(sizes)[self.problem].T
        fits = np.zeros(len(self), bool)
        for place, name in enumerate(self.gpus):
            own = self.gpu == place
            fits[own] = attention.possible(
                gpu_file(name).gpu, depth[own], size[own], self.configurations[own]
            )
        return fits

    def predict(self, constants: Constants) -> Float[np.ndarray, " rows"]:
        """Predict times in s, infinite if a configuration does not fit."""
        return np.where(self.possible(), np.asarray(_predict(Inputs.of(self), constants)), np.inf)


class Inputs(eqx.Module):
    """Inputs of predictions of measured rows, as arrays. **Shapes:** [rows]."""

    machine: Machine
    launches: tuple[Case | AttentionCase, ...]
    tile: Configuration
    rest: Rest | None
    timing: Timing

    @staticmethod
    def of(timed: Timed) -> "Inputs":
        """Make the inputs of each row."""
        files: list[GpuFile] = [gpu_file(name) for name in timed.gpus]
        heights = timed.configurations[:, 0]
        launches = [list(launch) for launch in zip(*timed.problems, strict=True)]
        rest = None
        if len(launches) > 1:
            layers = list(zip(*launches, strict=True))
            rest = jax.tree.map(lambda field: field[timed.problem], Rest.of(layers))
        return Inputs(
            machine=jax.tree.map(lambda field: field[timed.gpu], Machine.of(files)),
            launches=tuple(_pairs(launch, timed.problem, heights) for launch in launches),
            tile=Configuration(*(jnp.asarray(column, jnp.float32) for column in timed.configurations.T)),
            rest=rest,
            timing=timed.timing,
        )

    def seconds(self, constants: Constants) -> Float[Array, " rows"]:
        """Predict times, even for configurations that do not fit."""
        time = jnp.zeros_like(self.tile.rows)
        for launch in self.launches:
            how = self.tile, constants, self.timing
            if isinstance(launch, AttentionCase):
                time = time + attention.seconds(self.machine, launch, *how)
            else:
                time = time + seconds(self.machine, launch, *how)
        return time if self.rest is None else time + self.rest.seconds(self.machine, constants)


def _pairs(launches: list, which: np.ndarray, heights: np.ndarray) -> Case | AttentionCase:
    if isinstance(launches[0], Attention):
        return jax.tree.map(lambda field: field[which, 0], AttentionCase.of(launches))
    distinct, place = np.unique(heights, return_inverse=True)
    table = Case.of(launches, distinct)
    return jax.tree.map(lambda field: field[which, place if field.shape[1] > 1 else 0], table)


@jax.jit
def _predict(inputs: Inputs, constants: Constants) -> Float[Array, " rows"]:
    return inputs.seconds(constants)


def candidates(path: Path) -> Timed:
    """Read a table of candidates on the GPU in the prefix of its name. **Raises:** DseError, one line."""
    return _read(path, _candidate, BETWEEN_EVENTS)


def attentions(path: Path) -> Timed:
    """Read a table of candidates of attention. **Raises:** DseError, one line."""
    return _read(path, _attention, BETWEEN_EVENTS)


def layers(path: Path) -> Timed:
    """Read a table of layers of experts. **Raises:** DseError, one line."""
    return _read(path, _layer, BACK_TO_BACK)


def libraries(path: Path) -> Timed:
    """Read a table of AMD's libraries: tiles are in kernels' names. **Raises:** DseError, one line."""
    return _read(path, _library, BACK_TO_BACK)


class _Read(NamedTuple):
    key: tuple  # of the problem: rows of one key have one problem
    gpu: str
    problem: Callable[[], Problem]
    configuration: list[int]
    seconds: float
    library: float


def _read(path: Path, read: Callable[[Row], _Read | None], timing: Timing) -> Timed:
    timings = [entry for row in rows(path) if (entry := read(row))]
    if not timings:
        raise DseError(f"{path}: found no rows, expected a table of measured times")
    gpus = {name: place for place, name in enumerate(dict.fromkeys(entry.gpu for entry in timings))}
    first = {entry.key: entry for entry in reversed(timings)}
    place = {key: place for place, key in enumerate(first)}
    return Timed(
        gpus=tuple(gpus),
        gpu=np.array([gpus[entry.gpu] for entry in timings]),
        problems=tuple(entry.problem() for entry in first.values()),
        library=np.array([entry.library for entry in first.values()]),
        problem=np.array([place[entry.key] for entry in timings]),
        configurations=np.array([entry.configuration for entry in timings]),
        seconds=np.array([entry.seconds for entry in timings]),
        timing=timing,
    )


def _candidate(row: Row) -> _Read:
    def problem() -> Problem:
        a, b = (_layout(row, name) for name in ("a_layout", "b_layout"))
        sizes = [row.count(name) for name in ("m", "n", "k")]
        layouts, strides = (a[0], b[0]), (a[1], b[1])
        kind = _operands(row)
        return (Product(*sizes, operands=kind, layouts=layouts, strides=strides, constant=True),)

    group = row.count("GROUP_M", GROUP) if "GROUP_M" in row.cells else GROUP
    return _Read(
        key=tuple(row[name] for name in ("m", "n", "k", *TYPES)),
        gpu=row.cells.get("gpu") or Path(row.where.partition(": line")[0]).name.partition(".")[0],
        problem=problem,
        configuration=[group if name == "GROUP_M" else row.count(name) for name in COLUMNS],
        seconds=1e-3 * row.number("time_ms", math.nan),
        library=1e-3 * row.number("library_ms", math.nan),
    )


def _attention(row: Row) -> _Read:
    sizes = ("batch", "heads", "queries", "keys", "head_dim")

    def problem() -> Problem:
        operands = HALVES.get(row["dtype"], "tf32")
        return (Attention(*map(row.count, sizes), operands=operands, visited=VISITED),)

    tile = (row.count("BLOCK_M"), row.count("BLOCK_N"), row.count("BLOCK_N"), 1)
    return _Read(
        key=tuple(row[name] for name in (*sizes, "dtype", "score_nodes", "score_arguments")),
        gpu=Path(row.where.partition(": line")[0]).name.partition(".")[0],
        problem=problem,
        configuration=[*tile, row.count("num_warps"), row.count("num_stages")],
        seconds=1e-3 * row.number("time_ms", math.nan),
        library=math.nan,
    )


def _library(row: Row) -> _Read | None:
    """Read a row; split sums are a batch of products of equal depth."""
    tile = TILE.fullmatch(row["tile"])
    if not tile or row.number("us") < 1e6 * LONG:
        return None
    threads, *sizes = map(int, tile.groups())
    split = max(row.count("splitK", 1) if row["splitK"] != "0" else 1, 1)
    split = 2**split if row["splitK"] != "0" and row["libtype"] == "ck" else split
    m, n, k = row.count("M"), row.count("N"), row.count("K")
    kind = row["kind"].removesuffix("_bpreshuffle")

    def problem() -> Problem:
        depth = -(-k // split)
        return (
            Product(
                m * split,
                n,
                depth,
                split,
                operands=LIBRARIES[kind],
                routing="batch",
                shuffled=kind != row["kind"],
                shared_rows=False,
                constant=True,
            ),
        )

    return _Read(
        key=(row["kind"], m, n, k, split),
        gpu="MI300X" if row["cu_num"] == "304" else "MI308X",
        problem=problem,
        configuration=[*sizes, GROUP, threads // 64, 2, ALONE],
        seconds=1e-6 * row.number("us"),
        library=math.nan,
    )


def _layout(row: Row, name: str) -> tuple[str, int | None]:
    match = LAYOUT.fullmatch(row[name])
    if not match:
        raise DseError(f"{row.where}: {name}: found {row[name][:40]!r}, expected row or column")
    return match[1], int(match[2]) if match[2] else None


def _operands(row: Row) -> str:
    a, b = row["a_dtype"], row["b_dtype"]
    if a == b == "float32":
        return "tf32" if row["tf32"] == "True" else "fp32"
    if a == b and a in HALVES:
        return HALVES[a]
    if a in HALVES and b in ("int8", "uint8"):
        return "int8_w8a16"
    raise DseError(
        f"{row.where}: a_dtype, b_dtype: found {a[:20]!r}, {b[:20]!r}, expected types of a product"
    )


def _layer(row: Row) -> _Read:
    sizes = ("tokens", "experts", "topk", "hidden", "intermediate")
    law, _, exponent = row["distribution"].rpartition("_")

    def problem() -> Problem:
        tokens, experts, topk, hidden, intermediate = (row.count(name) for name in sizes)
        layer = (tokens, experts, topk, hidden, intermediate, row["operands"])
        return (
            experts_layer(*layer, "skewed", _exponent(row, exponent))
            if law
            else experts_layer(*layer, "even")
        )

    return _Read(
        key=tuple(row[name] for name in (*sizes, "operands", "distribution")),
        gpu=row["gpu"],
        problem=problem,
        configuration=[row.count(name) for name in PARAMETERS],
        seconds=1e-3 * row.number("ms"),
        library=math.nan,
    )


def _exponent(row: Row, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        distribution = row["distribution"][:40]
        raise DseError(
            f"{row.where}: distribution: found {distribution!r}, expected one as power_law_1.2"
        ) from None
