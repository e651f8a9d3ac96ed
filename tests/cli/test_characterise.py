"""`dse characterise`: a kernel's source counted beside its description, or one line on why not."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dse.cuda import compile as compiler

TABLE = """
name = "triple"
summary = "three times every number"
[problem]
n = 100_000
[parameters]
block = [48, 64]
items = [1, 2]
[launch]
threads = "block"
blocks = "ceil(n / (block * items))"
registers = 40
[warp]
fp32 = "items"
int32 = "7 * items"
[[access]]
name = "x"
space = "global"
op = "load"
count = "items"
[[access]]
name = "y"
space = "global"
op = "store"
count = "items"
[source]
file = "triple.cu"
block = ["block"]
grid = ["ceil(n / (block * items))"]
arguments = [{ size = "n" }, { size = "n" }, "n"]
"""
CODE = """
extern "C" __global__ void triple(const float* x, float* y, int n)
{
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        const int at = (blockIdx.x * ITEMS + i) * BLOCK + threadIdx.x;
        if (at < n) y[at] = 3.0f * x[at];
    }
}
"""


@pytest.fixture
def triple(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DSE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "triple.cu").write_text(CODE)
    (tmp_path / "kernel.toml").write_text(TABLE)
    return tmp_path


def values(ran) -> dict[tuple[str, str], tuple[float | None, float | None]]:
    rows = json.loads(ran.out)
    return {(row["part"], row["name"]): (row["source"], row["description"]) for row in rows}


def test_counts_stand_beside_the_description(run_dse, triple: Path):
    found = values(run_dse("characterise", str(triple), "-g", "a100-pcie-40gb", "--set", "items=2", "--json"))
    blocks = -(-100_000 // 96)
    assert found["resources", "threads"] == (48, 48)
    assert found["resources", "blocks"] == (blocks, blocks)
    assert found["resources", "registers"][1] == 40
    assert found["resources", "spill_bytes"] == (0, None)
    # The last block has 64 of 96 numbers left: its second pass has half a warp.
    warps = (4 * (blocks - 1) + 3) / blocks / 2
    for name in ("load_insts", "store_insts"):
        source, description = found["global", name]
        assert (source, description) == (pytest.approx(warps), 2)
    assert found["warp", "fp32"][1] == 2
    assert found["phase 1", "passes"] == (1, None)
    assert 0.7 < found["phase 1", "lanes active"][0] <= 0.75
    assert found["phase 1", "global load: requests"][0] == pytest.approx(warps)


def test_as_a_table_of_the_first_valid_configuration(run_dse, triple: Path):
    ran = run_dse("characterise", str(triple), "-g", "a100-pcie-40gb", "--set", "n=4096")
    assert ran.code == 0
    assert "block=48, items=1" in ran.out.replace("\n", " ")
    for text in ("registers", "int32", "sectors", "all phases", "phase 1", "lanes active"):
        assert text in ran.out


def test_a_failure_ends_in_one_line(run_dse, triple: Path):
    (triple / "triple.cu").write_text(CODE.replace("3.0f *", "three *"))
    ran = run_dse("characterise", str(triple), "-g", "a100-pcie-40gb")
    assert ran.code == 2
    assert ran.err.startswith(
        'dse: triple: compile error: triple.cu(7): error: identifier "three" is undefined'
    )
    assert ran.err.endswith("(at block=48, items=1)\n")
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("triple", "-g", "mi250x"), "compute capability: found none (AMD), expected one from 7.5 to "),
        (("triple", "-g", "v100-pcie"), "compute capability: found 7.0, expected one from 7.5 to "),
        (("gemm", "-g", "t4"), "kernel.toml: source: found none, expected a table with file"),
        (
            ("triple", "-g", "t4", "--set", "size=4"),
            "--set: triple: found 'size', expected one of block, items, n",
        ),
    ],
)
def test_mistakes_are_told_in_one_line(run_dse, triple: Path, arguments: tuple[str, ...], message: str):
    kernel = str(triple) if arguments[0] == "triple" else arguments[0]
    ran = run_dse("characterise", kernel, *arguments[1:])
    assert ran.code == 2
    assert message in ran.err
    assert ran.err.count("\n") == 1


@pytest.fixture
def without_the_extra(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    found = (compiler._nvrtc, compiler.architectures, compiler.compiler)
    for each in found:
        each.cache_clear()
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "cuda.bindings.nvrtc", None)
        yield
    for each in found:
        each.cache_clear()


@pytest.mark.usefixtures("without_the_extra")
def test_without_the_extra_it_says_what_to_install(run_dse, triple: Path):
    ran = run_dse("characterise", str(triple), "-g", "a100-pcie-40gb")
    assert ran.code == 2
    assert (
        ran.err == 'dse: cuda-bindings: found none, expected the extra "cuda": pip install "gpu-dse[cuda]"\n'
    )
