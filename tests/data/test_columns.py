"""One name for a quantity: with a unit, on its page, and in what commands write."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dse.data.columns import COLUMNS, SUFFIXES, heading, metadata, of_model

PAGE = Path(__file__).parents[2] / "docs" / "columns.md"


def test_the_page_has_the_vocabulary():
    rows = [f"| `{name}` | {column.unit} | {column.meaning} |" for name, column in COLUMNS.items()]
    assert "\n".join(rows) in PAGE.read_text()


def test_a_name_says_its_unit():
    for name, column in COLUMNS.items():
        assert name == name.lower()
        assert name.isidentifier()
        if column.unit in ("s", "B"):
            assert any(name.endswith(suffix) for suffix, unit in SUFFIXES.items() if unit == column.unit), (
                name
            )


@pytest.mark.parametrize(
    ("name", "unit", "shown"),
    [
        ("time_s", None, ("time", "s")),
        ("shared_bytes", None, ("shared", "B")),
        ("mwp_cwp_s", "s", ("mwp_cwp", "s")),
        ("cycles", None, ("cycles", "1")),
        ("tile_s", None, ("tile_s", "1")),  # a parameter
        ("above_optimum_percent", None, ("above_optimum", "%")),
        ("top_1_percent", None, ("top_1_percent", "1")),
    ],
)
def test_tables_show_the_unit_once(name, unit, shown):
    assert heading(name, unit) == shown


def test_notes_of_a_parquet_file():
    assert metadata("time_s")["unit"] == "s"
    assert metadata("block_size_x") == {}
    assert metadata(of_model("mwp-cwp"), "s") == {"unit": "s"}


def test_what_commands_write_is_of_the_vocabulary_and_read_again(run_dse, toy_kernel, tmp_path):
    parameters = {"block", "items", "n"}
    ranked, kept, tuned, found = (tmp_path / f"{name}.parquet" for name in ("rank", "kept", "tune", "found"))
    options = (str(toy_kernel), "--gpu", "a100")
    assert run_dse("rank", *options, "--top", "5", "-m", "phase", "-m", "volkov", "-o", str(ranked)).code == 0
    known = {*COLUMNS, *parameters}
    assert set(pq.read_schema(ranked).names) - known == {"volkov_s"}
    assert pq.read_schema(ranked).field("volkov_s").metadata == {b"unit": b"s"}

    again = json.loads(run_dse("rank", *options, "--space", str(ranked), "--top", "0", "--json").out)
    assert len(again) == 5
    assert set(again[0]) <= known

    assert run_dse("prune", *options, "-o", str(kept)).code == 0
    few = json.loads(run_dse("rank", *options, "--space", str(kept), "--top", "0", "--json").out)
    assert len(few) == pq.read_table(kept).num_rows

    times = tmp_path / "times.csv"
    lines = [f"{row['block']},{row['items']},{1e3 * row['time_s']!r}" for row in few]
    times.write_text("\n".join(["block,items,time_ms", *lines]))
    replay = ("--replay", str(times), "--budget", "5", "-o", str(tuned))
    assert run_dse("tune", *options, *replay).code == 0
    assert set(pq.read_schema(tuned).names) <= known
    scores = json.loads(run_dse("compare", *options, "--measured", str(tuned), "-m", "phase", "--json").out)
    assert (scores[0]["configurations"], scores[0]["failed"]) == (5, 0)
    assert set(scores[0]) <= known

    measured = tmp_path / "measured.csv"
    beside = ("--measured", str(tuned), "--top", "0", "-o", str(measured))
    assert run_dse("rank", *options, *beside).code == 0
    scores = json.loads(
        run_dse("compare", *options, "--measured", str(measured), "-m", "phase", "--json").out
    )
    assert scores[0]["configurations"] == 5  # not those that were only predicted

    search = ("search", *options, "--trials", "30", "--storage", "none", "-o", str(found))
    assert run_dse(*search).code == 0
    assert set(pq.read_schema(found).names) <= known
    assert "1 best of 1" in run_dse("rank", *options, "--space", str(found)).out


def test_predicted_times_are_not_taken_for_measured_ones(run_dse, toy_kernel, tmp_path):
    ranked = tmp_path / "ranked.csv"
    assert run_dse("rank", str(toy_kernel), "--gpu", "a100", "-o", str(ranked)).code == 0
    ran = run_dse("compare", str(toy_kernel), "--gpu", "a100", "--measured", str(ranked))
    assert ran.code == 2
    assert "found predicted times only (there is 'bottleneck'), expected measured_s" in ran.err
