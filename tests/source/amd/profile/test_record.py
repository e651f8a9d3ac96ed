"""What was executed, counted: passes through the LDS and the vector cache."""

import numpy as np
import pytest

from dse.source.amd.execute.code import code_of
from dse.source.amd.execute.interpret import execute
from dse.source.amd.profile.pipes import turns
from dse.source.amd.profile.record import record
from dse.source.amd.profile.touched import count_touches
from dse.source.machine.launch import LaunchArguments
from dse.source.machine.recorded import MEMORY_COUNTS


def passes(written, access: str, apart: int, target="gfx90a", joins=False, pipe="shared", counted="passes"):
    """Count passes of the one access of a wave, whose lanes lie so many bytes apart, from byte 4 on."""
    lanes, add = (64, "v_add_u32") if target.startswith("gfx9") else (32, "v_add_nc_u32")
    begin = ["v_and_b32 v0, 0x3ff, v0", f"v_mul_u32_u24 v1, {apart}, v0", "s_mov_b64 s[6:7], 0"]
    code = [*begin, f"{add} v1, 4, v1", *access.split("; ")]
    listing = written(code, target, lanes=lanes, lds=8192)
    code = code_of(listing)
    machine, _ = execute(code, LaunchArguments((1, 1, 1), (lanes, 1, 1), [None, None]), [(0, 0, 0)])
    actual = record(code, machine, turns(listing), True, joins)
    [(index, row)] = actual.bound.memory_rows.items()
    assert actual.program.steps[index].pipe == pipe
    (counts,) = (counts for counts in actual.phase_counts if counts is not None)
    assert counts[row, 0] == 1  # request
    return float(counts[row + MEMORY_COUNTS.index(counted), 0])


@pytest.mark.parametrize(
    ("access", "apart", "expected"),
    [
        ("ds_read_b32 v2, v1", 4, 2),
        ("ds_read_b64 v[2:3], v1 offset:4", 8, 4),  # aligned
        ("ds_read_b64 v[2:3], v1 offset:4", 0, 4),  # of one address, but each lane gets 8 bytes
        ("ds_read_b128 v[2:5], v1 offset:12", 0, 8),
        ("ds_read_b128 v[2:5], v1 offset:12", 16, 8),
        ("ds_read_b64 v[2:3], v1", 8, 64),
        ("ds_read_b64 v[2:3], v1", 4, 64),
        ("ds_read2_b64 v[2:5], v1 offset0:0 offset1:1", 4, 128),
        ("ds_read_b96 v[2:4], v1", 4, 64),
        ("ds_write_b64 v1, v[2:3]", 8, 64),
        ("ds_read2_b32 v[2:3], v1 offset0:0 offset1:1", 4, 4),  # single words are always aligned
        ("ds_add_u32 v1, v2", 4, 2),
        ("ds_add_rtn_u32 v3, v1, v2", 0, 64),  # of one word, one after another
        ("ds_add_u64 v1, v[2:3] offset:4", 8, 4),
    ],
)
def test_wide_accesses_that_are_not_aligned_and_atomics_on_one_word_are_served_lane_by_lane(
    written, access, apart, expected
):
    assert passes(written, access, apart) == expected


def test_on_rdna_four_lanes_share_a_pass(written):
    assert passes(written, "ds_read_b64 v[2:3], v1", 8, "gfx1032") == 8
    assert passes(written, "ds_read_b64 v[2:3], v1 offset:4", 8, "gfx1032") == 2


@pytest.mark.parametrize("access", ["flat_load_dword v2, v[2:3]", "flat_store_dword v[2:3], v4"])
def test_generic_accesses_to_the_lds_pass_its_banks(written, access):
    into_lds = "s_mov_b64 s[8:9], src_shared_base; v_mov_b32 v2, v1; v_mov_b32 v3, s9; " + access
    assert [passes(written, into_lds, apart) for apart in (4, 128)] == [2, 64]


def test_the_vector_cache_of_gcn_takes_neighbours_four_lanes_at_a_time_and_that_of_rdna_any(written):
    access = "global_load_ubyte v2, v1, s[6:7]"
    assert [passes(written, access, apart, pipe="global") for apart in (1, 2)] == [2, 8]
    assert [passes(written, access, apart, "gfx1032", pipe="global") for apart in (1, 2)] == [1, 1]


@pytest.mark.parametrize(("target", "loaded", "stored"), [("gfx90a", 6, 5), ("gfx1032", 8, 5)])
def test_loads_fetch_whole_lines(written, target, loaded, stored):
    """Bytes 4 to 130 are in three lines of 64 bytes, or in two of 128."""
    apart = 4 if target == "gfx1032" else 2
    for access, expected in (("load_ubyte v2, v1", loaded), ("store_byte v1, v2", stored)):
        access = f"global_{access}, s[6:7]"
        assert passes(written, access, apart, target, pipe="global", counted="sectors") == expected


@pytest.mark.parametrize(
    ("target", "in_step", "apart"), [("gfx90a", 2, 32), ("gfx942", 2, 64), ("gfx1100", 1, 32)]
)
def test_scratch_of_lanes_is_adjacent_only_at_the_same_offset(written, target, in_step, apart):
    access = "scratch_load_dword v2, v1, off" if target != "gfx1100" else "scratch_load_b32 v2, v1, off"
    assert [passes(written, access, stride, target, pipe="local") for stride in (0, 4)] == [in_step, apart]


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        ("ds_read2_b32 v[2:3], v1 offset0:0 offset1:1", 64),
        ("ds_read2_b32 v[2:3], v1 offset0:3 offset1:4", 64),
        ("ds_read2_b32 v[2:3], v1 offset0:0 offset1:2", 4),  # words that do not lie side by side
        ("ds_read_b32 v2, v1", 2),
    ],
)
def test_an_older_compiler_joins_loads_of_neighbours(written, access, expected):
    assert passes(written, access, 4, joins=True) == expected


@pytest.mark.parametrize(("size", "per_line"), [(1, 2), (4, 4), (8, 2), (16, 4)])
def test_each_wave_touches_its_own_sectors(size: int, per_line: int):
    rng = np.random.default_rng(size)
    address, mask = rng.integers(0, 2048, (50, 64)) * size, rng.random((50, 64)) < 0.7
    address[:20] = np.sort(address[:20])
    counts = np.empty((4, 50), np.int64)
    count_touches(address, mask, size, per_line, np.empty(64 * 4, np.int64), counts)
    for places, active, actual in zip(address.tolist(), mask.tolist(), counts.T.tolist(), strict=True):
        lanes = [lane for lane in range(64) if active[lane]]
        sectors = {place // 32 for lane in lanes for place in range(places[lane], places[lane] + size)}
        follows = [
            lane
            for lane in lanes
            if lane % 4 and active[lane - 1] and abs(places[lane] - places[lane - 1]) <= size
        ]
        lines = {sector // per_line for sector in sectors}
        assert actual == [len(lines), len(sectors), len(lanes) - len(follows), len(lanes)]
