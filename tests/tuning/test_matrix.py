"""Measured times of a matrix kernel, out of files."""

import csv
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from dse.errors import DseError
from dse.matrix.configuration import PARAMETERS
from dse.matrix.table import Kernel
from dse.tuning.matrix import read

KERNEL = Kernel("w8a8", {"N": 1024, "K": 2048}, "fp8_w8a8", (128, 128))
ROWS = [[1, 16, 64, 128, 1, 4, 3, 12.5], [64, 64, 128, 64, 16, 8, 5, 25.0]]
NAMES = ["M", *PARAMETERS]


def write(path: Path, names: list[str], rows: list[list]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([names, *rows])
    return path


@pytest.mark.parametrize(
    ("column", "unit"),
    [("seconds", 1.0), ("time_s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("time_us", 1e-6), ("time_ns", 1e-9)],
)
def test_units(tmp_path: Path, column: str, unit: float):
    timed = read(write(tmp_path / "times.csv", [*NAMES, column], ROWS), KERNEL)
    assert timed.tokens.tolist() == [1, 64]
    assert KERNEL.configurations[timed.places].tolist() == [row[1:7] for row in ROWS]
    assert timed.seconds == pytest.approx([12.5 * unit, 25.0 * unit])


def test_parquet_and_other_columns_in_any_order(tmp_path: Path):
    names = ["note", "us", *reversed(NAMES)]
    columns = [["a", "b"], [1.0, np.inf], *list(zip(*ROWS, strict=True))[6::-1]]
    pyarrow.parquet.write_table(pa.table(dict(zip(names, columns, strict=True))), tmp_path / "t.parquet")
    timed = read(tmp_path / "t.parquet", KERNEL)
    assert KERNEL.configurations[timed.places].tolist() == [row[1:7] for row in ROWS]
    assert timed.seconds == pytest.approx([1e-6, np.inf])


@pytest.mark.parametrize(
    ("names", "cell", "line"),
    [
        (
            ["M", *PARAMETERS[1:], "x", "us"],
            (0, 0),
            "columns: found no BLOCK_SIZE_M, expected M, BLOCK_SIZE_M",
        ),
        ([*NAMES, "cycles"], (0, 0), "columns: found no time, expected one of seconds, time_ms, ms"),
        ([*NAMES, "us"], (0, 0), "M, row 2: found 0, expected a whole number of at least 1"),
        ([*NAMES, "us"], (0, 1.5), "M, row 2: found 1.5, expected a whole number of at least 1"),
        ([*NAMES, "us"], (1, 48), "BLOCK_SIZE_M, row 2: found 48, expected one of 16, 32, 64, 128, 256, as"),
        ([*NAMES, "us"], (6, "many"), "num_stages, row 2: found 'many', expected a number"),
        ([*NAMES, "us"], (6, ""), "num_stages, row 2: found an empty cell, expected a number"),
        ([*NAMES, "us"], (7, "nan"), "us, row 2: found no number, expected a time above 0, or inf"),
        ([*NAMES, "us"], (7, ""), "us, row 2: found no number, expected a time above 0, or inf"),
        ([*NAMES, "us"], (7, -1), "us, row 2: found -1.0, expected a time above 0, or inf"),
    ],
)
def test_mistakes_are_told(tmp_path: Path, names: list[str], cell: tuple[int, object], line: str):
    rows = [list(row) for row in ROWS]
    rows[1][cell[0]] = cell[1]
    path = write(tmp_path / "times.csv", names, rows)
    with pytest.raises(DseError) as told:
        read(path, KERNEL)
    assert str(told.value).startswith(f"{path}: {line}")
    assert "\n" not in str(told.value)
