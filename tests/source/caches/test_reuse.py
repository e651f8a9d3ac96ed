"""What tiles share in any order, against an L2 that is played through, tile by tile."""

from collections import OrderedDict
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.sass_code import compiled, prepared

from dse.errors import DseError
from dse.source.caches import places
from dse.source.caches.cache_model import Caches, Traffic, misses
from dse.source.machine.addresses import Addresses
from dse.source.machine.blocks import Sample, representative
from dse.source.machine.launch import LaunchArguments
from dse.source.nvidia.execute.interpret import run
from dse.source.nvidia.execute.moved_blocks import addresses_of
from dse.source.nvidia.machine.state import BoundProgram, Machine
from dse.source.nvidia.profile.characterise import run_sample

SOURCE = (Path(__file__).parent / "tiles.cu").read_text()
TILE, KIB = 32, 1024
SIZE = 1024  # of the square matrices: 2 MiB of A and of B, 4 MiB of C
TILES = SIZE // TILE
STEP = TILE * TILE * 2  # bytes of a tile of A or B
SMS, RESIDENT = 16, 2
WAVE = SMS * RESIDENT
ONCE = SIZE * SIZE * 2 / 32  # sectors of A, and of B
PAGES = np.random.default_rng(2).permutation(6144).astype(np.int32)
ANY = np.random.default_rng(1).integers(0, 2**12, 2**18).astype(np.int32)


@cache
def bound(kernel: str, **defines: Any) -> BoundProgram:
    return prepared(compiled(SOURCE, kernel=kernel, **defines))


@cache
def ran(kernel: str, grid: tuple[int, ...], *arguments: Any, **defines: Any) -> tuple[Machine, Sample]:
    values = [np.array(x, np.int32) if isinstance(x, tuple) else x for x in arguments]
    launch = LaunchArguments((*grid, 1, 1)[:3], (128, 1, 1), values)  # type: ignore[arg-type]
    sample = representative(launch.grid)
    return run(bound(kernel, **defines), launch, sample.blocks), sample


def grouped(group: int, kernel: str = "grouped", blocks: int = TILES * TILES) -> tuple[Machine, Sample]:
    return ran(kernel, (blocks,), None, None, None, SIZE, SIZE, SIZE, group)


def traffic(
    machine: Machine, sample: Sample, l2: float, sms: int = SMS, probe: bool = True, drift: float = 0.0
) -> Traffic:
    """Of the grid, with an L2 of so many KiB; blocks of a wave are in step unless they drift."""
    caches = Caches(0.0, l2 * KIB, sms, RESIDENT)
    actual = misses(machine, sample, caches, partial(addresses_of, machine) if probe else None, drift)
    return sum(actual.values(), Traffic()) * machine.launch.blocks


def order(group: int) -> list[tuple[int, int]]:
    """Tiles by the blocks that do them."""
    tiles = []
    for first in range(0, TILES, group):
        rows = min(group, TILES - first)
        tiles += [(first + i % rows, i // rows) for i in range(rows * TILES)]
    return tiles


def played(tiles: list[tuple[int, int]], l2: float, wave: int = WAVE) -> float:
    """Sectors that an L2 of so many KiB loads which replaces what was used longest ago.

    The blocks of a wave take one trip each in turn, and store their tile in the end.
    """
    held: OrderedDict[tuple, int] = OrderedDict()
    room, loaded = l2 * KIB, 0

    def touch(what: tuple, size: int, load: bool = True) -> None:
        nonlocal room, loaded
        if what in held:
            held.move_to_end(what)
            return
        loaded += size * load
        held[what] = size
        room -= size
        while room < 0:
            room += held.popitem(last=False)[1]

    for start in range(0, len(tiles), wave):
        together = tiles[start : start + wave]
        for k in range(SIZE // TILE):
            for m, n in together:
                touch(("a", m, k), STEP)
                touch(("b", k, n), STEP)
        for tile in together:
            touch(("c", *tile), 2 * STEP, load=False)
    return loaded / 32


@pytest.mark.quick("16384")
@pytest.mark.parametrize("group", [1, 4, 32])
@pytest.mark.parametrize("l2", [200, 1200, 2400, 16384])
def test_tiles_in_groups_as_played(group: int, l2: int):
    """The L2 holds less than a wave, about one, some waves, and everything.

    What a stretch of time touches is taken to be its mean, which matters where the L2 is about as large.
    """
    machine, sample = grouped(group)
    actual, expected = traffic(machine, sample, l2), played(order(group), l2)
    assert actual.loads_past_l2 == pytest.approx(expected, rel=0.05 if l2 in (200, 16384) else 0.35)
    assert 2 * ONCE <= actual.loads_past_l2 * 1.0001 <= actual.loads_past_l1 == actual.loads
    assert actual.stores_past_l2 == pytest.approx(2 * ONCE, rel=0.01)


@pytest.mark.slow
def test_blocks_that_drift_apart_share_less():
    machine, sample = grouped(4)
    together, apart, far = (traffic(machine, sample, 200, drift=drift) for drift in (0.0, 0.12, 1e9))
    assert 1.05 * together.loads_past_l2 < apart.loads_past_l2 < 0.9 * far.loads_past_l2
    assert far.loads_past_l2 == pytest.approx(far.loads)
    pairs = together.runs_past_l2 / together.loads_past_l2  # of sectors
    assert far.runs_past_l2 / far.loads == pytest.approx(pairs, rel=0.2)
    kept = traffic(machine, sample, 16384, drift=0.12)
    assert kept.loads_past_l2 == pytest.approx(2 * ONCE, rel=0.05)


@pytest.mark.slow
def test_a_loop_that_loads_ahead_has_runs_as_another():
    """Its last trip has no loads."""
    arguments = (None, None, None, SIZE, SIZE, SIZE, 4)
    plain, ahead = (
        traffic(*ran("grouped", (TILES * TILES,), *arguments, **defines), 200)
        for defines in ({}, {"AHEAD": 1})
    )
    shares = [loaded.runs_past_l2 / loaded.loads_past_l2 for loaded in (plain, ahead)]
    assert shares[1] == pytest.approx(shares[0], rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("group", [1, 4])
def test_persistent_blocks_are_as_waves(group: int):
    machine, sample = grouped(group, "persistent", WAVE)
    for l2 in (200, 16384):
        moved = traffic(machine, sample, l2)
        assert moved.loads_past_l2 == pytest.approx(played(order(group), l2), rel=0.05)
        assert moved.stores_past_l2 == pytest.approx(2 * ONCE, rel=0.05)


def test_parts_of_a_sum_share_what_they_add_to():
    machine, sample = ran("split", (4 * 256,), None, None, None, 512, 512, SIZE, 4, 4, ADD=1)
    moved = traffic(machine, sample, 16384)
    assert moved.loads_past_l2 == pytest.approx(ONCE, rel=0.01)  # half of A, half of B
    assert moved.stores_past_l2 == pytest.approx(2 * ONCE / 2, rel=0.01)  # fetched and written
    # of each part two instructions add to a sector
    assert moved.stores == pytest.approx(8 * ONCE / 2, rel=0.01)


@pytest.mark.slow
def test_numbers_in_memory_say_who_shares():
    """Rows of tiles have one of 1, 2 or 16 matrices; all of these that are named are loaded once."""
    for count in (1, 2, 16):
        expert = tuple(row * count // 16 for row in range(16))
        machine, sample = ran("experts", (256,), None, None, None, expert, 512, 512, 512, 1)
        moved = traffic(machine, sample, 2**20)
        assert moved.loads_past_l2 == pytest.approx((1 + count) * ONCE / 4, rel=0.01)


def test_warps_that_load_are_found():
    machine, sample = ran("specialised", (1024,), None, None, SIZE, SIZE, SIZE, 1)
    moved = traffic(machine, sample, 2**20)
    rows = TILES * 16 * (SIZE // TILE)  # half of each tile's rows, a sector of each
    assert moved.loads_past_l2 == pytest.approx(rows, rel=0.01)


@pytest.mark.parametrize(
    ("kernel", "grid", "arguments", "loaded", "stored"),
    [
        ("rows", (256, 1), (1001,), 1001 * 32, 4096),
        ("windows", (256, 1), (2**15,), 4096, 4096),
        ("planes", (1024, 1), (512,), 8192, 32768),
        ("own_rows", (256, 1), (64,), 2**20, 4096),
        ("causal", (256, 1), (30,), 4096, 4096),
        ("lengths", (256, 1), (1000,), 40874, 4096),
        ("tickets", (256, 1), (1,), 4096 + 16384, 16384),
        ("shuffled", (1024, 1), (2**16,), 2**16, 2**16),
        ("tables", (2048, 1), (2**13,), 2 * 2**10 + 2**15, 2**15),
        ("planes_of_filters", (8192, 1), (4096,), 32768, 131072),
        ("pages", (64, 1), (np.arange(2**14, dtype=np.int32) * 7919 % 2**14, 64), 2**16 + 2**11, 1024),
        ("shared_pages", (6, 12, 64), (PAGES, 4), 6144 * 12 // 4 + 6144 // 8, 16 * 4608),
        ("grid_stride", (4096, 1), (128 * 7850,), 16 * 7850, 16 * 7850),
        # far more blocks than are looked at, of images that the L2 does not hold
        ("groups", (128, 16, 16), (ANY, 2**12), 256 * 2**9 + 2**18 // 8, 128 * 256 * 16),
        ("history", (8, 1024), (None, 1024), 2**20 + 8 * 3 * 16, 2**20),
        ("either", (64, 3), (64, None), 2 * 64 * 16, 64 * 3 * 16),
        ("turned", (10, 256), (None, None, 8), 11 * 256 * 16, 10 * 256 * 16),
        # queries and keys of a causal attention, once
        ("attention", (8, 32), (None, 1000), 8 * 1000, 4 * 1000),
        ("backward", (16, 32), (None, 2048), 8 * 2048, 4 * 2048),
        # pixels of an image; of the last block in a row a part may be beyond its end
        *(("image", (-(-width // 32), 64), (width,), 32 * width, 32 * width) for width in (128, 56)),
    ],
)
def test_what_a_grid_moves_at_least(kernel, grid, arguments, loaded: int, stored: int):
    x, y, z = (*grid, 1, 1)[:3]
    launch = LaunchArguments((x, y, z), (128, 1, 1), (None, None, *arguments))
    moved = traffic(*run_sample(bound(kernel), launch), 2**14)
    assert moved.loads_past_l2 == pytest.approx(loaded, rel=0.02)
    assert moved.stores_past_l2 == pytest.approx(stored, rel=0.01 if kernel == "image" else 0.02)


def test_heads_of_one_wave_share_their_keys():
    machine, sample = ran("heads", (4, 6), None, None, 2**14)  # L2 holds less than half of them
    assert traffic(machine, sample, 100).loads_past_l2 == pytest.approx(4 * 2**14 / 8)


def test_what_blocks_share_fills_the_l2_once():
    """Each of 8 waves reads 2^11 words, which the L2 keeps beside a part of what it stores."""
    moved = traffic(*ran("twice", (8 * WAVE,), None, None, 2**11), 64)
    assert moved.loads_past_l2 == pytest.approx(8 * 2**11 / 8, rel=0.05)


def test_a_probe_that_fails_leaves_all_as_it_was():
    machine, sample = grouped(4)

    def probe(*_: Any) -> Addresses:
        raise DseError("too much to run")

    caches = Caches(0.0, 2**20, SMS, 2)
    assert misses(machine, sample, caches, probe) == misses(machine, sample, caches)


@pytest.mark.parametrize("l2", [200, 1200])
def test_part_of_a_grid_represents_all(monkeypatch: pytest.MonkeyPatch, l2: int):
    machine, sample = grouped(4)
    every = traffic(machine, sample, l2).dram_sectors
    monkeypatch.setattr(places, "MOST_BLOCKS", 600)
    assert traffic(machine, sample, l2).dram_sectors == pytest.approx(every, rel=0.1)


def test_blocks_in_the_middle_of_a_wave_have_a_past(monkeypatch: pytest.MonkeyPatch):
    """Of the 30 tiles that a block reads before its own, those of blocks that were not run are not new."""
    monkeypatch.setattr(places, "MOST_BLOCKS", 100)  # less than a wave
    monkeypatch.setattr(places, "MOST_EXECUTIONS", 1)
    launch = LaunchArguments((4096, 1, 1), (128, 1, 1), (None, None, 30))
    moved = traffic(*run_sample(bound("causal"), launch), 500, sms=64)
    assert moved.loads_past_l2 == pytest.approx(16 * 4096, rel=0.02)


# Before the blocks that are followed, in the first half of these, and not of the block that is looked at.
@pytest.mark.parametrize(("heads", "tiles"), [(16, 8), (24, 8), (8, 1)])
def test_what_only_the_first_blocks_touch_counts_for_these(
    monkeypatch: pytest.MonkeyPatch, heads: int, tiles: int
):
    monkeypatch.setattr(places, "MOST_BLOCKS", 2048)
    launch = LaunchArguments((64, 64, 1), (128, 1, 1), (None, None, None, heads, tiles))
    moved = traffic(*run_sample(bound("some_more"), launch), 2**20)
    assert moved.loads_past_l2 == pytest.approx(16 * 64 * (64 + tiles * heads), rel=0.02)


def test_nearby_blocks_touch_a_sector_at_most_once():
    """Two do, so a third is left of what a block reads of 64 rows, of which a few are looked at."""
    apart = np.random.default_rng(4).integers(-47, 48, 128 * 1024).astype(np.int32)
    launch = LaunchArguments((1024, 1, 1), (128, 1, 1), (None, None, apart, 64))
    moved = traffic(*run_sample(bound("channels"), launch), 2**16)
    assert 0.6 * 65 * 16 * 1024 < moved.loads_past_l2 < 65 * 16 * 1024


def test_other_warps_of_the_next_block_share():
    """The L2 holds a tenth: first warps share nothing, and all together touch each sector once."""
    apart = np.random.default_rng(4).integers(-47, 48, 128 * 4096).astype(np.int32)
    launch = LaunchArguments((4096, 1, 1), (128, 1, 1), (None, None, apart))
    moved = traffic(*run_sample(bound("jittered"), launch), 600)
    assert moved.loads_past_l2 == pytest.approx(2 * 16 * 4096, rel=0.05)


@pytest.mark.parametrize(
    ("blocks", "wave", "expected"),
    [
        (1000, 216, places.Window(0, 1000, 216, True)),
        (4, 216, places.Window(0, 4, 4, True)),
        (10_000, 216, places.Window(3888, 1944, 216, False)),
        (10_000, 1000, places.Window(3000, 3000, 1000, False)),
    ],
)
def test_blocks_that_are_run(blocks: int, wave: int, expected: places.Window):
    selected = places.window(blocks, wave)
    assert selected == expected
    assert selected.start + selected.blocks <= blocks
    first = selected.places((100, blocks // 100 or 1, 1))[0]
    assert first == (selected.start % 100, selected.start // 100, 0)
