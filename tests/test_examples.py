"""The scripts of examples/ run, and show what they say they show."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"


def run(name, capsys, monkeypatch, *arguments):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    module.main()
    return capsys.readouterr().out


def test_every_example_is_run():
    assert {path.stem for path in FOLDER.glob("*.py")} == {
        "compare_kernel_tuner",
        "fit_gpu",
        "prune_tuner",
        "sweep_designs",
    }


@pytest.mark.slow
def test_sweep_designs(capsys, monkeypatch):
    times = re.findall(r"([\d.]+) µs, bound by", said := run("sweep_designs", capsys, monkeypatch))
    assert len(times) == 5
    assert float(times[4]) < 0.6 * float(times[0])  # twice the bandwidth
    assert "1 % off λ of dram saves most" in said


@pytest.mark.slow
def test_prune_tuner(capsys, monkeypatch):
    said = run("prune_tuner", capsys, monkeypatch)
    assert all(float(share) > 0.9 for share in re.findall(r"([\d.]+) of the best", said))


@pytest.mark.slow
def test_fit_gpu(capsys, monkeypatch):
    said = run("fit_gpu", capsys, monkeypatch)
    found = re.search(r"λ of DRAM: ([\d.]+) times", said)
    assert found is not None
    assert float(found[1]) == pytest.approx(1.5, rel=0.03)
    before, after = (float(x) for x in re.findall(r"mean error of the times ([\d.]+) %", said))
    assert after < 0.2 * before


@pytest.mark.slow
def test_the_comparison_with_kernel_tuner(capsys, monkeypatch):
    pytest.importorskip("kernel_tuner")
    said = run("compare_kernel_tuner", capsys, monkeypatch, "--budget", "8", "--seeds", "1")
    shares = dict(re.findall(r"^(\w+): ([\d.]+) of the best", said, re.MULTILINE))
    assert set(shares) == {"dse", "genetic_algorithm", "random_sample"}
    assert all(0 < float(share) <= 1 for share in shares.values())
