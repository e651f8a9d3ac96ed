"""What was executed, counted: passes through the LDS and the vector cache."""

import numpy as np
import pytest

from dse.source.amd.execute.code import code_of
from dse.source.amd.execute.interpret import execute
from dse.source.amd.profile.pipes import turns
from dse.source.amd.profile.record import LOADS, record
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


RDNA, BYTE = {"target": "gfx1032"}, "global_load_ubyte v2, v1, s[6:7]"
WORD, PAIR = "global_load_dword v2, v1, s[6:7]", "global_load_dwordx2 v[2:3], v1, s[6:7]"
VECTOR, LINES = {"pipe": "global"}, {"pipe": "global", "counted": "sectors"}
JOINS = {"joins": True}  # loads of neighbours, as an older compiler does
PASSES = [  # an access, bytes between lanes, its passes; other options
    ("ds_read_b32 v2, v1", 4, 2),
    ("ds_read_b64 v[2:3], v1 offset:4", 8, 4),  # aligned
    ("ds_read_b64 v[2:3], v1 offset:4", 0, 4),  # of one address, but each lane gets 8 bytes
    ("ds_read_b128 v[2:5], v1 offset:12", 0, 8),
    ("ds_read_b128 v[2:5], v1 offset:12", 16, 8),
    # Wide ones that are not aligned are served lane by lane
    ("ds_read_b64 v[2:3], v1", 8, 64),
    ("ds_read_b64 v[2:3], v1", 4, 64),
    ("ds_read2_b64 v[2:5], v1 offset0:0 offset1:1", 4, 128),
    ("ds_read_b96 v[2:4], v1", 4, 64),
    ("ds_write_b64 v1, v[2:3]", 8, 64),
    ("ds_read2_b32 v[2:3], v1 offset0:0 offset1:1", 4, 4),  # single words are always aligned
    ("ds_add_u32 v1, v2", 4, 2),
    ("ds_add_rtn_u32 v3, v1, v2", 0, 64),  # of one word, one after another
    ("ds_add_u64 v1, v[2:3] offset:4", 8, 4),
    # On RDNA four lanes share a pass
    ("ds_read_b64 v[2:3], v1", 8, 8, RDNA),
    ("ds_read_b64 v[2:3], v1 offset:4", 8, 2, RDNA),
    ("ds_read2_b32 v[2:3], v1 offset0:0 offset1:1", 4, 64, JOINS),
    ("ds_read2_b32 v[2:3], v1 offset0:3 offset1:4", 4, 64, JOINS),
    ("ds_read2_b32 v[2:3], v1 offset0:0 offset1:2", 4, 4, JOINS),  # words that do not lie side by side
    ("ds_read_b32 v2, v1", 4, 2, JOINS),
    # The vector cache of GCN takes neighbours four lanes at a time, that of RDNA any
    (BYTE, 1, 2 * LOADS, VECTOR),
    (BYTE, 2, 8 * LOADS, VECTOR),
    ("global_store_byte v1, v2, s[6:7]", 1, 2, VECTOR),
    # Words and pairs, by gpu-strides on an MI210 (cycles of 32 lanes) and an RX 6900 XT
    *(
        (WORD, 4 * stride, cycles, VECTOR)
        for stride, cycles in ((0, 2), (1, 2), (2, 16), (3, 8), (7, 14), (8, 32))
    ),
    *((PAIR, 8 * stride, cycles, VECTOR) for stride, cycles in ((0, 8), (3, 8), (4, 16), (8, 32))),
    *(
        (WORD, 4 * stride, cycles, VECTOR | RDNA)
        for stride, cycles in ((2, 2), (5, 2), (16, 16), (32, 32), (31, 8))
    ),
    *((PAIR, 8 * stride, cycles, VECTOR | RDNA) for stride, cycles in ((1, 4), (4, 8), (5, 4), (16, 32))),
    (BYTE, 1, 1, VECTOR | RDNA),
    (BYTE, 2, 1, VECTOR | RDNA),
    # Loads fetch whole lines: bytes 4 to 130 are in three lines of 64 bytes, or in two of 128
    (BYTE, 2, 6, LINES),
    ("global_store_byte v1, v2, s[6:7]", 2, 5, LINES),
    (BYTE, 4, 8, LINES | RDNA),
    ("global_store_byte v1, v2, s[6:7]", 4, 5, LINES | RDNA),
]


@pytest.mark.parametrize("row", PASSES, ids=lambda row: f"{row[0]}-{row[1]}")
def test_passes_of_an_access(written, row):
    access, apart, expected, *options = row
    assert passes(written, access, apart, **dict(*options)) == expected


@pytest.mark.parametrize("access", ["flat_load_dword v2, v[2:3]", "flat_store_dword v[2:3], v4"])
def test_generic_accesses_to_the_lds_pass_its_banks(written, access):
    into_lds = "s_mov_b64 s[8:9], src_shared_base; v_mov_b32 v2, v1; v_mov_b32 v3, s9; " + access
    assert [passes(written, into_lds, apart) for apart in (4, 128)] == [2, 64]


@pytest.mark.parametrize(
    ("target", "in_step", "apart"), [("gfx90a", 2, 14), ("gfx942", 2, 14), ("gfx1100", 1, 8)]
)
def test_scratch_of_lanes_is_adjacent_only_at_the_same_offset(written, target, in_step, apart):
    access = "scratch_load_dword v2, v1, off" if target != "gfx1100" else "scratch_load_b32 v2, v1, off"
    actual = [passes(written, access, stride, target, pipe="local") for stride in (0, 4)]
    assert actual == [in_step, apart]


@pytest.mark.parametrize(("size", "per_line"), [(1, 2), (4, 4), (8, 2), (16, 4)])
def test_each_wave_touches_its_own_sectors(size: int, per_line: int):
    rng = np.random.default_rng(size)
    address, mask = rng.integers(0, 2048, (50, 64)) * size, rng.random((50, 64)) < 0.7
    address[:20] = np.sort(address[:20])
    counts = np.empty((2, 50), np.int64)
    count_touches(address, mask, size, per_line, np.empty(64 * 4, np.int64), *counts)
    for places, active, actual in zip(address.tolist(), mask.tolist(), counts.T.tolist(), strict=True):
        lanes = [lane for lane in range(64) if active[lane]]
        sectors = {place // 32 for lane in lanes for place in range(places[lane], places[lane] + size)}
        lines = {sector // per_line for sector in sectors}
        assert actual == [len(lines), len(sectors)]
