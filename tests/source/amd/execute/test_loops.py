"""Trips that are skipped count as those that are run."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from dse import kernels
from dse.source.amd.compile.source import Built, compile_source, read_source
from dse.source.amd.execute.code import Code, code_of
from dse.source.amd.execute.contents import MemoryMachine
from dse.source.amd.execute.interpret import execute
from dse.source.amd.text import Listing, parse
from dse.source.machine.launch import Dimensions, LaunchArguments


def machine_of(
    code: Code, launch: LaunchArguments, blocks: Sequence[Dimensions], skip_loops: bool = True
) -> MemoryMachine:
    return execute(code, launch, blocks, skip_loops=skip_loops)[0]


def stretches(machine: MemoryMachine) -> Counter[Any]:
    """How often waves and lanes execute each stretch of code."""
    times = np.ones(len(machine.trace), int)
    for start, end, more in machine.repeats:
        times[start:end] += more
    counts: Counter[Any] = Counter()
    for (index, waves, lanes), time in zip(machine.trace, times.tolist(), strict=True):
        counts[index, "waves"] += time * waves.count
        counts[index, "lanes"] += time * int(np.broadcast_to(lanes & waves.mask, machine.shape).sum())
    return counts


def addresses(machine: MemoryMachine, index: int) -> Counter[int]:
    """The addresses that an instruction asks for."""
    found: Counter[int] = Counter()
    for access in machine.accesses:
        if access.index == index:
            lanes = np.broadcast_to(access.lanes, machine.shape)
            here = np.broadcast_to(access.base, machine.shape)[lanes] + access.offset
            for trip in access.trips:
                found.update((here + trip * int(access.stride)).tolist())
    return found


def same(code: Code, launch: LaunchArguments, blocks: Sequence[Dimensions]) -> MemoryMachine:
    """Run with and without skipping, and compare all."""
    skipped, full = (machine_of(code, launch, blocks, skip) for skip in (True, False))
    assert stretches(skipped) == stretches(full)
    assert {access.index for access in skipped.accesses} == {access.index for access in full.accesses}
    for index in {access.index for access in full.accesses}:
        assert addresses(skipped, index) == addresses(full, index)
    return skipped


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
LAUNCH = LaunchArguments((5, 1, 1), (96, 1, 1), [None, None])
BLOCKS = [(0, 0, 0), (3, 0, 0)]


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
    code = code_of(written(PIPELINED.format(buffers=buffers, size=size, end=end), lds=4096))
    machine = same(code, LAUNCH, BLOCKS)
    assert bool(machine.repeats) == (buffers < 5)


@pytest.mark.parametrize(("step", "end"), [(128, 900), (128, 901), (4, 1000), (-256, 2000), (96, 700)])
def test_a_loop_with_even_addresses(written, step: int, end: int):
    code = code_of(written(LOOP.format(shift=2, step=step, end=end)))
    machine = same(code, LAUNCH, BLOCKS)
    assert not machine.irregular
    period = 1 if step % 128 == 0 else 32 if step == 4 else 4
    assert len(machine.trace) < 12 + 4 * period


def test_lanes_that_do_not_move_on_together_are_estimated(written):
    uneven = LOOP.replace("v_add_u32 v1, {step}, v1", "v_add_u32 v1, v0, v1")
    machine = machine_of(code_of(written(uneven.format(shift=2, end=3000))), LAUNCH, BLOCKS)
    [trips] = machine.estimated.values()
    assert trips > 900
    full = machine_of(code_of(written(uneven.format(shift=2, end=3000))), LAUNCH, BLOCKS, skip_loops=False)
    assert stretches(machine) == stretches(full)


def test_what_is_shifted_out_is_not_skipped(written):
    """Only each fourth trip moves the address: no trip is like the one before."""
    uneven = LOOP.replace(
        "v_add_u32 v1, {step}, v1", "s_lshr_b32 s9, s8, 4\n    v_lshl_add_u32 v1, s9, 7, v0"
    )
    code = code_of(written(uneven.format(shift=2, end=300)))
    skipped, full = (machine_of(code, LAUNCH, BLOCKS, skip) for skip in (True, False))
    assert stretches(skipped) == stretches(full)
    assert not skipped.repeats


def test_a_branch_that_comes_out_otherwise_is_run(written):
    """A guard in the loop lets more and more lanes take part."""
    guarded = LOOP.replace(
        "    global_load_dword v2, v1, s[4:5]",
        "    v_cmp_gt_u32_e32 vcc, s8, v0\n    s_and_saveexec_b64 s[10:11], vcc\n"
        "    s_cbranch_execz .LBB0_2\n"
        "    global_load_dword v2, v1, s[4:5]\n.LBB0_2:\n    s_or_b64 exec, exec, s[10:11]",
    )
    machine = same(code_of(written(guarded.format(shift=2, step=128, end=600))), LAUNCH, BLOCKS)
    assert machine.repeats  # after the last lane has joined


def test_lanes_that_left_before_do_not_matter(written):
    early = LOOP.replace(
        "    v_mov_b32 v8, 0",
        "    v_cmp_gt_u32_e32 vcc, 50, v0\n    s_and_saveexec_b64 s[10:11], vcc\n    v_mov_b32 v8, 0",
    )
    machine = same(code_of(written(early.format(shift=2, step=128, end=900))), LAUNCH, BLOCKS)
    assert len(machine.trace) < 20


def test_short_loops_are_left_to_the_one_around_them(written):
    nested = """
    s_load_dwordx4 s[4:7], s[0:1], 0x0
    v_and_b32 v0, 0x3ff, v0
    v_lshlrev_b32 v1, 2, v0
    s_mov_b32 s8, 0
.LBB0_1:
    s_mov_b32 s9, 0
.LBB0_2:
    global_load_dword v2, v1, s[4:5]
    v_add_u32 v1, 0x80, v1
    s_add_i32 s9, s9, 1
    s_cmp_lt_i32 s9, 10
    s_cbranch_scc1 .LBB0_2
    s_barrier
    s_add_i32 s8, s8, 1
    s_cmp_lt_i32 s8, 200
    s_cbranch_scc1 .LBB0_1
    """
    machine = same(code_of(written(nested)), LAUNCH, BLOCKS)
    assert len(machine.trace) < 200  # of 2400


def compiled(name: str, target: int, **defines: Any) -> Listing:
    kernel = kernels.load(name)
    assert kernel.source is not None
    made = compile_source(read_source(kernel.source), target, tuple(defines.items()))
    assert isinstance(made, Built), made
    return parse(made.text)


@pytest.mark.parametrize("target", [0x90A, 0x1100])
def test_a_compiled_loop(target: int):
    listing = compiled("matmul_naive", target, block_x=32, block_y=4)
    launch = LaunchArguments((10, 80, 1), (32, 4, 1), [None, None, None, *map(np.int32, (320, 300, 512))])
    machine = same(code_of(listing), launch, [(0, 0, 0), (4, 7, 0), (9, 79, 0)])
    assert machine.repeats
