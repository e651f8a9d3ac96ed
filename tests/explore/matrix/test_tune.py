"""Measured times of a matrix kernel: out of files, and of a synthetic truth that is tuned."""

import csv
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from dse.errors import DseError
from dse.explore.matrix.refine import Timed
from dse.explore.matrix.table import Kernel, Predictor, best
from dse.explore.matrix.tune import read, tuned
from dse.hardware import gpus
from dse.models.matrix.configuration import PARAMETERS

H20 = gpus.load("h20")
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
    timed = read(write(tmp_path / "times.csv", [*NAMES, column], ROWS), KERNEL, H20)
    assert timed.tokens.tolist() == [1, 64]
    assert KERNEL.configurations(H20)[timed.places].tolist() == [row[1:7] for row in ROWS]
    assert timed.seconds == pytest.approx([12.5 * unit, 25.0 * unit])


def test_parquet_and_other_columns_in_any_order(tmp_path: Path):
    names = ["note", "us", *reversed(NAMES)]
    columns = [["a", "b"], [1.0, np.inf], *list(zip(*ROWS, strict=True))[6::-1]]
    pyarrow.parquet.write_table(pa.table(dict(zip(names, columns, strict=True))), tmp_path / "t.parquet")
    timed = read(tmp_path / "t.parquet", KERNEL, H20)
    assert KERNEL.configurations(H20)[timed.places].tolist() == [row[1:7] for row in ROWS]
    assert timed.seconds == pytest.approx([1e-6, np.inf])


@pytest.mark.parametrize(
    ("names", "cell", "line"),
    [
        (["M", *PARAMETERS[1:], "x", "us"], (0, 0), "columns: found no BLOCK_SIZE_M, expected M, BLOCK_SIZE"),
        ([*NAMES, "cycles"], (0, 0), "columns: found no time, expected one of seconds, time_ms, ms"),
        ([*NAMES, "us"], (0, 0), "M, row 2: found 0, expected a whole number of at least 1"),
        ([*NAMES, "us"], (0, 1.5), "M, row 2: found 1.5, expected a whole number of at least 1"),
        ([*NAMES, "us"], (1, 48), "BLOCK_SIZE_M, row 2: found 48, expected one of 16, 32, 64, 128, 256, as"),
        ([*NAMES, "us"], (6, "many"), "num_stages, row 2: found 'many', expected a number"),
        ([*NAMES, "us"], (6, ""), "num_stages, row 2: found an empty cell, expected a number"),
        ([*NAMES, "us"], (7, ""), "us, row 2: found no number, expected a time above 0, or inf"),
        ([*NAMES, "us"], (7, -1), "us, row 2: found -1.0, expected a time above 0, or inf"),
    ],
)
def test_mistakes_are_reported(tmp_path: Path, names: list[str], cell: tuple[int, object], line: str):
    rows = [list(row) for row in ROWS]
    rows[1][cell[0]] = cell[1]
    path = write(tmp_path / "times.csv", names, rows)
    with pytest.raises(DseError) as raised:
        read(path, KERNEL, H20)
    assert str(raised.value).startswith(f"{path}: {line}")


PREDICTED = Predictor.of(H20, KERNEL)
PLACES = {tuple(row): place for place, row in enumerate(KERNEL.configurations(H20).tolist())}


class Truth:
    """Times that are off the prediction by the width of a tile and its stages; it notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[dict] = []

    def seconds(self, tokens: int) -> np.ndarray:
        table = KERNEL.configurations(H20)
        off = 0.4 * np.abs(np.log2(table[:, 1]) - 5) + 0.2 * np.abs(table[:, 5] - 4)
        return np.exp(PREDICTED(tokens) + off)

    def __call__(self, configuration) -> float | None:
        self.asked.append(dict(configuration))
        time = self.seconds(configuration["M"])[place_of(configuration)]
        return None if configuration["num_warps"] == 8 else float(time)


def place_of(row) -> int:
    return PLACES[tuple(row[name] for name in PARAMETERS)]


@pytest.mark.slow
def test_few_measurements_find_what_is_nearly_the_best():
    truth, tokens = Truth(), [512, 1024, 4096]
    timed = tuned(H20, KERNEL, tokens, truth, 20)
    assert [row["M"] for row in truth.asked] == [512] * 20 + [1024] * 20 + [4096] * 20
    gains = []
    for row, plain in zip(best(H20, KERNEL, tokens, timed), best(H20, KERNEL, tokens), strict=True):
        runs = np.where(KERNEL.configurations(H20)[:, 4] == 8, np.inf, truth.seconds(row["M"]))
        assert runs[place_of(row)] < 1.06 * runs.min()
        gains.append(runs[place_of(row)] / truth.seconds(row["M"])[place_of(plain)])
    assert max(gains) <= 1.0
    assert np.mean(gains) < 0.9
    # What is learnt of one batch size serves the next: its first try is better than the plain choice.
    first = next(row for row in truth.asked if row["M"] == 1024)
    [plain] = best(H20, KERNEL, [1024])
    assert truth.seconds(1024)[place_of(first)] < 0.9 * truth.seconds(1024)[place_of(plain)]


@pytest.mark.slow
def test_the_first_is_the_best_predicted_and_nothing_is_tried_twice():
    truth = Truth()
    arguments = Timed(np.array([16]), np.array([3]), np.array([1e-3]))
    timed = tuned(H20, KERNEL, [64, 16], truth, 3, timed=arguments)
    [plain] = best(H20, KERNEL, [64], arguments)
    assert place_of(truth.asked[0]) == place_of(plain)
    assert len({(row["M"], place_of(row)) for row in truth.asked}) == 6
    assert (16, 3) not in {(row["M"], place_of(row)) for row in truth.asked}
    assert len(timed.seconds) == 7
    assert timed.seconds[0] == 1e-3


def test_a_journal_goes_on_where_it_ended(tmp_path: Path):
    journal, truth, again = tmp_path / "table.jsonl", Truth(), Truth()
    tuned(H20, KERNEL, [16, 64], truth, 2, journal)
    timed = tuned(H20, KERNEL, [16, 64], again, 3, journal)
    assert [row["M"] for row in again.asked] == [16, 64]
    assert len(timed.seconds) == 6 == len(journal.read_text().splitlines())
