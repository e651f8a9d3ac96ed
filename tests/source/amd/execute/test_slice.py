"""Random programs: what is executed for a purpose is what the same program does with all its instructions."""

import random

import numpy as np
import pytest

from dse.source.amd.execute.code import code_of
from dse.source.amd.execute.feeds import fed, feeds_in
from dse.source.amd.execute.interpret import execute
from dse.source.machine.launch import LaunchArguments
from dse.source.machine.liveness import Purpose

# V, W, X: any vector registers; S, T: any scalar ones; M, N: any pair that holds a mask of lanes.
_INSTRUCTIONS = """v_add_u32 V, W, X|v_xor_b32 V, S, W|v_mul_lo_u32 V, W, X|v_mov_b32 V, W|v_swap_b32 V, W
v_add_u16 V, W, X|v_mad_u64_u32 v[2:3], vcc, W, X, v[4:5]|v_add_co_u32 V, vcc, W, X
v_addc_co_u32 V, vcc, W, X, vcc|v_cndmask_b32 V, W, X|v_cndmask_b32_e64 V, W, X, M
v_cmp_lt_u32 vcc, W, X|v_cmp_gt_i32_e64 M, W, X|s_and_b64 M, N, M|s_or_b64 vcc, M, N|s_mov_b64 M, N
v_mov_b32_dpp V, W row_shr:1 row_mask:0xf bank_mask:0xf|v_readlane_b32 S, W, 60|v_readlane_b32 S, W, 5
v_readfirstlane_b32 S, W
v_writelane_b32 V, S, 9|v_writelane_b32 v13, S, 3|v_writelane_b32 v13, S, 4|v_readlane_b32 S, v13, 3
v_readlane_b32 S, v13, 4|s_and_b32 m0, S, 3|v_movrels_b32 V, v2|v_movreld_b32 v2, W
ds_bpermute_b32 V, W, X|ds_swizzle_b32 V, W offset:swizzle(SWAP,4)
s_add_u32 S, S, T|s_addc_u32 S, S, T|s_xor_b32 S, S, T|s_cselect_b32 S, S, T|s_cmp_lt_u32 S, T
s_cmpk_gt_u32 S, 0x7fff|s_lshr_b32 S, T, 3|v_perm_b32 V, W, X, S|s_cmov_b32 S, T|v_mbcnt_lo_u32_b32 V, S, W
ds_write_b32 v9, W|ds_read_b32 V, v10|ds_add_rtn_u32 V, v9, W|s_load_dword S, s[0:1], 0x4
global_load_ushort V, v11, s[4:5]|global_load_short_d16_hi V, v11, s[4:5]|global_store_dword v11, W, s[4:5]
buffer_store_dword W, off, s[36:39], 0 offset:8|buffer_load_dword V, off, s[36:39], 0 offset:8
s_andn2_b64 exec, exec, M|s_andn2_b64 exec, M, exec|s_and_b64 exec, exec, vcc|v_cmpx_ne_u32_e64 exec, W, X
s_and_saveexec_b64 M, vcc|s_or_saveexec_b64 M, N|s_andn2_saveexec_b64 M, N
s_xor_b64 exec, exec, M|s_mov_b64 exec, -1
s_mov_b64 M, exec|s_and_b64 M, exec, N|s_andn2_b64 M, N, exec|s_xor_b64 M, exec, M|s_mov_b64 exec, M
scratch_store_dword off, W, off offset:8|scratch_store_dwordx2 off, v[2:3], s26 offset:4
scratch_load_dword V, off, off offset:8|scratch_load_dword V, off, s26|scratch_load_ushort V, v12, off
scratch_store_short off, W, off offset:10|scratch_store_dword v12, W, off|s_mov_b32 s26, 8|s_movk_i32 s26, 4
v_mov_b32 v12, 8|v_mov_b32 v12, 12|s_mov_b64 exec, M|s_mov_b64 exec, M|s_and_b64 M, N, M
s_xor_b64 M, exec, N|s_or_b64 exec, exec, M
s_cbranch_scc1 L|s_cbranch_scc0 L|s_cbranch_vccz L|s_cbranch_execz L|s_branch L"""
_FIRST = [
    "s_load_dwordx4 s[4:7], s[0:1], 0x0",
    *(f"s_add_u32 s{n}, s2, {n * 0x10203}" for n in range(20, 26)),
    *(f"scratch_store_dword off, v0, off offset:{n}" for n in (4, 8, 12, 16)), "s_mov_b32 s26, 4",
    "v_mov_b32 v12, 12", "s_mov_b64 s[36:37], s[0:1]", "s_mov_b32 s38, 64", "s_mov_b32 s39, 0",
    "v_writelane_b32 v13, s20, 3", "v_writelane_b32 v13, s21, 4", "s_mov_b64 s[30:31], exec",
    "v_and_b32 v0, 0x3ff, v0", "v_lshlrev_b32 v9, 2, v0", "v_xor_b32 v10, 0x40, v9", "v_and_b32 v11, 60, v9",
    "v_cmp_gt_u32 vcc, 40, v0", "v_cmp_lt_u32_e64 s[32:33], 13, v0", "s_mov_b64 s[34:35], vcc",
    *(f"v_mul_u32_u24 v{n}, {n * 0x1234}, v0" for n in range(1, 8)),
]  # fmt: skip


def program(seed: int, count: int = 40) -> list[str]:
    """Random instructions with branches forward, and stores of some registers as addresses."""
    draw = random.Random(seed)
    rows = _INSTRUCTIONS.replace("\n", "|").split("|")
    code, labels = [*_FIRST], {}
    for number in range(count):
        row = draw.choice(rows)
        for letters, names in (
            ("VWX", [f"v{n}" for n in range(1, 8)]),
            ("ST", [f"s{n}" for n in range(20, 26)]),
            ("MN", ["s[30:31]", "s[32:33]", "s[34:35]"]),
        ):
            for letter in letters:
                row = row.replace(f" {letter}", f" {draw.choice(names)}")
        if row.endswith(" L"):
            ahead = number + draw.randint(2, 12)
            row = row.replace(" L", f" .LBB0_{ahead}")
            labels[ahead] = [f".LBB0_{ahead}:"]
        code += [row, *labels.pop(number, [])]
    code += [line for number in sorted(labels) for line in labels[number]]
    shown = [f"v{n}" for n in draw.sample(range(1, 8), 3)]
    code.append("s_mov_b64 exec, -1") if draw.random() < 0.5 else None
    for v in shown:
        code += [f"v_and_b32 {v}, 0xffff, {v}", f"global_store_byte {v}, v0, s[6:7]"]
    return code


@pytest.mark.quick("400")
@pytest.mark.parametrize("first", range(250, 500, 50))
def test_purposes(written, first):
    words = np.random.default_rng(1).integers(0, 1 << 32, 64, np.uint64).astype(np.uint32)
    for seed in range(first, first + 50):
        listing = written(program(seed), lds=1024)
        launch = LaunchArguments((2, 1, 1), (128, 1, 1), [words, None])
        blocks, whole = [(0, 0, 0), (1, 0, 0)], code_of(listing)
        every = execute(whole, launch, blocks)[0]
        some, globally, control, locally, *sparse = (
            execute(whole.needed_for(purpose, feeds=feeds), launch, blocks)[0]
            for feeds in (None, fed(whole, every))
            for purpose in Purpose
        )
        for machine in (some, globally, control, locally, *sparse):
            assert [index for index, *_ in machine.trace] == [index for index, *_ in every.trace], seed
            for (_, waves, lanes), (_, same, active) in zip(machine.trace, every.trace, strict=True):
                np.testing.assert_array_equal(lanes & waves.mask, active & same.mask, f"seed {seed}")
        kinds = "", "global", "ds_"
        ran_for = zip((some, globally, locally, *sparse[:2], sparse[3]), 2 * kinds, strict=True)
        for machine, kind in ran_for:
            pairs = [
                [access for access in ran.accesses if kind in listing.instructions[access.index].opcode]
                for ran in (machine, every)
            ]
            for own, full in zip(*pairs, strict=True):
                lanes = np.broadcast_to(full.lanes, every.shape)
                np.testing.assert_array_equal(np.broadcast_to(own.lanes, every.shape), lanes, f"seed {seed}")
                mine, all_of_it = (np.broadcast_to(ran.base, every.shape)[lanes] for ran in (own, full))
                np.testing.assert_array_equal(mine, all_of_it, f"{seed}: {listing.instructions[full.index]}")


def test_scalars_that_are_spilled_to_lanes_of_a_register_are_told_apart(written):
    code = ["s_load_dwordx4 s[4:7], s[0:1], 0x0", "v_writelane_b32 v1, s6, 7", "v_writelane_b32 v1, s2, 8"]
    code += ["v_readlane_b32 s8, v1, 7", "v_mov_b32 v2, s8", "v_readlane_b32 s9, v1, 8", "v_mov_b32 v3, s9"]
    needed = code_of(written([*code, "global_store_dword v3, v2, s[4:5]"]), Purpose.ADDRESSES).binder.needed
    assert needed == {0, 2, 5, 6, 7}


def test_loads_ask_for_what_is_stored_where_they_read(written):
    """One of two stores decides: the later one at the same place, the first where the other is beside."""
    code = ["s_load_dwordx4 s[4:7], s[0:1], 0x0", "v_and_b32 v0, 0x3ff, v0", "v_lshlrev_b32 v1, 2, v0"]
    code += ["v_mul_lo_u32 v2, v0, v0", "ds_write_b32 v1, v2", "v_add_u32 v3, 1, v0"]
    code += ["ds_write_b32 v1, v3{}", "ds_read_b32 v4, v1", "v_cmp_lt_u32 vcc, 7, v4"]
    code += ["s_cbranch_vccz .LBB0_0", "global_store_dword v1, v4, s[4:5]", ".LBB0_0:", "s_endpgm"]
    launch = LaunchArguments((1, 1, 1), (64, 1, 1), [None, None])
    for beside, unread in (("", {3, 4}), (" offset:256", {5, 6})):
        whole = code_of(written([line.format(beside) for line in code], lds=1024))
        feeds = feeds_in(whole, launch)
        assert feeds == {7: {6 if not beside else 4}}
        assert whole.evaluated == set()
        both = whole.needed_for(Purpose.COUNTS).evaluated
        assert both - whole.needed_for(Purpose.COUNTS, feeds=feeds).evaluated == unread


def test_parts_of_an_instruction_are_needed_each_for_its_result(written):
    """Halves of a pair, the low word of a sum of 64 bits, and nothing for the null register."""
    code = ["s_load_b128 s[4:7], s[0:1], 0x0", "v_dual_mov_b32 v1, 8 :: v_dual_mov_b32 v2, 9"]
    code += ["v_mov_b32 v3, 5", "v_dual_mul_f32 v4, v4, v3 :: v_dual_add_nc_u32 v5, v1, v2"]
    code += [
        "v_mov_b32 v7, 6",
        "v_mad_u64_u32 v[6:7], null, v5, v5, v[6:7]",
        "global_store_b32 v6, v4, s[4:5]",
    ]
    code = code_of(written(code, target="gfx1100", lanes=32), Purpose.ADDRESSES)
    assert code.evaluated == {0, 1, 3, 5}
