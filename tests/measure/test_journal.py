"""A run that was cut off goes on, whatever is left of it."""

from pathlib import Path
from typing import Any

import pytest

from dse.errors import DseError
from dse.measure.journal import SUFFIX, Journal, read

ABOUT: dict[str, Any] = {"gpu": "NVIDIA Something", "sweep": False, "driver": "13.0"}
ABOUT["kernels"] = {"sum": {"digest": "abc", "sizes": {"n": 5}}}
ROWS = [
    {"kernel": "sum", "block": 32, "status": "ok", "time_ms": 0.5},
    {"kernel": "sum", "block": 64, "status": "compile", "message": "no"},
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "table.parquet"


@pytest.fixture
def journal(path: Path) -> Journal:
    """One with both rows."""
    journal = Journal(path, ABOUT)
    for row in ROWS:
        journal.add(row)
        assert Journal(path, ABOUT).rows[-1] == row  # on disk at once, as after a kill
    assert not path.exists()
    return journal


def test_what_broke_or_hung_is_measured_again(path: Path):
    """With all its rows: of a sweep those before it too. Other kernels' rows stay."""
    journal = Journal(path, ABOUT)
    statuses = {32: ["ok"], 64: ["ok", "runtime"], 128: ["resources"], 256: ["timeout"]}
    for block, outcomes in statuses.items():
        for status in outcomes:
            journal.add({"kernel": "sum", "block": block, "status": status})
    journal.add({"kernel": "other", "block": 64, "status": "runtime"})
    again = Journal(path, ABOUT)
    assert again.done("sum", ["block"]) == {(32,), (128,)}
    left = [("sum", 32), ("sum", 128), ("other", 64)]
    for item in (again, Journal(path, ABOUT)):
        assert [(row["kernel"], row["block"]) for row in item.rows] == left


def test_a_line_that_was_cut_off_is_left_out(path: Path, journal: Journal):
    lines = path.with_name(path.name + SUFFIX)
    lines.write_text(lines.read_text()[:-9])
    again = Journal(path, ABOUT)
    assert again.rows == ROWS[:1]
    again.add(ROWS[1])
    assert Journal(path, ABOUT).rows == ROWS


def test_the_table_is_enough_to_go_on(path: Path, journal: Journal):
    journal.close(done=False)  # time is up: both are left
    assert read(path)[1] == ROWS
    journal.close(done=True)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert read(path) == (ABOUT, ROWS)
    assert Journal(path, {**ABOUT, "driver": "13.1"}).rows == ROWS


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gpu": "another"}, "gpu: found NVIDIA Something, expected another; delete it"),
        ({"sweep": True}, "sweep: found False, expected True"),
        ({"kernels": {"sum": {"digest": "new", "sizes": {"n": 5}}}}, "sum: digest: found abc, expected new"),
        ({"kernels": {"sum": {"digest": "abc", "sizes": {"n": 6}}}}, "sum: sizes: found"),
    ],
)
def test_another_run_is_not_gone_on_with(path: Path, change: dict[str, Any], message: str):
    with pytest.raises(DseError, match=message):
        Journal(path, {**ABOUT, **change})


def test_other_kernels_may_come_to_it(path: Path):
    Journal(path, ABOUT).add(ROWS[0])
    more = {"other": {"digest": "x", "sizes": {}}}
    journal = Journal(path, {**ABOUT, "kernels": more})
    assert journal.about["kernels"] == ABOUT["kernels"] | more
    assert journal.rows == ROWS[:1]


def test_where_no_table_can_be(tmp_path: Path):
    with pytest.raises(DseError, match=r"suffix: found '\.csv', expected \.parquet"):
        Journal(tmp_path / "table.csv", ABOUT)
    with pytest.raises(DseError, match="found no folder"):
        Journal(tmp_path / "none" / "table.parquet", ABOUT)
    (tmp_path / "bad.parquet").write_text("no")
    with pytest.raises(DseError, match=r"bad\.parquet: cannot read"):
        Journal(tmp_path / "bad.parquet", ABOUT)
