"""What blocks find that others loaded, against the sectors of the whole grid counted one by one."""

from itertools import product

import numpy as np
import pytest
from support.sass_code import ran

from dse.source.caches.cache_model import Caches, Traffic, misses
from dse.source.caches.footprint import _cover
from dse.source.caches.sectors import touched
from dse.source.machine.blocks import representative
from dse.source.machine.launch import LaunchArguments
from dse.source.nvidia.execute.interpret import run

LARGE = Caches(l1_bytes=1e9, l2_bytes=1e12, sm_count=100, resident_blocks=4)


def of_the_grid(launched, kernel: str, way: str) -> int:
    machine, sample = launched(kernel, every=True)
    return len(set().union(*(launched.touched(machine, place, way) for place in range(len(sample.blocks)))))


@pytest.mark.quick("grid_stride", "vector_add", "local_array")
def test_dram_moves_each_sector_of_the_grid_once_if_all_fits(launched, kernel: str):
    actual, blocks = launched.traffic(kernel, LARGE), int(np.prod(launched.launches[kernel].grid))
    # In the last trips of grid_stride some blocks have nothing to do; where local_array stores, depends
    # on the thread.
    close = 2e-3 if kernel in ("grid_stride", "local_array") else 1e-9
    assert blocks * actual.loads_past_l2 == pytest.approx(of_the_grid(launched, kernel, "load"), rel=close)
    assert blocks * actual.stores_past_l2 == pytest.approx(of_the_grid(launched, kernel, "store"), rel=close)


def test_blocks_share_the_l1_of_their_sm_by_chance(launched):
    """All blocks of nbody load the same: on few SMs that is mostly there."""
    alone, few = (launched.traffic("nbody", Caches(2**17, 2**24, sms, 1)) for sms in (8, 2))
    assert alone.loads_past_l1 == 2048 * 16 / 32  # its own points are among those that it goes through
    assert few.loads_past_l1 < 0.7 * few.loads
    assert alone.loads_past_l2 == few.loads_past_l2 == pytest.approx(2048 * 16 / 32 / 8)


@pytest.mark.parametrize(
    ("threads", "counts", "caches", "stored"),
    [
        (20, (1000, 1001), (LARGE,), 2.5),  # of each two blocks' 6 sectors one is the same
        # also if the L2 holds less than blocks that run at once
        (1, (1000, 1002, 1008), (LARGE, Caches(1e9, 2**10, 8, 4)), 1 / 8),
    ],
)
def test_blocks_share_a_sector_that_they_end_in(launched, threads: int, counts, caches, stored: float):
    """The block in the middle lies differently in its sectors, by the count."""
    for count, cache in product(counts, caches):
        sample = representative((count, 1, 1))
        launch = LaunchArguments((count, 1, 1), (threads, 1, 1), (None, None, None, threads * count))
        (traffic,) = misses(run(launched.bound("vector_add"), launch, sample.blocks), sample, cache).values()
        assert traffic.stores_past_l2 == pytest.approx(stored, rel=0.01 if threads > 1 else 0.05)
        assert traffic.loads_past_l2 == pytest.approx(2 * stored, rel=0.01 if threads > 1 else 0.05)


def test_gathered_sectors_are_shared_by_chance(launched):
    rng = np.random.default_rng(5)
    rows = np.arange(0, 8 * 4096 + 1, 8, dtype=np.int32)
    columns = rng.integers(0, 4096, rows[-1]).astype(np.int32)
    launch = LaunchArguments(
        (16, 1, 1), (256, 1, 1), [rows, columns, None, None, None, 4096], banks={2: (8).to_bytes(8, "little")}
    )
    sample = representative((16, 1, 1))
    actual = misses(run(launched.bound("spmv"), launch, sample.blocks), sample, LARGE)
    # bounds of rows, columns and values, and x: 512 sectors, of which each block touches nearly all
    expected = 4096 * 4 / 32 + 2 * 8 * 4096 * 4 / 32 + 4096 * 4 / 32
    assert 16 * sum(actual.values(), Traffic()).loads_past_l2 == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize(("apart", "runs"), [(4, 1), (32, 1), (64, 16), (128, 16)])
def test_dram_turns_to_a_row_for_each_run(apart, runs):
    """32 threads load words that are so many bytes apart; DRAM gives two sectors at least."""
    machine = ran(
        f"S2R R0, SR_TID.X; IMAD R0, R0, {apart}, RZ; IMAD.WIDE R2, R0, 0x1, c[0x0][0x160]",
        "LDG.E R4, [R2.64]; EXIT",
        threads=32,
        arguments=(None,),
    )
    (traffic,) = misses(machine, representative((1, 1, 1)), LARGE).values()
    assert traffic.runs_past_l2 == pytest.approx(runs)


def test_whole_lines_are_touched():
    runs = np.array([30, 128, 250]), np.array([34, 130, 257])
    assert [part.tolist() for part in touched(*runs, 1)] == [[0, 4, 7], [1, 4, 8]]
    assert [part.tolist() for part in touched(*runs, 4)] == [[0, 4, 4], [3, 7, 11]]


def test_blocks_that_share_one_row_of_a_period_share_it():
    start = np.array([i // 3 * 32_000 + i % 3 * 320 for i in range(46)])
    assert _cover(start >> 5, np.array([-640]), start, start + 32).shifts == 1


def test_a_block_that_touches_a_sector_in_several_places_counts_once():
    start = np.array([0, 8, 24, 40])
    cover = _cover(np.array([0, 1]), np.array([0, 8]), start, start + 4)
    assert cover.count(np.array([0.25, 0.5]), 2).tolist() == [0.75, 0.75]
