"""Calls of products of matrices, from a list of shapes or a log of PyTorch's autotuning.

A list is CSV, JSON or Parquet with the columns M, N and K and, where they differ from these, batch (1), dtype
(bf16), op (mm; bmm with a batch), a_layout and b_layout (row; column where the first index is contiguous,
as in the weights of `torch.nn.Linear`). A log has for each call the lines that begin with AUTOTUNE, strides
and dtypes, which `torch.compile(mode="max-autotune")` writes to stderr.
"""

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from dse.bridges.tables import PRODUCT, BestConfigurations, Own, Row, distinct
from dse.core.files import read_text
from dse.core.validate import checked
from dse.data.measured.formats import read as read_table
from dse.data.table import Table
from dse.errors import DseError, InputWarning, one_of
from dse.explore.matrix.rank import first
from dse.hardware.gpus import GpuFile, load
from dse.models.matrix.configuration import PARAMETERS
from dse.models.matrix.problem import Product

OF_TORCH = {  # PyTorch's types of the operands of each kind
    "bf16": ("bfloat16", "bfloat16"),
    "fp16": ("float16", "float16"),
    "fp32": ("float32", "float32"),
    "fp8_w8a8": ("float8_e4m3fn", "float8_e4m3fn"),
    "int8_w8a8": ("int8", "int8"),
    "int8_w8a16": ("bfloat16", "int8"),
}
KINDS = {pair: kind for kind, pair in OF_TORCH.items()} | {
    (a, b): "int8_w8a16" for a in ("bfloat16", "float16") for b in ("int8", "uint8")
}
WITH_SUM = ("addmm", "baddbmm")  # the summand comes before the matrices
IN_BATCHES = ("bmm", "baddbmm")
EXPERTS = "ragged_dot"  # of JAX: `batch` experts, each with its own rows
WITH_BATCH = (*IN_BATCHES, EXPERTS)
LOGGED = ("mm", "int_mm", "scaled_mm", *WITH_SUM, "bmm")
Size = Annotated[int, Field(ge=1, lt=2**31, description="a whole number of at least 1")]
Layout = Literal["row", "column"]
COLUMNS = ("M", "N", "K", "batch", "dtype", "op", "a_layout", "b_layout")
MOST = 200  # rows of a ranking that are searched for distinct configurations
LOG = re.compile(r"AUTOTUNE (\w+)\((.*)\)\s*\n.*?strides: (.*)\n.*?dtypes: (.*)")
ANY_CALL = re.compile(r"AUTOTUNE \w+\(")
NUMBER = re.compile(r"\d{1,10}", re.ASCII)


@dataclass(frozen=True)
class Operand:
    """One operand: type as PyTorch names it, sizes, and strides in elements."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @staticmethod
    def of(dtype: str, shape: Sequence[int], layout: str = "row") -> "Operand":
        """Make a dense tensor, contiguous in the last index, or in the last but one."""
        *outer, rows, columns = shape
        inner = (columns, 1) if layout == "row" else (1, rows)
        steps = [rows * columns * prod(outer[axis + 1 :]) for axis in range(len(outer))]
        return Operand(dtype, tuple(shape), (*steps, *inner))

    @property
    def layout(self) -> Literal["row", "column"]:
        """The contiguous index: "row" for the last, "column" for the last but one."""
        return "row" if self.strides[-1] == 1 else "column"

    @property
    def gap(self) -> int | None:
        """Elements from one row (or column) to the next; None where they are dense."""
        dense = self.shape[-1 if self.layout == "row" else -2]
        stride = self.strides[-2 if self.layout == "row" else -1]
        return None if stride in (0, dense) else stride


@dataclass(frozen=True)
class Call:
    """One call of an operation, with its operands in PyTorch's order."""

    op: str
    inputs: tuple[Operand, ...]

    @property
    def matrices(self) -> tuple[Operand, Operand]:
        """The two matrices that are multiplied."""
        first = int(self.op in WITH_SUM)
        return self.inputs[first], self.inputs[first + 1]

    @property
    def product(self) -> Product | None:
        """The product of matrices; None if no closed form covers its operands."""
        a, b = self.matrices
        kind = KINDS.get((a.dtype, b.dtype))
        if kind is None or min(*a.shape, *b.shape) < 1:
            return None
        rows, depth, columns = prod(a.shape[:-1]), a.shape[-1], b.shape[-1]
        if self.op == EXPERTS:
            return Product(rows, columns, depth, b.shape[0], 1, kind)
        batch = prod(a.shape[:-2])
        routing = "batch" if batch > 1 else "random"
        layouts = (a.layout, b.layout)
        return Product(rows, columns, depth, batch, 1, kind, routing, layouts=layouts, strides=(a.gap, b.gap))

    @property
    def sizes(self) -> dict[str, Any]:
        """This call as a row of a list."""
        a, b = self.matrices
        layouts = (a.layout, b.layout)
        kind, batch = KINDS.get((a.dtype, b.dtype), f"{a.dtype} {b.dtype}"), prod(b.shape[:-2])
        return dict(
            zip(COLUMNS, (a.shape[-2], b.shape[-1], a.shape[-1], batch, kind, self.op, *layouts), strict=True)
        )


class Shape(BaseModel):
    """A row of a list."""

    M: Size
    N: Size
    K: Size
    batch: Size = 1
    dtype: Literal["bf16", "fp16", "fp32", "fp8_w8a8", "int8_w8a8", "int8_w8a16"] = "bf16"
    op: Literal["mm", "int_mm", "addmm", "bmm", "baddbmm", "ragged_dot"] | None = None
    a_layout: Layout = "row"
    b_layout: Layout = "row"

    @property
    def call(self) -> Call:
        """The call of this shape."""
        op = self.op or ("bmm" if self.batch > 1 else "mm")
        a, b = OF_TORCH[self.dtype]
        outer = (self.batch,) if op in WITH_BATCH else ()
        rows = (*outer, self.M) if op != EXPERTS else (self.M,)
        added = (Operand(a, (*rows, self.N), (*(0 for _ in rows), 1)),) if op in WITH_SUM else ()
        right = Operand.of(b, (*outer, self.K, self.N), self.b_layout)
        return Call(op, (*added, Operand.of(a, (*rows, self.K), self.a_layout), right))


def read(path: Path) -> list[Call]:
    """Read a list or a log, each call once.

    **Raises:** DseError, one line with column and row, for a column that is missing, a size that is no whole
    number above 0, or another word; for a log without products of matrices of known kinds. Other calls of a
    log are left out, with a warning.
    """
    if "AUTOTUNE" not in (text := read_text(path)):
        return list(dict.fromkeys(_listed(read_table(path))))
    calls = [call for call in _logged(text) if call.product]
    if not calls:
        raise DseError(f"{path}: AUTOTUNE: found no product of matrices, expected at least one")
    if left_out := len(logged := ANY_CALL.findall(text)) - len(calls):
        problem = f"found {left_out} of {len(logged)} calls that are no products of known sizes and types"
        warnings.warn(f"{path}: AUTOTUNE: {problem}: left out", InputWarning, stacklevel=2)
    return list(dict.fromkeys(calls))


def table_of(file: GpuFile, calls: Sequence[Call], count: int, device: str = "") -> BestConfigurations:
    """Rank configurations of calls: for each the first `count`."""
    ranked = _ranked(file, [call.product for call in calls if call.product], count)
    problems = [[call.sizes | row for row in rows] for call, rows in zip(calls, ranked, strict=True)]
    reported = file.header.device or ""
    return BestConfigurations(PRODUCT, file.name, COLUMNS, PARAMETERS, problems, calls, device, reported)


def best(
    gpu: str | Path | GpuFile, product: Product, configuration: Callable[[Row], Own], count: int
) -> list[Own]:
    """The `count` best configurations of a product that differ by a reader's own names.

    **Raises:** DseError for a count below 1.
    """
    [rows] = _ranked(load(gpu), [product], MOST if count > 0 else count)
    return distinct(map(configuration, rows))[:count]


def _ranked(file: GpuFile, products: Sequence[Product], count: int) -> list[list[dict[str, Any]]]:
    """Rank as `first`; with the GPU in each row, for readers whose configurations depend on it."""
    if count < 1:
        raise DseError(f"first: found {count}, expected 1 or more")
    return [[row | {"gpu": file} for row in rows] for rows in first(file, products, count)]


def _listed(table: Table) -> Iterator[Call]:
    for name in COLUMNS[:3]:
        if name not in table.names:
            table.fail("columns", f"found no {name}, expected M, N and K")
    if unknown := [name for name in table.names if name not in COLUMNS]:
        table.fail("columns", f"found {unknown[0]}, {one_of(unknown[0], COLUMNS)}")
    for row, cells in enumerate(table.table.to_pylist(), start=1):
        stated = {name: cell for name, cell in cells.items() if cell not in (None, "")}
        shape = checked(Shape, stated, str(table.path), lambda place, row=row: f"{place[0]}, row {row}")
        if shape.batch > 1 and shape.op not in (None, *WITH_BATCH):
            table.fail(f"op, row {row}", f"found {shape.op} with a batch, expected {' or '.join(WITH_BATCH)}")
        yield shape.call


def _logged(text: str) -> Iterator[Call]:
    for op, sizes, strides, dtypes in LOG.findall(text):
        shapes, steps = (
            [tuple(map(int, NUMBER.findall(shape_text))) for shape_text in several]
            for several in (sizes.split(","), re.findall(r"\[(.*?)\]", strides))
        )
        kinds = re.findall(r"torch\.(\w+)", dtypes)
        ranks, first = [*map(len, shapes)], int(op in WITH_SUM)
        complete = ranks == [*map(len, steps)] and len(ranks) == len(kinds)
        if op in LOGGED and complete and [rank > 1 for rank in ranks[first : first + 2]] == [True, True]:
            yield Call(op, tuple(map(Operand, kinds, shapes, steps)))
