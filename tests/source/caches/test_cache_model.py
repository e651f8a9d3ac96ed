"""What goes past the L1, against sectors counted one by one, and a cache that is played through."""

import random
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.sass_code import compiled, prepared

from dse.hardware.gpus import load
from dse.source.caches.cache_model import (
    SLOWEST,
    Caches,
    Traffic,
    caches_of,
    fill_rate,
    kept_at_random,
    latency_of_slowest,
    misses,
)
from dse.source.machine.blocks import representative
from dse.source.machine.launch import LaunchArguments
from dse.source.nvidia.execute.interpret import run
from dse.source.nvidia.execute.loop_skipping import LoopPolicy
from dse.source.nvidia.machine.state import BoundProgram
from dse.source.nvidia.profile.characterise import touched_bytes
from dse.types import Gpu

NO_L1 = Caches(l1_bytes=0, l2_bytes=1e12, sm_count=10**6, resident_blocks=4)


def test_between_the_union_of_a_block_and_its_requests(launched, kernel: str):
    machine, sample = launched(kernel)
    block = int(np.argmax(sample.weights))
    union = len(launched.touched(machine, block, "load"))
    for l1_bytes in (0, 2**10, 2**14, 2**20):
        # on a GPU with more SMs than blocks none finds what another left in its L1
        caches = Caches(l1_bytes, 2**22, sm_count=1000, resident_blocks=2, local_bytes=0)
        moved = launched.traffic(kernel, caches)
        assert 0.997 * union <= moved.loads_past_l1 <= moved.loads  # the average block does a little less
        assert 0 <= moved.loads_past_l2 <= moved.loads_past_l1
        assert sum(moved.served) == pytest.approx(1)


def test_what_was_just_loaded_is_found(launched):
    """All lanes of a warp walk down a list, 4 bytes at a time: 8 loads in a row find one sector."""
    machine, sample = launched("walk")
    union = len(launched.touched(machine, int(np.argmax(sample.weights)), "load"))
    moved = launched.traffic("walk", Caches(2**13, 2**22, 80, 1))  # the lists take twice as much
    assert union <= moved.loads_past_l1 <= 1.1 * union
    assert union < moved.loads / 8
    # Each warp has a list of its own, and all read another one at the same time.
    assert launched.traffic("walk", NO_L1).loads_past_l1 == pytest.approx(1000 * (4 + 1))


def test_larger_caches_never_miss_more(launched, kernel: str):
    sizes = [2**power for power in range(8, 24, 2)]
    by_l1 = [launched.traffic(kernel, Caches(size, 2**20, 4, 3, 64)) for size in sizes]
    by_l2 = [launched.traffic(kernel, Caches(2**12, size, 4, 3, 64)) for size in sizes]
    for smaller, larger in pairwise(by_l1):
        assert larger.loads_past_l1 <= smaller.loads_past_l1 + 1e-6
    for smaller, larger in pairwise(by_l2):
        assert larger.dram_sectors <= smaller.dram_sectors + 1e-6
        assert larger.l2_sectors == smaller.l2_sectors


def test_an_l2_loses_to_the_cache_behind_it_what_blocks_read_again(launched, kernel: str):
    """Then each warp fetches its own, which is written to the L2 before it is read. DRAM sends no more."""
    sizes = (np.inf, 2.0**24, 2.0**14, 2.0**10, 0.0)
    apart = [launched.traffic(kernel, Caches(2**12, 2**24, 4, 3, 64, size)) for size in sizes]
    for larger, smaller in pairwise(apart):
        assert smaller.loads_past_l1 >= larger.loads_past_l1
        assert smaller.dram_sectors == pytest.approx(larger.dram_sectors)
    assert apart[0].filled == 0.0
    assert apart[-1].filled == apart[-1].loads_past_l1
    assert apart[-1].loads == pytest.approx(apart[-1].filled, rel=0.07)  # an L1 keeps spilled words
    assert apart[-1].l2_sectors == pytest.approx(2 * apart[-1].filled + apart[-1].stores)


@settings(max_examples=10, deadline=None)
@given(
    lines=st.integers(40, 120),
    room=st.integers(20, 100),
    local=st.sampled_from([0.0, 0.5, 0.9]),
    seed=st.integers(0, 99),
)
def test_fills_as_a_cache_that_replaces_at_random(lines, room, local, seed):
    """Against one that is played through: some accesses go to a line touched lately, others to any."""
    rng = random.Random(seed)
    touches = [0]
    for _ in range(4000):
        near = rng.random() < local
        touches.append(touches[-rng.randint(1, min(8, len(touches)))] if near else rng.randrange(lines))
    held: list[int] = [-1] * room
    fills = 0
    for line in touches:
        if line not in held:
            held[rng.randrange(room)] = line
            fills += 1
    times = np.ones(len(touches))
    rate = fill_rate(np.array(touches), np.arange(len(touches)), times, len(touches), room)
    if lines > 1.5 * room:  # near that a few fills decide how long lines stay
        assert rate * room * len(touches) == pytest.approx(fills, rel=0.15, abs=60)
    elif lines < 0.6 * room:  # few are ever thrown out
        assert rate * room * len(touches) <= 3 * lines


@pytest.mark.parametrize("needed", [1.1, 1.5, 2.0, 4.0])
def test_kept_at_random(needed):
    rng, room = random.Random(1), 200
    lines = int(needed * room)
    held: set[int] = set()
    places = [-1] * room
    hits = 0
    for touch in range(60 * lines):
        line = touch % lines
        if line in held:
            hits += touch >= 30 * lines
            continue
        place = rng.randrange(room)
        held.discard(places[place])
        places[place] = line
        held.add(line)
    assert kept_at_random(needed) == pytest.approx(hits / (30 * lines), abs=0.03)
    assert kept_at_random(0.9) == kept_at_random(1.0) == 1


@cache
def gpu(name: str) -> Gpu:
    return load(name).gpu


def test_shared_memory_takes_its_part_of_the_l1():
    """Carve-outs of 32 and 64 KiB of 96 on Turing; of 0, 8, ... 100, 132, 164 of 192 on the A100, where each
    block takes 1 KiB more.
    """
    kib = 1024
    turing, ampere = gpu("rtx_2080_ti"), gpu("a100")
    assert [caches_of(turing, size, 4).l1_bytes / kib for size in (0, 8192, 8193)] == [64, 64, 32]
    assert [caches_of(ampere, size, 4).l1_bytes / kib for size in (0, 20000, 24000)] == [184, 92, 92]
    apart = gpu("gtx_1060_6gb")  # has its shared memory beside the L1
    assert caches_of(apart, 8448, 4).l1_bytes == float(apart.l1_bytes)


def test_who_waits_for_several_waits_for_the_furthest():
    levels, traffic = gpu("a100").latency, Traffic(8.0, 4.0, 1.0)
    single, many = (latency_of_slowest(traffic, gpu("a100"), sectors) for sectors in (1, 1000))
    l1, l2, dram = float(levels.l1), float(levels.l2), SLOWEST * float(levels.dram)
    assert single == pytest.approx(l1 / 2 + l2 * 3 / 8 + dram / 8)
    assert many == pytest.approx(dram)


@pytest.mark.parametrize("name", ["walk", "grid_stride"])
def test_skipped_trips_are_followed_in_their_order(launched, name: str):
    launch = launched.launches[name]
    sample = representative(launch.grid)
    every = run(launched.bound(name), launch, sample.blocks, loops=LoopPolicy.RUN)
    assert len(every.streams) > len(launched(name)[0].streams)
    for l1_bytes in (2**9, 2**11, 2**13):
        caches = Caches(l1_bytes, 2**14, 2, 2)
        full = sum(misses(every, sample, caches).values(), Traffic())
        assert launched.traffic(name, caches).loads_past_l1 == pytest.approx(full.loads_past_l1, rel=1e-9)
        assert launched.traffic(name, caches).dram_sectors == pytest.approx(full.dram_sectors, rel=1e-9)


def moved(code: BoundProgram, launch: LaunchArguments, caches: Caches) -> Traffic:
    """By the blocks that stand for all."""
    sample = representative(launch.grid)
    return sum(misses(run(code, launch, sample.blocks), sample, caches).values(), Traffic())


BACK = """
extern "C" __global__ void f(const float* x, float* y, int n)
{
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += 256) y[n * blockIdx.x + i] = x[n * blockIdx.x + i] + 1;
    for (int i = threadIdx.x; i < n; i += 256) sum += y[n * blockIdx.x + i + AHEAD];
    y[n * blockIdx.x + threadIdx.x] = sum;
}
"""


@pytest.mark.quick("0-65536")
@pytest.mark.parametrize(("ahead", "l2_bytes", "again"), [(0, 2**30, 0), (1 << 20, 2**30, 1), (0, 2**16, 1)])
def test_the_l2_has_what_the_block_has_stored(ahead: int, l2_bytes: int, again: int) -> None:
    """Unless that is elsewhere, or what all blocks of a wave touch leaves it no room."""
    n, code = 4096, prepared(compiled(BACK, AHEAD=ahead))
    launch = LaunchArguments((64, 1, 1), (256, 1, 1), (None, None, n))
    actual = moved(code, launch, Caches(2**15, l2_bytes, 16, 4))
    assert actual.loads_past_l2 == pytest.approx((1 + again) * n * 4 / 32, rel=0.07)
    assert actual.stores_past_l2 >= (1 - 1e-9) * n * 4 / 32


COLUMNS = """
extern "C" __global__ void f(const float* x, const int* columns, float* y)
{
    const int i = blockIdx.y * blockDim.x + threadIdx.x;
    y[2048 * (ROWS * blockIdx.x + blockIdx.z) + i] = x[8192 * blockIdx.x + columns[i]];
}
"""


@pytest.mark.parametrize("rows", [1, 2])  # blocks that read the same
def test_blocks_share_the_rows_that_they_gather_from(rows: int) -> None:
    """Rows move with the first dimension of the grid, places in them with the second by data alone."""
    code, grid = prepared(compiled(COLUMNS, ROWS=rows)), (64, 16, rows)
    columns = np.random.default_rng(3).integers(0, 8192, 2048).astype(np.int32)
    launch = LaunchArguments(grid, (128, 1, 1), (None, columns, None))
    actual = moved(code, launch, Caches(2**15, 2**30, 16, 4))
    expected = 64 * len(np.unique(columns // 8)) + 2048 * 4 / 32
    assert actual.loads_past_l2 * np.prod(grid) == pytest.approx(expected, rel=0.05)


ARRAY = """
extern "C" __global__ void f(float* y, const float* x, const int* places, int used)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float kept[256];
#pragma unroll 1
    for (int k = 0; k < used; ++k) kept[k] = x[i + 1024 * k];
    float sum = 0;
#pragma unroll 1
    for (int k = used; k-- > 0;) sum += sum * kept[PLACE];
    y[i] = sum;
}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "used", "expected"), [("k", 8, 32), ("k", 200, 800), ("places[i] & 255", 8, 1024)]
)
def test_only_what_is_used_of_a_local_array_takes_room(place: str, used: int, expected: int):
    """Where places in it depend on data, all of it may be used."""
    made = compiled(ARRAY, 86, PLACE=place)
    assert made.binary.stack_bytes == 1024
    launch, code = LaunchArguments((4, 1, 1), (256, 1, 1), (None, None, None, used)), prepared(made)
    assert touched_bytes(run(code, launch, representative(launch.grid).blocks), 1024) == expected
    few, all_of_it = (
        moved(code, launch, Caches(2**15, 2**20, 68, 4, taken)).dram_sectors for taken in (expected, 1024)
    )
    assert few < all_of_it if expected < 500 else few <= all_of_it
