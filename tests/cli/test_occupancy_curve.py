"""`dse occupancy-curve`: a table, rows, a chart."""

import pytest

from dse.models import MODELS

TWO = ("-m", "volkov", "-m", "roofline", "--set", "items=4")


@pytest.fixture
def command(toy_kernel):
    """Of the toy kernel with blocks of 4 warps."""
    return ("occupancy-curve", toy_kernel, "--gpu", "a100", "--set", "block=128")


def test_as_a_table_and_as_rows(run_dse, answer, command):
    ran = run_dse(*command, *TWO)
    assert (ran.code, ran.err) == (0, "")
    title, _, table = ran.out.partition("warps")
    *table, conclusion = table.splitlines()
    assert title.strip() == "toy on NVIDIA A100-PCIE-40GB: block=128, items=4"
    assert "warps an SM give 95 % of the highest throughput by volkov" in conclusion
    rows = [[float(cell) for cell in line.split()] for line in table if line.strip()[:1].isdigit()]
    assert [row[0] for row in rows] == list(range(4, 65, 4))
    assert all(0 < volkov <= roofline for _, volkov, roofline in rows)
    exact = [1e6 * row["throughput"] for row in answer(*command, *TWO) if row["model"] == "volkov"]
    assert [row[1] for row in rows] == pytest.approx(exact, rel=1e-3)


@pytest.mark.slow
def test_of_the_fastest_configuration_by_all_models(answer, toy_kernel):
    rows = answer("occupancy-curve", toy_kernel, "-g", "a100", "--set", "n=65536")
    assert {row["model"] for row in rows} == set(MODELS)
    assert len(rows) % len(MODELS) == 0


@pytest.mark.slow
def test_as_a_chart(run_dse, command, tmp_path):
    ran = run_dse(*command, *TWO, "-o", tmp_path / "curve.SVG")
    assert (ran.code, ran.err) == (0, "")
    svg = (tmp_path / "curve.SVG").read_text()
    assert svg.startswith("<svg")
    assert all(text in svg for text in ("block=128", "volkov", "roofline"))
