"""`dse prune`: what is kept of the toy kernel, shown and written."""

import json
from pathlib import Path

import pytest

OF_TOY = ("-g", "a100-pcie-40gb", "-m", "transit", "--top", "0")


@pytest.fixture
def kept(run_dse, toy_kernel):
    """`kept("--risk", "0.2")`: the configurations that are kept, and in order of predicted time."""

    def kept(*words):
        rows = json.loads(run_dse("prune", toy_kernel, *OF_TOY, *words, "--json").out)  # it may warn
        assert [row["rank"] for row in rows] == list(range(1, len(rows) + 1))
        return [(row["block"], row["items"]) for row in rows]

    return kept


@pytest.fixture
def times(answer, toy_kernel):
    """All configurations with their times by the model, the fastest first."""
    rows = answer("rank", toy_kernel, *OF_TOY)
    return {(row["block"], row["items"]): row["time_s"] for row in rows}


def test_by_the_model(kept, times, run_dse, toy_kernel, tmp_path):
    actual, out = kept("--risk", "0.2"), tmp_path / "kept.csv"
    last = max(times[place] for place in actual)
    assert set(actual) == {place for place, time in times.items() if time <= last}  # with all equals
    assert 0 < len(actual) < len(times) == 23
    ran = run_dse("prune", toy_kernel, *OF_TOY, "--risk", "0.2", "-o", out)
    assert f"{len(actual)} of {len(times)} kept" in " ".join(ran.out.split())
    assert out.read_text().splitlines() == ["block,items", *(f"{block},{items}" for block, items in actual)]


def test_why_much_is_kept_and_a_prior(kept, run_dse, toy_kernel, tmp_path):
    """Measured backwards: the model does not explain it. Recorded elsewhere, a part is kept."""
    rows = kept("--risk", "0.001")
    lines = [f"{block},{items},{2.0**-place}" for place, (block, items) in enumerate(rows)]
    (tmp_path / "few.csv").write_text("\n".join(["block,items,time_ms", *lines]))
    ran = run_dse("prune", toy_kernel, *OF_TOY, "--measured", tmp_path / "few.csv")
    assert "model does not explain this space" in " ".join(ran.out.split())
    assert kept("--prior", tmp_path / "few.csv")


def test_a_tuning_problem_stays_one(run_dse, tmp_path):
    """Except for its space it is the file's."""
    problem, kept = Path(__file__).parent / "triple" / "T1.json", tmp_path / "kept.json"
    ask = ("prune", problem, "-g", "a100-pcie-40gb", "--format", "t1", "-o", kept)
    assert "wrote" in run_dse(*ask).out
    before, after = (json.loads(path.read_text()) for path in (problem, kept))
    spaces = [item.pop("ConfigurationSpace") for item in (before, after)]
    assert spaces[0]["TuningParameters"][0]["Name"] in str(spaces[1])
    assert after == before
    failed = run_dse(*ask, "--set", "problem_size_x=5000")
    assert (failed.code, "problem_size_x: --format t1 keeps the sizes of" in failed.err) == (2, True)
