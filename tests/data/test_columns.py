"""One name for a quantity: with a unit, on its page, and in what commands write."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dse.data.columns import COLUMNS, SUFFIXES, heading, metadata, of_model

PAGE = Path(__file__).parents[2] / "docs" / "columns.md"


def test_names_say_their_units_as_on_the_page():
    rows = [f"| `{name}` | {column.unit} | {column.meaning} |" for name, column in COLUMNS.items()]
    assert "\n".join(rows) in PAGE.read_text()
    for name, column in COLUMNS.items():
        assert name == name.lower()
        assert name.isidentifier()
        if column.unit in ("s", "B"):
            assert any(name.endswith(end) for end, unit in SUFFIXES.items() if unit == column.unit), name
    assert metadata("time_s")["unit"] == "s"
    assert metadata("block_size_x") == {}
    assert metadata(of_model("mwp-cwp"), "s") == {"unit": "s"}


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


@pytest.mark.slow
def test_what_commands_write_is_of_the_vocabulary_and_read_again(run_dse, answer, toy_kernel, tmp_path):
    ranked, kept, tuned, actual = (tmp_path / f"{name}.parquet" for name in ("rank", "kept", "tune", "found"))
    of_toy, known = (toy_kernel, "--gpu", "a100"), {*COLUMNS, "block", "items", "n"}

    def write(path, command, *words):
        assert run_dse(command, *of_toy, *words, "-o", path).code == 0
        return {name for name in pq.read_schema(path).names if name not in known}

    assert write(ranked, "rank", "--top", "5", "-m", "phase", "-m", "volkov") == {"volkov_s"}
    assert pq.read_schema(ranked).field("volkov_s").metadata == {b"unit": b"s"}
    assert len(answer("rank", *of_toy, "--space", ranked, "--top", "0")) == 5
    assert write(kept, "prune") == set()
    few = answer("rank", *of_toy, "--space", kept, "--top", "0")
    assert len(few) == pq.read_table(kept).num_rows

    lines = [f"{row['block']},{row['items']},{1e3 * row['time_s']!r}" for row in few]
    (tmp_path / "times.csv").write_text("\n".join(["block,items,time_ms", *lines]))
    assert write(tuned, "tune", "--replay", tmp_path / "times.csv", "--budget", "5") == set()
    scores = answer("compare", *of_toy, "--measured", tuned, "-m", "phase")
    assert (scores[0]["configurations"], scores[0]["failed"], set(scores[0]) <= known) == (5, 0, True)

    beside = ("rank", *of_toy, "--measured", tuned, "--top", "0", "-o", tmp_path / "measured.csv")
    assert run_dse(*beside).code == 0
    scores = answer("compare", *of_toy, "--measured", tmp_path / "measured.csv", "-m", "phase")
    assert scores[0]["configurations"] == 5  # not those that were only predicted
    assert write(actual, "search", "--trials", "30", "--storage", "none") == set()
    assert len(answer("rank", *of_toy, "--space", actual)) == 1


def test_predicted_times_are_not_taken_for_measured_ones(run_dse, toy_kernel, tmp_path):
    ranked = tmp_path / "ranked.csv"
    assert run_dse("rank", str(toy_kernel), "--gpu", "a100", "-o", str(ranked)).code == 0
    ran = run_dse("compare", str(toy_kernel), "--gpu", "a100", "--measured", str(ranked))
    assert ran.code == 2
    assert "found predicted times only (there is 'bottleneck'), expected measured_s" in ran.err
