"""Trips that are skipped count as those that are run."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.engines import ran_code

from dse.errors import DseError
from dse.source.amd.execute.code import Code, code_of
from dse.source.amd.execute.interpret import execute
from dse.source.amd.profile.alike import followed
from dse.source.machine.launch import LaunchArguments
from dse.source.machine.liveness import Purpose

LAUNCH = LaunchArguments((5, 1, 1), (96, 1, 1), [None, None])
BLOCKS = [(0, 0, 0), (3, 0, 0)]


def same(code: Code, launch: LaunchArguments = LAUNCH) -> Any:
    """Run with and without skipping, and compare all: the machine that skipped."""
    skipped, full = (ran_code(code, launch, BLOCKS, skip) for skip in (True, False))
    assert skipped.executed == full.executed
    if not skipped.machine.estimated:
        np.testing.assert_equal(skipped.addresses(), full.addresses())
    return skipped.machine


LOOP = """
    s_load_dwordx4 s[4:7], s[0:1], 0x0
    v_and_b32 v0, 0x3ff, v0
    v_lshlrev_b32 v1, {shift}, v0
    v_mov_b32 v8, 0
    s_mov_b32 s8, 0
.LBB0_1:
    global_load_dword v2, v1, s[4:5]
    v_add_u32 v1, {step}, v1
    s_add_i32 s8, s8, 3
    s_cmp_lt_i32 s8, {end}
    s_waitcnt vmcnt(0)
    v_add_f32 v8, v8, v2
    s_cbranch_scc1 .LBB0_1
    v_lshlrev_b32 v3, 2, v0
    global_store_dword v3, v8, s[6:7]
"""


# Three buffers take turns, as in a software pipeline; lanes stay within the array until its end.
PIPELINED = """
    s_load_dwordx4 s[4:7], s[0:1], 0x0
    v_and_b32 v0, 0x3ff, v0
    v_lshlrev_b32 v1, 2, v0
    v_mov_b32 v7, v1
    s_mov_b32 s8, s4
    s_and_b32 s9, s5, 0xffff
    s_movk_i32 s10, {size}
    s_mov_b32 s11, 0x27000
    s_mov_b32 s12, 0
    s_mov_b32 s13, 0
.LBB0_1:
    buffer_load_dword v2, v1, s[8:11], 0 offen
    s_lshl_b32 s14, s13, 9
    v_add_u32 v3, s14, v7
    s_waitcnt vmcnt(0)
    ds_write_b32 v3, v2
    v_add_u32 v1, 0x80, v1
    s_add_i32 s13, s13, 1
    s_cmp_lt_i32 s13, {buffers}
    s_cselect_b32 s13, s13, 0
    s_add_i32 s12, s12, 1
    s_cmp_lt_i32 s12, {end}
    s_cbranch_scc1 .LBB0_1
    global_store_dword v7, v7, s[6:7]
"""


@pytest.mark.parametrize("buffers", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(("size", "end"), [(0x7FFF, 200), (0x1000, 301)])
def test_buffers_that_take_turns(written, buffers: int, size: int, end: int):
    code = code_of(written(PIPELINED.format(buffers=buffers, size=size, end=end), lds=4096), Purpose.COUNTS)
    machine = same(code)
    assert bool(machine.repeats) == (buffers < 5)


def test_what_is_shifted_out_is_not_skipped(written):
    """Only each fourth trip moves the address: no trip is like the one before."""
    code = LOOP.replace("v_add_u32 v1, {step}, v1", "s_lshr_b32 s9, s8, 4\n    v_lshl_add_u32 v1, s9, 7, v0")
    assert not same(code_of(written(code.format(shift=2, end=300)), Purpose.COUNTS)).repeats


def test_a_bit_that_is_tested_is_no_comparison(written):
    """Some trips load twice: a bit of the counter, which changes evenly, decides."""
    skips = "s_bitcmp1_b32 s8, 6\n    s_cbranch_scc1 .LBB0_2\n    global_load_dword v4, v1, s[4:5]\n.LBB0_2:"
    code = LOOP.replace("v_add_u32 v1, {step}, v1", f"v_add_u32 v1, {{step}}, v1\n    {skips}")
    same(code_of(written(code.format(shift=2, step=128, end=3000)), Purpose.COUNTS))


PARTED = """
    s_load_dwordx4 s[4:7], s[0:1], 0x0
    v_and_b32 v0, 0x3ff, v0
    v_lshlrev_b32 v1, 2, v0
    v_mov_b32 v5, 0
    v_and_b32 v3, {mask}, v0
    v_cmp_ne_u32_e64 s[16:17], 0, v3
    s_mov_b64 s[14:15], exec
.LBB0_1:
    s_or_b64 exec, exec, s[14:15]
    global_load_dword v2, v1, s[4:5]
    v_add_u32 v1, 0x80, v1
    v_add_u32 v5, 1, v5
    v_cmp_gt_u32 vcc, 0x6000, v1
    s_and_b64 exec, exec, vcc
    s_cbranch_execz .LBB0_2
    s_and_saveexec_b64 s[14:15], s[16:17]
    s_branch .LBB0_1
.LBB0_2:
    s_mov_b64 exec, -1
    v_lshlrev_b32 v5, 2, v5
    global_store_dword v5, v5, s[6:7]
"""


@pytest.mark.parametrize("mask", [0, 1, 32, 64])
def test_a_trip_may_begin_with_some_of_its_lanes(written, mask: int):
    """The others, or all of them, become active after its first instruction."""
    machine = same(code_of(written(PARTED.format(mask=mask)), Purpose.COUNTS))
    assert machine.repeats


def test_waves_that_end_a_trip_in_two_places_begin_the_next_together(written):
    code = code_of(
        written("""
            v_readfirstlane_b32 s9, v0
            s_mov_b32 s8, 0
        .LBB0_1:
            s_add_u32 s8, s8, 1
            s_cmp_gt_u32 s8, 2
            s_cbranch_scc1 .LBB0_2
            s_cmp_gt_u32 s9, 63
            s_cbranch_scc1 .LBB0_1
            s_mov_b32 s10, 0
            s_branch .LBB0_1
        .LBB0_2:
            s_mov_b32 s10, 0
        """)
    )
    (loop,) = {stretch.index for stretch in code.stretches if stretch.last >= 0}
    assert [waves.count for index, waves, _ in same(code).trace if index == loop] == [4, 4, 4]


SPILLED = """
    s_load_dwordx4 s[4:7], s[0:1], 0x0
    v_and_b32 v0, 0x3ff, v0
    v_lshlrev_b32 v1, 2, v0
    v_lshlrev_b32 v1, s2, v1
    s_mov_b32 s8, {first}
    v_writelane_b32 v3, s8, 40
    s_mov_b64 exec, 15
.LBB0_1:
    global_load_dword v2, v1, s[4:5]
    v_add_u32 v1, 0x80, v1
    v_readlane_b32 s8, v3, 40
    s_add_i32 s8, s8, 1
    v_writelane_b32 v3, s8, 40
    s_cmp_lt_i32 s8, 300
    s_cbranch_scc1 .LBB0_1
    global_store_dword v1, v1, s[6:7]
"""


def test_a_counter_may_be_spilled_to_a_lane_that_is_not_active(written):
    assert same(code_of(written(SPILLED.format(first=0)), Purpose.COUNTS)).repeats


def test_blocks_may_spill_their_number_to_a_lane(written):
    code = code_of(written(SPILLED.format(first="s2")), Purpose.CONTROL)
    _, (changes,) = followed(
        code, replace(LAUNCH, grid=(400, 1, 1)), [(0, 0, 0), (298, 0, 0), (299, 0, 0)], [0]
    )
    assert changes.more.tolist() == [0, 0, 400]  # from 299 on there is one trip


SQUARES = """
    s_load_dwordx4 s[4:7], s[0:1], 0x0
    v_and_b32 v0, 0x3ff, v0
    v_lshlrev_b32 v1, 2, v0
    s_mov_b32 s8, 0
.LBB0_1:
    s_mul_i32 s9, s8, s8
    v_lshl_add_u32 v2, s9, 2, v1
    global_load_dword v3, v2, s[4:5]
    s_add_i32 s8, s8, 1
    s_cmp_lt_i32 s8, {end}
    s_waitcnt vmcnt(0)
    s_cbranch_scc1 .LBB0_1
    global_store_dword v1, v3, s[6:7]
"""


def test_few_trips_are_run_where_none_may_be_estimated(written):
    few, many = (code_of(written(SQUARES.format(end=end)), Purpose.COUNTS) for end in (100, 300))
    assert all(same(code).estimated for code in (few, many))
    machine, _ = execute(few, LAUNCH, BLOCKS, exact=True)
    full = ran_code(few, LAUNCH, BLOCKS, False).machine
    assert [len(ran.accesses) for ran in (machine, full)] == [102, 102]  # and the arguments, and the store
    with pytest.raises(DseError, match="trips of a loop would be estimated"):
        execute(many, LAUNCH, BLOCKS, exact=True)
