"""Kernels whose blocks differ in work, on GPUs of both vendors: counts are those of all blocks, or it is said
that they are not known.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from dse.hardware import gpus
from dse.source.amd import source as amd
from dse.source.amd.compile.source import Built
from dse.source.amd.compile.source import read_source as read_hip
from dse.source.caches.cache_model import Traffic
from dse.source.launches import Array, Configuration
from dse.source.machine.launch import Dimensions
from dse.source.nvidia.arguments import as_launched
from dse.source.nvidia.compile.contract import Compiled
from dse.source.nvidia.compile.nvrtc import read_source
from dse.source.nvidia.profiled import executed
from dse.source.nvidia.sass import elf
from dse.source.nvidia.sass.disassemble import disassemble
from dse.source.profile.characterise import Characterisation

CODE = """extern "C" __global__ void {name}(const int* x, int* y)
{{
    int b = blockIdx.x, c = blockIdx.y, t = threadIdx.x, i = b * blockDim.x + t, trips = {trips};
    int sum = 0;
#pragma unroll 1
    for (int trip = 0; trip < trips; ++trip) sum += x[{place}];
    y[i] = sum;
}}
"""
THREADS = 64
FEW, ROW, WIDE, SQUARE = (1000, 1, 1), (20_000, 1, 1), (1_000_000, 1, 1), (1_000, 900, 1)
# Trips of a thread t of block (b, c): in C, and in Python over arrays.
Work = tuple[str, Callable[..., Any]]
SEEN: dict[str, Work] = {
    "alike": ("20", lambda b, c, t: 20),
    "period_64": ("10 + 900 * (b % 64 == 3)", lambda b, c, t: 10 + 900 * (b % 64 == 3)),
    "triangle": ("1 + b % 50", lambda b, c, t: 1 + b % 50),
    "masked": ("20 * (b < 700)", lambda b, c, t: 20 * (b < 700)),
    "one_heavy": ("b == 77 ? 100000 : 10", lambda b, c, t: np.where(b == 77, 100_000, 10)),
}
PROVEN: dict[str, tuple[str, Callable[..., Any], Dimensions]] = {
    "heavy_by_its_number": (
        "c * 1000 + b == 47110 ? 1000000 : 10",
        lambda b, c, t: np.where(c * 1000 + b == 47_110, 1_000_000, 10),
        SQUARE,
    ),
    "limit": ("b >= 12345 ? 0 : 20", lambda b, c, t: np.where(b >= 12_345, 0, 20), WIDE),
    "tile": (
        "b * 16 + t % 16 < 1501 && c * 4 + t / 16 < 1503 ? 20 : 0",
        lambda b, c, t: 20 * ((b * 16 + t % 16 < 1501) & (c * 4 + t // 16 < 1503)),
        SQUARE,
    ),
    "inside": (  # by the least and the greatest of both, on AMD
        "i > 0 && c > 0 && i < 777 && c < 777 ? 20 : 0",
        lambda b, c, t: 20 * ((b * 64 + t > 0) & (c > 0) & (b * 64 + t < 777) & (c < 777)),
        SQUARE,
    ),
    "every_64th": ("b % 64 == 0 ? 1000 : 10", lambda b, c, t: np.where(b % 64, 10, 1000), ROW),
    "groups": ("b / 4096 == 2 ? 300 : 10", lambda b, c, t: np.where(b // 4096 == 2, 300, 10), WIDE),
}
UNKNOWN = {
    "every_1000th": "b % 1000 == 7 ? 10000 : 10",
    "one_by_a_hash": "(b * 2654435761u) % 1000003 == 77777 ? 1000000 : 10",
    "one_by_contents": "x[b] == 99 ? 1000000 : 10",
}
TRIPS = {name: work[0] for name, work in (*SEEN.items(), *PROVEN.items())} | UNKNOWN
APART = {  # trips by evenly spaced contents, of this type and by this expression, and words loaded in all
    "apart": ("x[i + 1] - x[i]", "int32", "7 * index", 9),  # two, then one a trip
    "inverted": ("x[i + 1] + ~x[i]", "int32", "7 * index", 8),
    "wide": ("((const long long*)x)[i + 1] - ((const long long*)x)[i] > 6 ? 7 : 0", "int64", "7 * index", 11),
    "pairs": ("((const int2*)x)[i].y - ((const int2*)x)[i].x", "int32", "(index + 13 * (index % 2)) // 2", 9),
}
SOURCE = "".join(
    CODE.format(name=name, trips=trips, place="i + trip * 1024")
    for name, trips in (TRIPS | {name: rows[0] for name, rows in APART.items()}).items()
)
SOURCE += CODE.format(name="strided", trips="20", place="t * (b % 2 ? 32 : 1) + trip * 32")
SOURCE += CODE.format(name="in_groups", trips="20", place="(c / 4 * 16 + b) * 1280 + trip * 64 + t")
SOURCE += """extern "C" __global__ void staged(const int* x, int* y)
{
    __shared__ int rows[64];
    int b = blockIdx.x, t = threadIdx.x, sum = 0;
    if (t >= 192) rows[t - 192] = x[b * 64 + t - 192];
    __syncthreads();
    for (int i = 0; i < 64; ++i) sum += x[rows[i] * 256 + t];
    y[b * 256 + t] = sum;
}
"""
SOURCE += """extern "C" __global__ void turns(const int* x, int* y)
{
    __shared__ int last[64];
    for (int row = blockIdx.x, t = threadIdx.x; row < 1000; row += gridDim.x) {
        last[t] = x[row * 64 + t];
        __syncthreads();
        y[row * 64 + t] = last[63 - t];
        __syncthreads();
    }
}
"""
SOURCE += CODE.format(name="uniform", trips="16", place="b * 16 + trip")
GATHERED = "((i / 32 * 10u + trip) * (i / 32 * 10u + trip) * 2654435761u >> 20) * 32 + t % 32"
SOURCE += CODE.format(name="gathered", trips="10", place=GATHERED)
PAGES = "4096 + x[(c * 64 + trip) * 2 + t / 32] * 32 + t % 32"
SOURCE += CODE.format(name="pages", trips="64", place=PAGES)
HEADS = "8192 + x[(b * 256 + trip) * 2 + t / 32] * 256 + c * 32 + t % 32"
SOURCE += CODE.format(name="heads", trips="256", place=HEADS)
CONTENTS = Array(2**20, "int32", "99 if index == 4711 else 5 + 35 * random", ())


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    """Counts of a launch of one of the kernels, which are compiled together, on an A100."""
    path: Path = tmp_path_factory.mktemp("blocks") / "k.cu"
    path.write_text(SOURCE)
    made, gpu = read_source(path, "alike").compile(80, ()), gpus.load("a100_pcie_40gb").gpu
    assert isinstance(made, Compiled)
    binaries = elf.read(made.cubin, "k")
    listings = dict(zip(binaries, disassemble([*binaries.values()]), strict=True))
    gpu = jax.tree.map(np.asarray, gpu)

    def counted(name: str, grid: Dimensions, x: Array | None = None, threads: int = THREADS):
        code = replace(made, binary=binaries[name])
        wanted = Configuration((), grid, (threads, 1, 1), (x, None))
        return executed(code, listings[name], as_launched(code, wanted), gpu).counts

    return counted


@pytest.fixture(scope="module")
def counted_for_amd(tmp_path_factory):
    """The same on an MI250X."""
    path: Path = tmp_path_factory.mktemp("blocks") / "k.cu"
    path.write_text(SOURCE)
    gpu = jax.tree.map(np.asarray, gpus.load("mi250x").gpu)
    built = read_hip(path, "alike").compile(0x90A, ())
    assert isinstance(built, Built)

    def counted(name: str, grid: Dimensions, x: Array | None = None, threads: int = THREADS):
        wanted = Configuration((), grid, (threads, 1, 1), (x, None))
        return amd.completed(built, wanted, gpu, read_hip(path, name))[0].counts

    return counted


def trips_of(counts: Characterisation) -> float:
    """Of the average thread."""
    return counts.total("global load", "bytes") / 4 / THREADS


def mean(work: Callable[..., Any], grid: Dimensions) -> float:
    return float(np.mean(work(*np.ogrid[: grid[0], : grid[1], :THREADS])))


@pytest.mark.slow
@pytest.mark.parametrize("vendor", ["counted", "counted_for_amd"])
@pytest.mark.parametrize("name", SEEN)
def test_some_blocks_stand_for_all(request, name, vendor):
    counts = request.getfixturevalue(vendor)(name, FEW)
    assert trips_of(counts) == pytest.approx(mean(SEEN[name][1], FEW), rel=0.002 + 4 * counts.spread)
    assert (counts.unseen, counts.spread < 0.02) == (0, True)


@pytest.mark.parametrize(("vendor", "each"), [("counted", 1), ("counted_for_amd", 2)])
def test_blocks_whose_accesses_alone_differ_have_a_spread(request, vendor, each):
    """Half of the blocks have a sector (AMD: a line of 64 bytes) of each thread, the others one of eight."""
    counts = request.getfixturevalue(vendor)("strided", FEW)
    sectors = counts.total("global load", "sectors") / 20
    assert abs(sectors / (THREADS * (each + 1 / 8) / 2) - 1) < 4 * counts.spread


@pytest.mark.parametrize("vendor", ["counted", "counted_for_amd"])
@pytest.mark.parametrize(
    ("name", "grid", "words"),
    [
        ("in_groups", (16, 64, 1), 16 * 64 / 4 * 1280),
        ("turns", (132, 1, 1), 64_000),
        ("gathered", (2000, 1, 1), 4096 * 32),
        ("uniform", (2000, 1, 1), 32_000),
    ],
)
def test_blocks_share_what_does_not_move_evenly_from_one_to_the_next(request, vendor, name, grid, words):
    """As scales of four tiles, one below the other; rows that share nothing, of which some blocks have more;
    rows that warps gather, all of them in the end; and words of a whole block (AMD: by scalar loads).
    """
    counts = request.getfixturevalue(vendor)(name, grid)
    traffic = sum((phase.traffic * phase.passes for phase in counts.phases), Traffic())
    few = 4e-3  # of the rows that are assumed to be anywhere are never read
    assert traffic.loads_past_l2 * counts.blocks == pytest.approx(words * 4 / 32, rel=few)


@pytest.mark.parametrize("vendor", ["counted", "counted_for_amd"])
@pytest.mark.parametrize(
    ("name", "grid", "threads", "contents", "words", "apart"),
    [
        ("staged", FEW, 256, "index * 7 % 4096", 2**20, 0.08),  # all of x once
        ("pages", (1, 32, 1), THREADS, "index * 1597 % 4096", 2**12 + 2**17, 0.02),
        ("heads", (16, 8, 1), THREADS, "index * 1597 % 8192", 2**13 + 2**21, 0.02),
        ("pages", (64, 32, 1), THREADS, "index * 1597 % 4096", 2**12 + 2**17, 0.02),
    ],
)
def test_places_that_words_say_are_those_of_each_block(
    request, vendor, name, grid, threads, contents, words, apart
):
    """Words that another warp stores in shared memory; words of a table, others for each warp and trip."""
    counts = request.getfixturevalue(vendor)(name, grid, Array(2**22, "int32", contents, ()), threads)
    traffic = sum((phase.traffic * phase.passes for phase in counts.phases), Traffic())
    assert traffic.loads_past_l2 * counts.blocks == pytest.approx(words * 4 / 32, rel=apart)


@pytest.mark.quick("limit")
@pytest.mark.parametrize("vendor", ["counted", "counted_for_amd"])
@pytest.mark.parametrize("name", PROVEN)
def test_what_is_proven_of_all_blocks_is_exact(request, name, vendor):
    _, work, grid = PROVEN[name]
    counts = request.getfixturevalue(vendor)(name, grid)
    assert trips_of(counts) == pytest.approx(mean(work, grid), rel=1e-9)
    assert (counts.unseen, counts.spread) == (0, 0.0)


@pytest.mark.quick("hash")
@pytest.mark.parametrize("vendor", ["counted", "counted_for_amd"])
@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_proven_is_said(request, name, vendor):
    counts = request.getfixturevalue(vendor)(name, ROW, CONTENTS if "x[" in UNKNOWN[name] else None)
    assert 0.7 * counts.blocks < counts.unseen < counts.blocks
    assert counts.doubtful


@pytest.mark.parametrize("vendor", ["counted", "counted_for_amd"])
@pytest.mark.parametrize("name", APART)
def test_contents_that_are_evenly_apart_are_known_for_all_blocks(request, name, vendor):
    _, kind, contents, loads = APART[name]
    counts = request.getfixturevalue(vendor)(name, ROW, Array(2**22, kind, contents, ()))
    assert counts.unseen == 0
    assert trips_of(counts) == pytest.approx(loads, rel=1e-9)
