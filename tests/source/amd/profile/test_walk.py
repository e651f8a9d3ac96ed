"""One wave alone: what it reads and writes, what it waits for."""

import pytest

from dse.hardware import gpus
from dse.source.amd.execute.code import code_of
from dse.source.amd.execute.interpret import execute
from dse.source.amd.execute.slots import slots_of
from dse.source.amd.profile.pipes import turns
from dse.source.amd.profile.record import record
from dse.source.amd.profile.walk import _waits, registers, timing, walk
from dse.source.amd.text import Instruction
from dse.source.machine.launch import LaunchArguments
from dse.source.machine.liveness import Purpose


def inst(opcode: str, *operands: str) -> Instruction:
    return Instruction(0, opcode, operands, {}, None)


@pytest.mark.parametrize(
    ("opcode", "operands", "reads", "writes"),
    [
        ("v_add_f32", ("v1", "v2", "s3"), {"v2"}, {"v1"}),
        ("v_fmac_f32", ("v1", "v2", "v3"), {"v1", "v2", "v3"}, {"v1"}),
        ("v_fma_f32", ("v1", "-v2", "|v3|", "v[4:5]"), {"v2", "v3", "v4", "v5"}, {"v1"}),
        ("global_load_dwordx2", ("v[2:3]", "v[4:5]", "off"), {"v4", "v5"}, {"v2", "v3"}),
        ("global_store_dword", ("v0", "v1", "s[2:3]"), {"v0", "v1"}, set()),
        ("v_cmp_gt_u32", ("vcc", "v1", "v2"), {"v1", "v2"}, {"vcc"}),
        ("v_cmpx_gt_u32", ("v1", "v2"), {"v1", "v2"}, set()),
        ("v_cmpx_gt_u32", ("vcc", "v1", "v2"), {"v1", "v2"}, {"vcc"}),
        ("ds_add_u32", ("v1", "v2"), {"v1", "v2"}, set()),
        ("ds_add_rtn_u32", ("v0", "v1", "v2"), {"v1", "v2"}, {"v0"}),
        ("global_atomic_add", ("v1", "v2", "s[2:3]"), {"v1", "v2"}, set()),
        ("global_atomic_add", ("v0", "v[2:3]", "v4", "off"), {"v2", "v3", "v4"}, {"v0"}),
        ("s_and_saveexec_b64", ("s[4:5]", "vcc"), {"vcc"}, set()),
        ("v_add_f16", ("v1.h", "v2.l", "-v3.h"), {"v2", "v3"}, {"v1"}),
        ("v_cvt_f32_i32", ("v1", "sext(v2)"), {"v2"}, {"v1"}),
        ("s_cbranch_vccz", (".LBB0_1",), set(), set()),
    ],
)
def test_registers_read_and_written(opcode, operands, reads, writes):
    actual = registers(opcode, operands)
    assert tuple(map(set, actual)) == (set(slots_of([*reads])), set(slots_of([*writes])))


@pytest.mark.parametrize(
    ("opcode", "operands", "waits"),
    [
        ("s_waitcnt", ("vmcnt(3) lgkmcnt(0)",), {"vm": 3, "lgkm": 0}),
        ("s_waitcnt_vscnt", ("null", "0x0"), {"vs": 0}),
        ("s_wait_loadcnt", ("0x2",), {"vm": 2}),
        ("s_wait_loadcnt_dscnt", ("0x305",), {"vm": 3, "lgkm": 5}),
        ("s_nop", ("0",), {}),
    ],
)
def test_waits_name_their_counters(opcode, operands, waits):
    assert dict(_waits(inst(opcode, *operands))) == waits


_BARRIERS_IN_A_LOOP = """
    v_and_b32 v0, 0x3ff, v0
    v_lshlrev_b32 v1, 2, v0
    v_mov_b32 v3, 0
    s_mov_b32 s8, 0
.LBB0_1:
    ds_read_b32 v2, v1
    s_waitcnt lgkmcnt(0)
    v_add_u32 v3, v2, v3
    s_barrier
    ds_write_b32 v1, v3
    v_mul_lo_u32 v4, v4, v4
    s_waitcnt lgkmcnt(0)
    s_barrier
    s_add_i32 s8, s8, 1
    s_cmp_lg_u32 s8, 200
    s_cbranch_scc1 .LBB0_1
"""


def test_trips_that_are_skipped_count_for_the_phases_that_they_go_through(written):
    listing = written(_BARRIERS_IN_A_LOOP, lds=256)
    code, gpu = code_of(listing, Purpose.COUNTS), gpus.load("mi250x").gpu
    turn = turns(listing)
    launch = LaunchArguments((1, 1, 1), (64, 1, 1), [None, None])

    def walked(skip: bool):
        machine, _ = execute(code, launch, [(0, 0, 0)], skip_loops=skip)
        noted = record(code, machine, turn, True, joins=False)
        return len(machine.trace), walk(code, machine, noted, 0, timing(gpu, turn, 500.0), turn)

    (whole, expected), (skipped, actual) = walked(False), walked(True)
    assert skipped < whole / 4
    assert actual.keys() == expected.keys()
    for key, path in expected.items():
        assert actual[key].passes == path.passes
        for name in ("cycles", "insts", "slots"):
            assert getattr(actual[key], name) == pytest.approx(getattr(path, name)), (key, name)


@pytest.mark.parametrize(
    ("opcode", "apart", "cycles"),
    [
        ("v_mfma_f32_16x16x16f16", False, 32),  # sums in the same registers: one waits for the other
        ("v_mfma_f32_16x16x16f16", True, 32),  # else for the matrix core
        ("v_mfma_f32_32x32x8f16", True, 64),
        ("v_mfma_f32_16x16x8bf16", True, 16),
    ],
)
def test_products_of_a_wave_follow_one_another_through_the_matrix_core(written, opcode, apart, cycles):
    def walked(count: int) -> float:
        words = "v2" if "bf16" in opcode else "v[2:3]"
        firsts = [8 + 4 * (number % 4 if apart else 0) for number in range(count)]
        sums = [f"v[{first}:{first + 3}]" for first in firsts]
        listing = written([f"{opcode} {sum_}, {words}, {words}, {sum_}" for sum_ in sums])
        gpu, turn = gpus.load("mi250x").gpu, turns(listing)
        code = code_of(listing, Purpose.COUNTS)
        machine, _ = execute(code, LaunchArguments((1, 1, 1), (64, 1, 1), [None, None]), [(0, 0, 0)])
        noted = record(code, machine, turn, True, joins=False)
        (path,) = walk(code, machine, noted, 0, timing(gpu, turn, 500.0), turn).values()
        return path.cycles

    assert walked(9) - walked(5) == 4 * cycles
