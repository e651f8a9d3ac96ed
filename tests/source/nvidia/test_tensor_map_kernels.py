"""Descriptors that a Triton kernel makes move what those among its arguments move, and what pointers do."""

from pathlib import Path

import pytest

from dse.hardware import gpus
from dse.source.cache import Cache
from dse.source.contract import Failure
from dse.source.launches import configurations
from dse.source.nvidia.source import CUDA, source_of
from dse.source.profile.average_warp import warp_counts
from dse.source.profiles import KernelProfile
from dse.source.readers import Given, load
from dse.source.warps import to_kernel

pytest.importorskip("triton")

FILE = Path(__file__).with_name("tensor_map_kernels.py")
M, N, K, WARPS = 200, 144, 192, 4
BLOCKS = 4 * 3
MAP_SECTORS = 128 // 32
ARRAYS = ("*fp16", "*fp16", "*fp16", "i32", "i32", "i32")
BOXES = tuple(f"tensordesc<fp16[{box}]>" for box in ("BM,BK", "BK,BN", "BM,BN"))
SIGNATURES = {"made": ARRAYS, "by_boxes": (*BOXES, "i32"), "by_pointers": ARRAYS}
SHAPES = (f"a={M},{K}", f"b={K},{N}", f"c={M},{N}")


@pytest.fixture
def read(monkeypatch, tmp_path):
    """Read a kernel of the file for an architecture."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))

    def reader(kernel: str, arch: int, signature: tuple[str, ...], arguments: tuple[str, ...] = ()):
        given = Given(
            grid=("4", "3"),
            signature=signature,
            arguments=arguments,
            tuned=(("BM", (64,)), ("BN", (64,)), ("BK", (32,))),
            sizes=(("M", M), ("N", N), ("K", K)),
        )
        description, gpu = load(f"{FILE}:{kernel}", given), gpus.load("h100-sxm").gpu
        columns = description.space.configurations(description.sizes())
        (wanted,) = configurations(description, columns, description.sizes(), gpu)
        cache = Cache(tmp_path / "cache")
        [profile] = CUDA.characterise_all(source_of(description), arch, [wanted], cache=cache, workers=1)
        return profile

    return reader


def moved(profile: KernelProfile | Failure) -> dict[str, float]:
    """Sectors and multiply-adds of all warps."""
    assert isinstance(profile, KernelProfile), profile
    kernel = to_kernel(warp_counts(profile.counts))
    of_warp = {"sectors": kernel.sectors, "mma": kernel.work.mma_fp16}
    return {name: float(count) * WARPS * BLOCKS for name, count in of_warp.items()}


@pytest.mark.quick("90")
@pytest.mark.parametrize("arch", [90, 100])
def test_it_moves_the_same_bytes_and_its_own_maps(read, arch):
    by = {name: moved(read(name, arch, kinds, SHAPES if name == "by_boxes" else ()))
          for name, kinds in SIGNATURES.items()}  # fmt: skip
    loaded = 3 * M * K + 4 * N * K + M * N  # by three columns of blocks, four rows, and once
    assert by["by_boxes"]["sectors"] == by["by_pointers"]["sectors"]
    assert by["by_boxes"]["sectors"] * 32 == 2 * loaded
    assert by["made"]["sectors"] - by["by_boxes"]["sectors"] == 3 * MAP_SECTORS * BLOCKS
    assert {kind["mma"] for kind in by.values()} == {BLOCKS * 64 * 64 * K}


def test_without_such_copies_it_is_read_as_pointers(read):
    assert moved(read("made", 80, ARRAYS))["sectors"] == moved(read("by_pointers", 80, ARRAYS))["sectors"]


def test_maps_that_a_loop_rewrites_are_those_of_each_trip(read):
    rows = ("pointers=6:int64:(index + 1) * 2**24", "rows=2:int32:72 + 128 * index", "groups=2")
    both = moved(read("grouped", 90, ("*i64", "*i32", "i32", "i32", "i32"), rows))
    alone = [moved(read("made", 90, (*ARRAYS[:3], str(size), "i32", "i32")))["sectors"] for size in (72, 200)]
    decided = both["sectors"] - sum(alone)
    assert both["mma"] == 2 * BLOCKS * 64 * 64 * K
    assert 0 < decided <= 2 * 4 * 4 * WARPS * BLOCKS  # a pointer, or a number of rows, of each warp
