"""`dse fit`: times of a GPU with more expensive memory, found again."""

import re

import numpy as np
import pytest

from dse.hardware import gpus

SLOWER = 1.25  # each sector takes so much longer than the catalogue says
LESS = 15 / 16  # of the work
N = 1048576
ROWS = [(block, items) for block in (32, 64, 128, 256) for items in (1, 2, 3, 4)]
FREE = ("-g", "a100-pcie-40gb", "-m", "roofline", "--free", "cpi.dram", "--free", "cpi.fp64", "--starts", "1")


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Of the toy kernel: 4 bytes read and 4 written of each number, by what a sector takes the whole GPU."""
    gpu = gpus.load("a100-pcie-40gb", np.float64).gpu
    seconds = float(SLOWER * (2 * 4 * N / 32) * gpu.cpi.dram / gpu.sm_count / gpu.clock)
    noise = 1 + 0.01 * np.random.default_rng(0).normal(size=len(ROWS))
    lines = [f"{b},{i},{1e3 * seconds * x:.6g}" for (b, i), x in zip(ROWS, noise, strict=True)]
    path = tmp_path_factory.mktemp("measured") / "a100.csv"
    path.write_text("block,items,time_ms\n" + "\n".join(lines) + "\n")
    return path


def test_finds_what_was_planted_and_writes_it(answer, toy_kernel, measured, tmp_path):
    out = tmp_path / "fitted.toml"
    rows = {row["field"]: row for row in answer("fit", toy_kernel, "--measured", measured, *FREE, "-o", out)}
    dram = rows.pop("cpi.dram")
    assert dram["fitted"] == pytest.approx(SLOWER * dram["catalogue"], rel=0.02)
    assert 0 < dram["spread_percent"] < 3
    assert (dram["determined"], rows["cpi.fp64"]["determined"]) == (True, False)
    [record] = [record for record in gpus.load(out).fields if record.field == "cpi.dram"]
    assert record.value == pytest.approx(dram["fitted"], rel=1e-5)
    assert record.spread == pytest.approx(dram["spread_percent"] / 100, rel=0.01)


@pytest.mark.slow
def test_errors_of_kernels_that_are_held_out(run_dse, toy_kernel, measured, tmp_path):
    """The same times, of another kernel that has less work to do: each is fitted to the other."""
    text = toy_kernel.read_text().replace('name = "toy"', 'name = "other"')
    other = tmp_path / "kernel.toml"
    other.write_text(text.replace("n = ", "m = ").replace("ceil(n /", "ceil(m /"))
    files = (toy_kernel, other, "--measured", measured, "--measured", measured)
    ran = run_dse("fit", *files, *FREE, "--set", f"m={LESS * N:.0f}", "-o", tmp_path / "fitted.toml")
    assert ran.code == 0, ran.err
    conclusion = ran.out.splitlines()[-1]
    assert "not determined by the data: cpi.fp64" in conclusion
    assert "error of times held out" in conclusion
    assert (tmp_path / "fitted.toml").exists()
    lines = [re.split(r"\s{2,}", line.strip()) for line in ran.out.splitlines() if "held out: the k" in line]
    errors = {line[1]: [float(text) for text in line[2:5]] for line in lines}
    assert errors == {
        "toy": pytest.approx([16, 100 * (1 - 1 / SLOWER), 100 * (1 / LESS - 1)], abs=1),
        "other": pytest.approx([16, 100 * (1 - LESS / SLOWER), 100 * (1 - LESS)], abs=1),
    }
