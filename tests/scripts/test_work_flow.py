"""Work flow graphs from source are those of the paper: its statement, and its tiles of a matrix product."""

import pytest
from work_flow import figure_1, section_4_1

pytestmark = pytest.mark.slow


def test_the_statement_of_figure_1_and_its_store():
    [row] = figure_1()
    assert row["nodes"] == "C M C' M C"
    assert (row["mem_insts"], row["bytes"]) == (2, 256)
    assert row["between_waits"] == row["comp_cycles"] / 3  # Eq. 5: two accesses, and the end


def test_tiles_reduce_loads_and_time_as_in_section_4_1():
    rows = list(section_4_1())
    assert [row["loads_reduced_by"] for row in rows] == pytest.approx([row["expected"] for row in rows])
    times = [row["ms"] for row in rows]
    assert times == sorted(times, reverse=True)
    assert rows[0]["computing"] < 0.5 < min(row["computing"] for row in rows[1:])
