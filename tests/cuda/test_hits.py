"""What goes past the caches, against sectors counted one by one, and a cache that is played through."""

import random
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.cuda.blocks import Sample, representative
from dse.cuda.characterise import prepare
from dse.cuda.hits import (
    Caches,
    Traffic,
    caches_of,
    fill_rate,
    kept_at_random,
    latency,
    misses,
    with_neighbours,
)
from dse.cuda.interpret import run
from dse.cuda.launch import Launch
from dse.cuda.listing import parse
from dse.cuda.machine import Compiled, Machine
from dse.data.gpus import load
from dse.types import Gpu

LISTINGS = Path(__file__).parent / "listings"
LARGE = Caches(l1_bytes=1e9, l2_bytes=1e12, sm_count=100, resident_blocks=4)
NO_L1 = Caches(l1_bytes=0, l2_bytes=1e12, sm_count=10**6, resident_blocks=4)
CASES = {
    # kernel: arguments, grid, block
    "vector_add": ((None, None, None, 10**6), (40, 1, 1), (256, 1, 1)),
    "strided_copy": ((None, None, 10**6, 3), (40, 1, 1), (128, 1, 1)),
    "transpose_padded": ((None, None, 256), (8, 8, 1), (32, 8, 1)),
    "grid_stride": ((None, None, 50_000), (8, 1, 1), (128, 1, 1)),
    "walk": ((None, None, 1000), (3, 1, 1), (32, 4, 1)),
    "nbody": ((None, None, 2048), (8, 1, 1), (256, 1, 1)),
    "local_array": ((None, None, 4), (8, 1, 1), (64, 1, 1)),
}


@cache
def kernel_of(name: str) -> Compiled:
    path = LISTINGS / "sm_80.sass"
    (listing,) = [listing for listing in parse(path.read_text(), path.name) if listing.kernel == name]
    return prepare(listing)


@cache
def case(name: str, every: bool = False) -> tuple[Machine, Sample]:
    arguments, grid, block = CASES[name]
    sample = representative(grid, inside=max(grid) if every else 1)
    return run(kernel_of(name), Launch(grid, block, arguments), sample.blocks), sample


def total(name: str, caches: Caches, every: bool = False) -> Traffic:
    return sum(misses(*case(name, every), caches).values(), Traffic())


def touched(machine: Machine, place: int, way: str) -> set[int]:
    """Sectors of global memory, one thread at a time."""
    found = set()
    for stream in machine.streams:
        step = machine.program.steps[stream.step]
        if step.opcode.startswith("ST") == (way == "store"):
            base = np.broadcast_to(stream.base, machine.shape)[place]
            mask = np.broadcast_to(stream.lanes.mask, machine.shape)[place]
            for address in base[mask].tolist():
                for trip in range(stream.repeats):
                    start = address + stream.offset + trip * stream.stride
                    found.update(range(start // 32, (start + step.bytes - 1) // 32 + 1))
    return found


def of_the_grid(name: str, way: str) -> int:
    machine, sample = case(name, every=True)
    return len(set().union(*(touched(machine, place, way) for place in range(len(sample.blocks)))))


@pytest.mark.parametrize("name", CASES)
def test_dram_moves_each_sector_of_the_grid_once_if_all_fits(name):
    found, blocks = total(name, LARGE), int(np.prod(CASES[name][1]))
    # In the last trips of grid_stride some blocks have nothing to do; where local_array stores, depends
    # on the thread.
    close = 2e-3 if name in ("grid_stride", "local_array") else 1e-9
    assert blocks * found.loads_past_l2 == pytest.approx(of_the_grid(name, "load"), rel=close)
    assert blocks * found.stores_past_l2 == pytest.approx(of_the_grid(name, "store"), rel=close)


@pytest.mark.parametrize("name", CASES)
def test_between_the_union_of_a_block_and_its_requests(name):
    machine, sample = case(name)
    block = int(np.argmax(sample.weights))
    union = len(touched(machine, block, "load"))
    for l1_bytes in (0, 2**10, 2**14, 2**20):
        # on a GPU with more SMs than blocks none finds what another left in its L1
        caches = Caches(l1_bytes, 2**22, sm_count=1000, resident_blocks=2, stack_bytes=0)
        found = total(name, caches)
        assert 0.997 * union <= found.loads_past_l1 <= found.loads  # the average block does a little less
        assert 0 <= found.loads_past_l2 <= found.loads_past_l1
        assert sum(found.served) == pytest.approx(1)


def test_streaming_misses_all():
    found = total("vector_add", LARGE)
    assert found.loads == found.loads_past_l1 == found.loads_past_l2 == 2 * 256 * 4 / 32
    assert found.stores == found.stores_past_l2 == found.stores == 256 * 4 / 32
    assert found.served == (0, 0, 1)


def test_what_was_just_loaded_is_found():
    """All lanes of a warp walk down a list, 4 bytes at a time: 8 loads in a row find one sector."""
    machine, sample = case("walk")
    union = len(touched(machine, int(np.argmax(sample.weights)), "load"))
    found = total("walk", Caches(2**13, 2**22, 80, 1))  # the lists take twice as much
    assert union <= found.loads_past_l1 <= 1.1 * union
    assert union < found.loads / 8
    # Each warp has a list of its own, and all read another one at the same time.
    assert total("walk", NO_L1).loads_past_l1 == 1000 * (4 + 1)


def test_blocks_share_the_l1_of_their_sm_by_chance():
    """All blocks of nbody load the same: on few SMs that is mostly there."""
    alone, few = (total("nbody", Caches(2**17, 2**24, sms, 1)) for sms in (8, 2))
    assert alone.loads_past_l1 == 2048 * 16 / 32  # its own points are among those that it goes through
    assert few.loads_past_l1 < 0.7 * few.loads
    assert alone.loads_past_l2 == few.loads_past_l2 == pytest.approx(2048 * 16 / 32 / 8)


def test_waves_load_again_what_the_l2_does_not_hold():
    """Each wave of nbody's blocks reads the array: 32 KiB, twice what the L2 has.

    Blocks at both ends of the grid have fewer beside them, and some sectors are asked for twice: hence 30 %.
    """
    found = total("nbody", Caches(2**10, 2**14, sm_count=2, resident_blocks=1))
    assert found.loads_past_l2 == pytest.approx(2048 * 16 / 32 / 2, rel=0.3)


@pytest.mark.parametrize("name", CASES)
def test_larger_caches_never_miss_more(name):
    sizes = [2**power for power in range(8, 24, 2)]
    by_l1 = [total(name, Caches(size, 2**20, 4, 3, 64)) for size in sizes]
    by_l2 = [total(name, Caches(2**12, size, 4, 3, 64)) for size in sizes]
    for smaller, larger in pairwise(by_l1):
        assert larger.loads_past_l1 <= smaller.loads_past_l1 + 1e-6
    for smaller, larger in pairwise(by_l2):
        assert larger.dram_sectors <= smaller.dram_sectors + 1e-6
        assert larger.l2_sectors == smaller.l2_sectors


def test_order_of_independent_streams_does_not_matter():
    machine, sample = case("vector_add")
    caches = Caches(2**12, 2**20, 4, 3)
    before = misses(machine, sample, caches)
    streams = list(machine.streams)
    machine.streams[:] = [streams[1], streams[0], *streams[2:]]
    try:
        assert misses(machine, sample, caches) == before
    finally:
        machine.streams[:] = streams


def test_sampled_blocks_stand_for_all():
    caches = Caches(2**14, 2**17, 4, 2)
    for name in CASES:
        sampled, every = total(name, caches), total(name, caches, every=True)
        # The sample has one place in the middle for those of few or of many blocks before.
        assert sampled.loads_past_l1 == pytest.approx(every.loads_past_l1, rel=0.08)
        assert sampled.dram_sectors == pytest.approx(every.dram_sectors, rel=0.08)


def test_blocks_that_end_inside_a_sector():
    """80 bytes a block: of each two blocks' 6 sectors one is the same."""
    launch = Launch((1000, 1, 1), (20, 1, 1), (None, None, None, 20_000))
    for count in (1000, 1001):  # the block in the middle lies differently in its sectors
        sample = representative((count, 1, 1))
        launch = Launch((count, 1, 1), (20, 1, 1), (None, None, None, 20 * count))
        found = misses(run(kernel_of("vector_add"), launch, sample.blocks), sample, LARGE)
        (traffic,) = found.values()
        assert traffic.stores_past_l2 == pytest.approx(2.5, rel=0.01)
        assert traffic.loads_past_l2 == pytest.approx(5, rel=0.01)


def test_gathered_sectors_are_shared_by_chance():
    rng = np.random.default_rng(5)
    rows = np.arange(0, 8 * 4096 + 1, 8, dtype=np.int32)
    columns = rng.integers(0, 4096, rows[-1]).astype(np.int32)
    launch = Launch(
        (16, 1, 1), (256, 1, 1), [rows, columns, None, None, None, 4096], banks={2: (8).to_bytes(8, "little")}
    )
    sample = representative((16, 1, 1))
    found = misses(run(kernel_of("spmv"), launch, sample.blocks), sample, LARGE)
    # bounds of rows, columns and values, and x: 512 sectors, of which each block touches nearly all
    expected = 4096 * 4 / 32 + 2 * 8 * 4096 * 4 / 32 + 4096 * 4 / 32
    assert 16 * sum(found.values(), Traffic()).loads_past_l2 == pytest.approx(expected, rel=0.1)


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
    elif lines < 0.7 * room:
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


def test_latency_by_where_sectors_come_from():
    levels = gpu("a100").latency
    l1, l2, dram = float(levels.l1), float(levels.l2), float(levels.dram)
    assert latency(Traffic(8.0, 4.0, 1.0), gpu("a100")) == pytest.approx(l1 / 2 + l2 * 3 / 8 + dram / 8)
    assert latency(Traffic(), gpu("a100")) == l1


def test_neighbours_weigh_nothing():
    sample = with_neighbours(representative((9, 9, 1)), (9, 9, 1))
    assert set(sample.blocks) >= {(4, 4, 0), (5, 4, 0), (4, 5, 0)}
    assert sum(sample.weights) == 81
    assert len(sample.blocks) == len(sample.weights) == len(set(sample.blocks))
    assert with_neighbours(representative((1, 1, 1)), (1, 1, 1)) == representative((1, 1, 1))


@pytest.mark.parametrize("name", ["walk", "grid_stride"])
def test_skipped_trips_are_followed_in_their_order(name):
    arguments, grid, block = CASES[name]
    sample = representative(grid)
    every = run(kernel_of(name), Launch(grid, block, arguments), sample.blocks, skip_loops=False)
    assert len(every.streams) > len(case(name)[0].streams)
    for l1_bytes in (2**9, 2**11, 2**13):
        caches = Caches(l1_bytes, 2**14, 2, 2)
        full = sum(misses(every, sample, caches).values(), Traffic())
        assert total(name, caches).loads_past_l1 == pytest.approx(full.loads_past_l1, rel=1e-9)
        assert total(name, caches).dram_sectors == pytest.approx(full.dram_sectors, rel=1e-9)
