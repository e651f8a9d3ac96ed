"""`dse fit`: times of a GPU with more expensive memory, found again."""

import json
import re

import numpy as np
import pytest

from dse.hardware import gpus

SLOWER = 1.25  # each sector takes so much longer than the catalogue says
LESS = 15 / 16  # of the work
N = 1048576
ROWS = [(block, items) for block in (32, 64, 128, 256) for items in (1, 2, 3, 4)]


def seconds():
    """Of the toy kernel: 4 bytes read and 4 written of each number, by what a sector takes the whole GPU."""
    gpu = gpus.load("a100-pcie-40gb", np.float64).gpu
    sectors = 2 * 4 * N / 32
    return float(SLOWER * sectors * gpu.cpi.dram / gpu.sm_count / gpu.clock)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    path = tmp_path_factory.mktemp("measured") / "a100.csv"
    random = np.random.default_rng(0)
    lines = [f"{block},{items},{1e3 * seconds() * (1 + 0.01 * random.normal()):.6g}" for block, items in ROWS]
    path.write_text("block,items,time_ms\n" + "\n".join(lines) + "\n")
    return str(path)


OPTIONS = (
    "-g",
    "a100-pcie-40gb",
    "-m",
    "roofline",
    "--free",
    "cpi.dram",
    "--free",
    "cpi.fp64",
    "--starts",
    "1",
)


def test_finds_what_was_planted_and_writes_it(run_dse, toy_kernel, measured, tmp_path):
    out = tmp_path / "fitted.toml"
    ran = run_dse("fit", str(toy_kernel), "--measured", measured, *OPTIONS, "--json", "-o", str(out))
    assert ran.code == 0, ran.err
    rows = {row["field"]: row for row in json.loads(ran.out)}
    assert set(rows) == {"cpi.dram", "cpi.fp64"}
    dram = rows["cpi.dram"]
    assert dram["fitted"] == pytest.approx(SLOWER * dram["catalogue"], rel=0.02)
    assert 0 < dram["spread_percent"] < 3
    assert [dram["determined"], rows["cpi.fp64"]["determined"]] == [True, False]

    before = {record.field: record for record in gpus.load("a100-pcie-40gb").fields}
    file = gpus.load(out)
    for record in file.fields:
        if record.field == "cpi.dram":
            assert record.provenance == "fitted"
            assert record.value == pytest.approx(dram["fitted"], rel=1e-5)
            assert record.spread == pytest.approx(dram["spread_percent"] / 100, rel=0.01)
            assert "a100.csv" in record.source
        else:  # what the data cannot tell stays as it was
            assert record == before[record.field]
    assert file.name.endswith("fitted")
    assert file.header.aliases == []
    assert "since the data do not determine them: cpi.fp64" in out.read_text()


@pytest.mark.slow
def test_two_kernels_of_which_each_is_held_out(run_dse, toy_kernel, measured, tmp_path):
    """And a size is set that one of them has and the other has not."""
    text = toy_kernel.read_text().replace('name = "toy"', 'name = "other"')
    other = tmp_path / "kernel.toml"
    other.write_text(text.replace("n = ", "m = ").replace("ceil(n /", "ceil(m /"))
    ran = run_dse(
        *("fit", str(toy_kernel), str(other), "--measured", measured, "--measured", measured),
        *(*OPTIONS, "--set", f"m={LESS * N:.0f}", "-o", str(tmp_path / "fitted.toml")),
    )
    assert ran.code == 0, ran.err
    *_, conclusion = ran.out.splitlines()
    assert "not determined by the data: cpi.fp64" in conclusion
    assert "error of times held out" in conclusion
    assert f"wrote {tmp_path / 'fitted.toml'}" in conclusion
    assert (tmp_path / "fitted.toml").exists()
    lines = [re.split(r"\s{2,}", line.strip()) for line in ran.out.splitlines() if "held out: the k" in line]
    found = {line[1]: [float(text) for text in line[2:5]] for line in lines}
    # Of the same times the other has to do less work: fitted to it, this one takes longer, and fitted to this
    # one, it takes less long.
    assert set(found) == {"toy", "other"}
    assert found["toy"] == pytest.approx([16, 100 * (1 - 1 / SLOWER), 100 * (1 / LESS - 1)], abs=1)
    assert found["other"] == pytest.approx([16, 100 * (1 - LESS / SLOWER), 100 * (1 - LESS)], abs=1)
