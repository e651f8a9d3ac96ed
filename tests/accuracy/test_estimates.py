"""The accuracy lost if few configurations of a source are compiled."""

import json

import pytest
from estimates import main

from dse.errors import DseError

TABLE = """
name = "scale"
summary = "a constant times every number"
[problem]
n = 4096
[parameters]
block = [64, 128, 256]
items = [1, 2, 3, 4]
[launch]
threads = "block"
blocks = "ceil(n / (block * items))"
registers = 32
[warp]
fp32 = "items"
[source]
file = "scale.cu"
block = ["block"]
grid = ["ceil(n / (block * items))"]
arguments = [{ size = "n" }, { size = "n" }, "n"]
"""
CODE = """
extern "C" __global__ void scale(const float* x, float* y, int n)
{
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        const int at = (blockIdx.x * ITEMS + i) * BLOCK + threadIdx.x;
        if (at < n) y[at] = 3.0f * x[at];
    }
}
"""


@pytest.fixture
def estimates(tmp_path, own_cache, capsys):
    """`estimates("--seed", "3")`: what the script prints for made-up times, of which one lacks."""
    (tmp_path / "kernel.toml").write_text(TABLE)
    (tmp_path / "scale.cu").write_text(CODE)
    rows = [f"{b},{n},{1 + b / 256 + 1 / n}" for b in (64, 128, 256) for n in (1, 2, 3)]
    (tmp_path / "a100.csv").write_text("\n".join(["block,items,time_ms", *rows, "64,4,"]))
    kernel, times = str(tmp_path / "kernel.toml"), str(tmp_path / "a100.csv")

    def run(*more):
        main([kernel, "-g", "a100-pcie-40gb", "--measured", times, *more])
        return capsys.readouterr().out

    return run


@pytest.mark.slow
def test_few_compiled(estimates):
    few = ("--compile", "5", "--draws", "2")
    checked = json.loads(estimates(*few, "--json"))
    assert (checked["kernel"], checked["sample"], checked["failures"]) == ("scale", 9, 0)
    assert checked["compiled"] == 5
    assert set(checked["spearman"]) == {"all", "chosen", "random"}
    assert len(checked["spearman"]["random"]) == 2
    assert checked["numbers_off"]["store_insts"]["max"] < 0.5
    assert checked["numbers_off"]["shared_bytes"] == {"median": 0, "p90": 0, "max": 0}
    text = estimates(*few)
    assert text.startswith("scale on NVIDIA A100-PCIE-40GB: 9 configurations")
    assert "5 at random, 2" in text
    assert "bank conflicts exact: none" in text


@pytest.mark.slow
def test_a_source_that_does_not_compile(estimates, tmp_path):
    (tmp_path / "scale.cu").write_text(CODE.replace("3.0f", "three"))
    with pytest.raises(DseError, match=r"scale: source: .*three"):
        estimates("--sample", "3", "--compile", "2")


def test_mistakes(estimates):
    for more, actual in (
        (("--set", "items=4"), "found no configuration of scale that ran"),
        (("--set", "item=4"), "--set: scale: found 'item'"),
        (("--sample", "2", "--compile", "2"), "compile: found 2, expected fewer than the 2 of the sample"),
    ):
        with pytest.raises(DseError, match=actual):
            estimates(*more)
