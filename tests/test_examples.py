"""The scripts of examples/ run, and show what they say they show."""

import json
import re
import runpy
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[1] / "examples"
SHORT = {  # programs of at most 30 lines, and what they print
    "gradient_fit": r"λ of DRAM: 1\.4[89]\d times",
    "own_kernel": r"'kernel': 'scale'",
    "own_model": r"µs by phase, .* µs of traffic",
    "pruned_kernel_tuner": r"\d+ configurations, 1 restriction",
    "stencil_sweep": r"A100.* µs",
    "warm_optuna": r"0\.9\d|1\.00 of the best",
}


@pytest.fixture
def run(capsys, monkeypatch):
    """`run("fit_gpu")`: what the program prints."""

    def run(name, *arguments):
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out

    return run


def test_the_notebook_runs_from_top_to_bottom():
    cells = json.loads((FOLDER / "tour.ipynb").read_text(encoding="utf-8"))["cells"]
    names: dict = {}
    values = []
    for cell in cells:
        if cell["cell_type"] == "code":
            *lines, last = "".join(cell["source"]).splitlines()
            exec("\n".join(lines), names)
            values.append(eval(last, names))
    ranking, rows, fastest, gain = values
    assert "<table" in ranking._repr_html_()
    assert (len(rows), len(fastest)) == (5, 3)
    assert 1.0 <= float(gain.split()[0]) <= 1.1


def test_every_example_is_run():
    long = {"compare_kernel_tuner", "fit_gpu", "prune_tuner", "sweep_designs"}
    assert {path.stem for path in FOLDER.glob("*.py")} == long | set(SHORT)


@pytest.mark.parametrize("name", SHORT)
def test_a_short_one_shows_what_it_says(run, name):
    assert len((FOLDER / f"{name}.py").read_text().splitlines()) <= 30
    assert re.search(SHORT[name], run(name), re.DOTALL)


def test_sweep_designs(run):
    times = re.findall(r"([\d.]+) µs, bound by", said := run("sweep_designs"))
    assert len(times) == 5
    assert float(times[4]) < 0.6 * float(times[0])  # twice the bandwidth
    assert "1 % off λ of dram saves most" in said


def test_prune_tuner(run):
    said = run("prune_tuner")
    [(kept, of)] = re.findall(r"pruned: (\d+) of (\d+) measured", said)
    assert int(kept) < int(of) / 10
    assert all(float(share) > 0.9 for share in re.findall(r"([\d.]+) of the best", said))


def test_fit_gpu(run):
    said = run("fit_gpu")
    study = re.search(r"λ of DRAM: ([\d.]+) times", said)
    assert study is not None
    assert float(study[1]) == pytest.approx(1.5, rel=0.03)
    before, after = (float(x) for x in re.findall(r"mean error of the times ([\d.]+) %", said))
    assert after < 0.2 * before


def test_the_comparison_with_kernel_tuner(run):
    pytest.importorskip("kernel_tuner")
    said = run("compare_kernel_tuner", "--budget", "8", "--seeds", "1")
    shares = dict(re.findall(r"^(\w+): ([\d.]+) of the best", said, re.MULTILINE))
    assert set(shares) == {"dse", "genetic_algorithm", "random_sample"}
    assert all(0 < float(share) <= 1 for share in shares.values())
