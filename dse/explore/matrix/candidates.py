"""Tables of candidates: configurations of products of matrices, each with its measured time.

A row is a problem (m, n, k, types and layouts of both operands) and a configuration; time_ms is empty where it
failed. Such tables come from autotuners, PyTorch Inductor's for one, which runs programs in groups of 8 rows of
tiles, knows all sizes when it compiles, and times a launch between two events after it emptied L2.
"""

import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from dse.errors import DseError
from dse.explore.matrix.records import Row, rows
from dse.models.matrix.problem import Product

GROUP = 8  # of Inductor's template
COLUMNS = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M", "num_warps", "num_stages")
HALVES = {"float16": "fp16", "bfloat16": "bf16"}
LAYOUT = re.compile(r"(row|column)(?::(\d{1,10}))?", re.ASCII)


@dataclass(frozen=True)
class Candidates:
    """Measured candidates of one table."""

    products: list[Product]
    library: Float[np.ndarray, " products"]  # seconds of the vendor's library; NaN where unknown
    which: Int[np.ndarray, " candidates"]  # place of a candidate's product
    configurations: Int[np.ndarray, "candidates 6"]
    seconds: Float[np.ndarray, " candidates"]  # NaN where it failed

    @staticmethod
    def read(path: Path) -> "Candidates":
        """Read a table. **Raises:** DseError, one line, for a row that is none, or for no rows."""
        products: dict[Product, int] = {}
        known: dict[tuple, Product] = {}
        library, which, configurations, seconds = [], [], [], []
        for row in rows(path):
            key = tuple(row[name] for name in ("m", "n", "k", *TYPES))
            if key not in known:
                known[key] = _product(row)
            product = known[key]
            if product not in products:
                products[product] = len(products)
                library.append(row.number("library_ms", math.nan) * 1e-3)
            which.append(products[product])
            group = row.count("GROUP_M", GROUP) if "GROUP_M" in row.cells else GROUP
            configurations.append([group if name == "GROUP_M" else row.count(name) for name in COLUMNS])
            seconds.append(row.number("time_ms", math.nan) * 1e-3)
        if not which:
            raise DseError(f"{path}: found no rows, expected measured candidates")
        return Candidates(
            list(products),
            np.array(library),
            np.array(which),
            np.array(configurations),
            np.array(seconds),
        )


TYPES = ("a_dtype", "b_dtype", "a_layout", "b_layout", "tf32")


def _product(row: Row) -> Product:
    layouts, strides = [], []
    for name in ("a_layout", "b_layout"):
        found = LAYOUT.fullmatch(row[name])
        if not found:
            raise DseError(f"{row.where}: {name}: found {row[name][:40]!r}, expected row or column")
        layouts.append(found[1])
        strides.append(int(found[2]) if found[2] else None)
    return Product(
        row.count("m"),
        row.count("n"),
        row.count("k"),
        operands=_operands(row),
        layouts=(layouts[0], layouts[1]),
        strides=(strides[0], strides[1]),
        constant=True,
    )


def _operands(row: Row) -> str:
    a, b = row["a_dtype"], row["b_dtype"]
    if a == b == "float32":
        return "tf32" if row["tf32"] == "True" else "fp32"
    if a == b and a in HALVES:
        return HALVES[a]
    if a in HALVES and b in ("int8", "uint8"):
        return "int8_w8a16"
    raise DseError(f"{row.where}: a_dtype, b_dtype: found {a[:20]!r}, {b[:20]!r}, expected types of a product")
