"""Triton kernels for AMD GPUs: counted work is what the sizes demand, and no time is below the roofline."""

from math import prod

import jax
import numpy as np
import pytest

from dse import api
from dse.hardware import gpus
from dse.hardware.coalescing import SECTOR
from dse.source.amd.compile.triton import read_source
from dse.source.amd.source import AMD
from dse.source.cache import Cache
from dse.source.contract import Failure
from dse.source.launches import configurations
from dse.source.readers import load

pytest.importorskip("triton")
TARGETS = {
    "gfx90a": "mi250x",
    "gfx942": "mi300x",
    "gfx950": "mi355x",
    "gfx1100": "w7900",
    "gfx1201": "rx-9070-xt",
}
TILE = {"BLOCK_M": 64, "BLOCK_N": 64, "num_stages": 2, "num_warps": 4}
# Sizes, parameters, and what they demand: multiply-adds of matrix cores, bytes loaded, bytes stored.
DEMANDS = {
    "triton_matmul": (
        {"M": 256, "N": 512, "K": 1024},
        TILE | {"BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 8},
        (256 * 512 * 1024, 2 * 1024 * (256 * 512 / 128 + 256 * 512 / 64), 2 * 256 * 512),
    ),
    "triton_moe": (  # 512 rows in 8 tiles
        {"token_count": 256, "expert_count": 4, "N": 256, "K": 256},
        TILE | {"BLOCK_K": 64, "GROUP_M": 1},
        (512 * 256 * 256, 2 * 256 * (512 * 256 / 64 + 512 * 256 / 64), 2 * 512 * 256),
    ),
    # Causal: the nth of 4 tiles of 128 queries looks at n of 128 keys. Of 64, warps would repeat products.
    "triton_attention": (
        {"heads": 4, "length": 512},
        TILE | {"BLOCK_M": 128, "HEAD": 64, "CAUSAL": 1},
        (4 * 10 * 2 * 128 * 128 * 64, 2 * 4 * (10 * 2 + 4) * 128 * 64, 2 * 4 * 4 * 128 * 64),
    ),
    "triton_softmax": (
        {"rows": 64, "columns": 2000},
        {"ROWS": 2, "num_warps": 4},
        (0, 4 * 64 * 2000, 4 * 64 * 2000),
    ),
    "triton_layer_norm": (  # rows twice, weights and biases for each row
        {"rows": 64, "columns": 4096},
        {"BLOCK": 1024, "num_warps": 4},
        (0, 2 * 4 * 64 * 4096, 2 * 64 * 4096),
    ),
    "own": ({"rows": 64}, {"COLUMNS": 1024, "num_warps": 4}, (0, 4 * 64 * 1024, 4 * 64)),
}
OWN = """\
name = "own"
summary = "sums of rows"
[problem]
rows = 64
[parameters]
COLUMNS = [1024]
num_warps = [4]
[source]
file = "own.py"
kernel = "sums"
grid = ["rows"]
arguments = [{ size = "rows" }, { size = "rows * COLUMNS" }]
"""
SUMS = """\
import triton
import triton.language as tl


@triton.jit(repr=lambda specialised: f"sums_of_{specialised.constants['COLUMNS']}")
def sums(result, matrix, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    tl.store(result + row, tl.sum(tl.load(matrix + row * COLUMNS + tl.arange(0, COLUMNS))))
"""
INDICES = 0.05  # of bytes: which token is whose comes on top
CASES = [("triton_matmul", on) for on in TARGETS]  # whose matrix cores differ
CASES += [("triton_attention", "gfx950"), *((name, "gfx1100") for name in DEMANDS if name != "triton_matmul")]


@pytest.mark.quick("triton_matmul-gfx942")
@pytest.mark.parametrize(("name", "target"), CASES)
def test_work_is_what_the_sizes_demand_and_no_time_is_below_the_roofline(tmp_path, own_cache, name, target):
    sizes, values, (work, loaded, stored) = DEMANDS[name]
    path = name
    if name == "own":
        (tmp_path / "own.py").write_text(SUMS)
        path = tmp_path / "kernel.toml"
        path.write_text(OWN)
    kernel, gpu = load(path), jax.tree.map(np.asarray, gpus.load(TARGETS[target]).gpu)
    assert hex(int(gpu.gfx)) == f"0x{target[3:]}"
    columns = {key: np.array([value]) for key, value in values.items()}
    wanted, source = configurations(kernel, columns, kernel.sizes(**sizes), gpu), AMD.source_of(kernel)
    [profile] = AMD.characterise_all(
        source, AMD.architecture(gpu, source), wanted, gpu, Cache(tmp_path / "own")
    )
    assert not isinstance(profile, Failure), profile
    counts = profile.counts
    assert prod(counts.block) == values["num_warps"] * int(gpu.limits.warp_size)
    multiplied = sum(phase.passes * phase.tensor.get("mma_fp16", 0.0) for phase in counts.phases)
    assert multiplied * counts.blocks == pytest.approx(work)

    def moved(kind: str) -> float:
        accesses = [(phase.passes, phase.accesses[kind]) for phase in counts.phases if kind in phase.accesses]
        return sum(passes * access.bytes for passes, access in accesses) * counts.blocks

    assert loaded <= moved("global load") <= (1.0 + INDICES * (name == "triton_moe")) * loaded
    assert moved("global store") == pytest.approx(stored)
    past_l2 = sum(phase.passes * phase.traffic.stores_past_l2 for phase in counts.phases if phase.traffic)
    assert past_l2 * SECTOR * counts.blocks >= 0.99 * stored  # each warp its own
    seconds = api.predict(path, TARGETS[target], values, sizes=sizes).seconds
    arithmetic = work * float(gpu.cpi.mma_fp16) / float(gpu.sm_count * gpu.clock)
    assert float(seconds) >= max(arithmetic, stored / float(gpu.dram_bandwidth))


ASSEMBLY = """\
import triton
import triton.language as tl


@triton.jit
def halves(x, BLOCK: tl.constexpr):
    at = x + tl.arange(0, BLOCK)
    words = tl.load(at)
    low, high = tl.inline_asm_elementwise(
        "mov.b32 {$0, $1}, $2;", "=h,=h,r", args=[words], dtype=(tl.int16, tl.int16), is_pure=True, pack=1
    )
    tl.store(at, low.to(tl.int32) + high)
"""


def test_assembly_of_another_vendor_is_no_code(tmp_path, monkeypatch):
    """The compiler goes on without its results, and without all that only they need."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    (tmp_path / "halves.py").write_text(ASSEMBLY)
    source = read_source(tmp_path / "halves.py", "halves", ("*i32",))
    for _ in range(2):  # the second time Triton would have it from its cache
        made = source.compile(0x942, source.settings((("BLOCK", 256), ("num_warps", 4)), (None,)))
        assert isinstance(made, Failure)
        assert made.message.endswith("halves: could not allocate output register for constraint 'h'")
