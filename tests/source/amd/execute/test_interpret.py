"""Instructions and waves, run with values and compared with NumPy."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from dse.errors import DseError
from dse.source.amd.execute.code import code_of
from dse.source.amd.execute.contents import MemoryMachine
from dse.source.amd.execute.interpret import execute
from dse.source.amd.text import Listing
from dse.source.machine.launch import LaunchArguments
from dse.source.machine.liveness import Purpose

U32 = np.uint32
# Loads the thread's own number into v0 and words of the first argument into v[2:5].
_BEGIN = [
    "s_load_dwordx4 s[4:7], s[0:1], 0x0",
    "v_and_b32 v0, 0x3ff, v0",
    "v_lshlrev_b32 v1, 4, v0",
    "global_load_dwordx4 v[2:5], v1, s[4:5]",
    "s_waitcnt vmcnt(0)",
]
_END = ["v_lshlrev_b32 v1, 3, v0", "global_store_dwordx2 v1, v[8:9], s[6:7]"]


def run(
    listing: Listing, arrays: Sequence[np.ndarray | None], threads: int = 64, blocks: int = 1
) -> MemoryMachine:
    launch = LaunchArguments((blocks, 1, 1), (threads, 1, 1), arrays)
    machine, _ = execute(code_of(listing), launch, [(n, 0, 0) for n in range(blocks)])
    return machine


def result(machine: MemoryMachine, argument: int, kind: type = U32) -> np.ndarray:
    actual = machine.memory.regions[argument + 1]
    assert actual is not None
    assert argument + 1 not in machine.poisoned
    return actual.view(kind)


def words(seed: int = 0, threads: int = 64) -> np.ndarray:
    arguments = np.random.default_rng(seed).integers(0, 1 << 32, (threads, 4), np.uint64).astype(U32)
    arguments[:4] = [[0, 1, 2, 3], [0xFFFFFFFF] * 4, [1 << 31, 31, 32, 33], [5, 0, 0, 7]]
    return arguments


LANE = np.arange(64)
# Operands, modifiers, literals and moves between lanes; what each opcode computes is in test_opcodes.py. The
# words a, b, c, d of a thread give its v8, or v8 and v9.
WORDS: list[tuple[str, Callable[..., np.ndarray]]] = [
    ("v_bitop2_b32 v8, v2, v3 bitop3:0x40", lambda a, b, c, d: a & b),
    ("v_bitop2_b32 v8, v2, v3 bitop3:0x54", lambda a, b, c, d: a | b),
    ("v_bitop2_b32 v8, v2, v3 bitop3:0x14", lambda a, b, c, d: a ^ b),
    ("v_bitop3_b32 v8, v2, v3, v4 bitop3:0xca", lambda a, b, c, d: (a & b) | (~a & c)),
    ("v_mov_b32 v8, 0; v_bitop3_b16 v8, v2, v3, v4 bitop3:0xec",
     lambda a, b, c, d: (b | (a & c)) & U32(0xFFFF)),
    ("v_mfma_f32_4x4x4f16 v[11:14], v[2:3], v[4:5], 0; v_mov_b32 v10, v2; "  # of a pair one is not computed
     "scratch_store_dwordx2 off, v[10:11], off; scratch_load_dwordx2 v[16:17], off, off; v_mov_b32 v8, v16",
     lambda a, b, c, d: a),
    ("v_bfe_i32 v8, v2, 4, 8", lambda a, b, c, d: (a.view(np.int32) << 20) >> 24),
    ("v_perm_b32 v8, v2, v3, 0x7060100", lambda a, b, c, d: a & U32(0xFFFF0000) | b & U32(0xFFFF)),
    ("v_sub_u32 v8, v2, v3 clamp", lambda a, b, c, d: np.where(a < b, 0, a - b)),
    ("v_add_u32 v8, v2, v3 clamp", lambda a, b, c, d: np.minimum(a + b.astype(np.uint64), 0xFFFFFFFF)),
    ("v_add_co_u32 v8, vcc, v2, v4; v_addc_co_u32 v9, vcc, v3, v5, vcc",
     lambda a, b, c, d: parts(wide(a, b) + wide(c, d))),
    ("v_pk_mov_b32 v[8:9], v[2:3], v[4:5] op_sel:[1,0]", lambda a, b, c, d: parts(wide(b, c))),
    ("v_mov_b32_dpp v8, v2 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf", lambda a, b, c, d: a[LANE ^ 1]),
    ("v_mov_b32 v8, 7; v_mov_b32_dpp v8, v2 row_shr:1 row_mask:0xf bank_mask:0xf",
     lambda a, b, c, d: np.where(LANE % 16 == 0, 7, a[LANE - 1])),
    ("v_mov_b32 v8, 7; v_mov_b32_dpp v8, v2 row_shl:2 row_mask:0xf bank_mask:0xf bound_ctrl:1",
     lambda a, b, c, d: np.where(LANE % 16 > 13, 0, a[(LANE + 2) % 64])),
    ("v_lshlrev_b32 v6, 2, v0; v_xor_b32 v6, 32, v6; ds_bpermute_b32 v8, v6, v2",
     lambda a, b, c, d: a[LANE ^ 8]),
    ("ds_swizzle_b32 v8, v2 offset:swizzle(SWAP,4)", lambda a, b, c, d: a[LANE ^ 4]),
    ("v_readlane_b32 s8, v2, 5; v_mov_b32 v8, s8", lambda a, b, c, d: np.full(64, a[5])),
    ("s_mov_b32 s8, 9; v_mov_b32 v8, v2; v_writelane_b32 v8, s8, 3",
     lambda a, b, c, d: np.where(LANE == 3, 9, a)),
    ("v_mul_i32_i24_sdwa v8, sext(v2), v3 dst_sel:DWORD src0_sel:BYTE_1 src1_sel:BYTE_2",
     lambda a, b, c, d: ((a.view(np.int32) << 16 >> 24) * (b >> 16 & 255).view(np.int32)).view(U32)),
    ("s_mov_b32 m0, 2; v_movrels_b32 v8, v2", lambda a, b, c, d: c),
    ("s_mov_b32 m0, 1; v_movreld_b32 v8, v2; v_mov_b32 v8, v3", lambda a, b, c, d: np.stack([b, a], axis=1)),
    ("s_mov_b32 s8, 3; s_set_gpr_idx_on s8, gpr_idx(SRC0); v_mov_b32_e32 v8, v2; s_set_gpr_idx_off",
     lambda a, b, c, d: d),
    ("v_mbcnt_lo_u32_b32 v8, -1, 0; v_mbcnt_hi_u32_b32 v8, -1, v8", lambda a, b, c, d: LANE),
    ("v_cmp_lt_u32_e64 s[8:9], 10, v0; s_bcnt1_i32_b64 s8, s[8:9]; v_mov_b32 v8, s8",
     lambda a, b, c, d: np.full(64, 53)),
    *((f"v_permlane{rows}_swap_b32 v2, v3; v_mov_b32 v8, v2; v_mov_b32 v9, v3",
       lambda a, b, c, d, rows=rows: swapped(a, b, rows)) for rows in (16, 32)),
]  # fmt: skip


def wide(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)


def parts(words: np.ndarray) -> np.ndarray:
    """[threads, 2]: low and high words."""
    return words.view(U32).reshape(-1, 2)


def swapped(a: np.ndarray, b: np.ndarray, rows: int) -> np.ndarray:
    """Odd rows of `a` exchanged with even ones of `b`."""
    odd = LANE // rows % 2 == 1
    other = LANE + np.where(odd, -rows, rows)
    return np.stack([np.where(odd, b[other], a), np.where(odd, b, a[other])], axis=1)


@pytest.mark.parametrize(("code", "expected"), WORDS, ids=[code for code, _ in WORDS])
def test_words(written, code: str, expected: Callable[..., np.ndarray]):
    arguments = words()
    machine = run(written([*_BEGIN, *code.split("; "), *_END]), [arguments, np.zeros(128, U32)])
    with np.errstate(all="ignore"):
        wanted = expected(*arguments.T).astype(U32).reshape(64, -1)
    np.testing.assert_array_equal(result(machine, 1).reshape(64, 2)[:, : wanted.shape[1]], wanted)


def test_gfx12_numbers_the_waves_of_a_block(written):
    code = [*_BEGIN, "s_bfe_u32 s8, ttmp8, 0x50019", "v_mov_b32 v8, s8", *_END]
    machine = run(written(code), [words(threads=256), np.zeros(512, U32)], threads=256)
    np.testing.assert_array_equal(result(machine, 1).reshape(256, 2)[:, 0], np.arange(256) // 64)


FLOATS: list[tuple[str, Callable[..., np.ndarray]]] = [
    ("v_fma_f32 v8, -v2, |v3|, v4", lambda a, b, c, d: (-a * np.abs(b).astype(float) + c).astype(np.float32)),
    ("v_mul_f32 v8, 0.5, v2", lambda a, b, c, d: a / 2),
    ("v_fmamk_f32 v8, v2, 0x40000000, v3", lambda a, b, c, d: (a * 2.0 + b).astype(np.float32)),
    ("v_ldexp_f32 v8, v2, 3", lambda a, b, c, d: a * 8),
    ("v_mul_f32 v8, v2, v3 clamp", lambda a, b, c, d: np.clip(a * b, 0, 1)),
    ("v_pk_fma_f32 v[8:9], v[2:3], v[4:5], v[2:3] op_sel_hi:[0,1,1]", lambda a, b, c, d: np.stack(
        [a * c.astype(float) + a, a * d.astype(float) + b], axis=1).astype(np.float32)),
    ("v_pk_mul_f32 v[8:9], v[2:3], v[4:5] neg_lo:[0,1] op_sel:[1,0]", lambda a, b, c, d: np.stack(
        [-b * c, b * d], axis=1)),
]  # fmt: skip


@pytest.mark.parametrize(("instruction", "expected"), FLOATS, ids=[code for code, _ in FLOATS])
def test_floating_point(written, instruction: str, expected: Callable[..., np.ndarray]):
    arguments = np.random.default_rng(1).normal(0, 4, (64, 4)).astype(np.float32)
    machine = run(written([*_BEGIN, instruction, *_END]), [arguments, np.zeros(128, np.float32)])
    wanted = expected(*arguments.T)
    actual = result(machine, 1, np.float32).reshape(64, 2)
    np.testing.assert_array_equal(actual[:, : wanted.ndim], wanted.reshape(64, -1))


def test_numbers_that_are_not_known_are_no_nan(written):
    """Loops of compilers test for it; an array of unstated contents is loaded."""
    code = [*_BEGIN, "s_load_dwordx2 s[8:9], s[0:1], 0x10", "global_load_dword v6, v1, s[8:9]"]
    code += ["v_cmp_u_f32 vcc, v6, v6", "s_cbranch_vccnz .LBB0_1", "v_cmp_o_f32 vcc, v6, v2"]
    code += ["v_cndmask_b32 v8, 0, 1, vcc", *_END, ".LBB0_1:"]
    machine, missing = execute(
        code_of(written(code, pointers=3)),
        LaunchArguments((1, 1, 1), (64, 1, 1), [words(), np.zeros(128, U32), None]),
        [(0, 0, 0)],
    )
    assert missing is None
    assert (result(machine, 1)[::2] == 1).all()


def fused(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    return (a.astype(np.float32) * b + c).astype(np.float16)


HALVES: list[tuple[str, Callable[..., np.ndarray]]] = [  # of pairs of halves, [threads, 2]
    ("v_pk_fma_f16 v8, v2, v3, v4 op_sel_hi:[0,1,1] neg_hi:[1,0,0]",
     lambda a, b, c: fused(a[:, :1] * np.array([1, -1], np.float16), b, c)),
    ("v_pk_add_f16 v8, v2, 1.0 op_sel_hi:[1,0]", lambda a, b, c: a + np.float16(1)),
    ("v_pk_mul_f16 v8, v2, v3 op_sel:[1,0]", lambda a, b, c: a[:, 1:] * b),
    ("v_pk_max_f16 v8, v2, v3", lambda a, b, c: np.maximum(a, b)),
    ("v_mov_b32 v8, v4; v_pk_fmac_f16 v8, v2, v3", fused),
    ("v_fma_mixlo_f16 v8, v2, v3, v4 op_sel_hi:[1,1,1]; "
     "v_fma_mixhi_f16 v8, v2, v3, v4 op_sel:[1,1,1] op_sel_hi:[1,1,1]", fused),
    ("v_fma_mix_f32 v8, v2, -v3, v4 op_sel:[1,0,0] op_sel_hi:[1,1,0]", lambda a, b, c: (
        -(a[:, 1].astype(float) * b[:, 0]) + c.view(np.float32)[:, 0]).astype(np.float32)),
    ("v_dot2_f32_f16 v8, v2, v3, 1.0", lambda a, b, c: (a.astype(np.float32) * b).sum(1) + np.float32(1)),
    ("v_mov_b32 v8, 0; v_add_f16_e64 v8, v2, v3 op_sel:[1,0,1]",
     lambda a, b, c: np.stack([np.zeros(64, np.float16), a[:, 1] + b[:, 0]], axis=1)),
    ("v_pk_add_u16 v8, v2, v3", lambda a, b, c: a.view(np.uint16) + b.view(np.uint16)),
    ("v_pk_lshlrev_b16 v8, 4, v2 op_sel_hi:[0,1]", lambda a, b, c: a.view(np.uint16) << 4),
    ("v_pk_ashrrev_i16 v8, 3, v2 op_sel_hi:[0,1]", lambda a, b, c: a.view(np.int16) >> 3),
    ("v_pk_min_i16 v8, v2, v3", lambda a, b, c: np.minimum(a.view(np.int16), b.view(np.int16))),
]  # fmt: skip


@pytest.mark.parametrize(("code", "expected"), HALVES, ids=[code for code, _ in HALVES])
def test_halves(written, code: str, expected: Callable[..., np.ndarray]):
    arguments = np.random.default_rng(2).normal(0, 4, (64, 8)).astype(np.float16)
    machine = run(written([*_BEGIN, *code.split("; "), *_END]), [arguments, np.zeros(128, U32)])
    wanted = np.ascontiguousarray(expected(*np.split(arguments[:, :6], 3, axis=1))).view(U32).ravel()
    np.testing.assert_array_equal(result(machine, 1).reshape(64, 2)[:, 0], wanted)


@pytest.mark.parametrize("descriptor", ["s[0:3]", "s[96:99]"])
def test_scratch_keeps_each_lanes_words(written, descriptor: str):
    code = ["s_mov_b64 s[98:99], s[2:3]", "s_mov_b64 s[96:97], s[0:1]", *_BEGIN]
    code += [f"buffer_store_dword v2, off, {descriptor}, 0 offset:8", "v_cmp_gt_u32_e32 vcc, 9, v0"]
    code += ["s_and_saveexec_b64 s[8:9], vcc", f"buffer_store_dword v3, off, {descriptor}, 0 offset:8"]
    code += ["s_or_b64 exec, exec, s[8:9]", "s_movk_i32 s10, 0x200"]  # of all 64 lanes: 8 bytes each
    code += [f"buffer_load_dword v8, off, {descriptor}, s10", *_END]
    arguments = words()
    actual = result(run(written(code, scratch=True), [arguments, np.zeros(128, U32)]), 1)[::2]
    np.testing.assert_array_equal(actual, np.where(np.arange(64) < 9, arguments[:, 1], arguments[:, 0]))


# A buffer of so many bytes at the first argument, and its words by 16 bytes a lane.
_BUFFER = ["s_mov_b32 s8, s4", "s_and_b32 s9, s5, 0xffff", "s_movk_i32 s10, {size}", "s_mov_b32 s11, 0x27000"]


@pytest.mark.parametrize("size", [1024, 340, 16, 0])
def test_lanes_beyond_a_buffer_load_zeros_and_store_nothing(written, size: int):
    code = [*_BEGIN, *(line.format(size=size) for line in _BUFFER), "s_mov_b32 s12, 4"]
    code += ["buffer_load_dword v8, v1, s[8:11], 0 offen offset:8", "v_mov_b32 v9, 7"]
    code += ["buffer_store_dword v9, v1, s[8:11], s12 offen", *_END]
    arguments, listing = words(), written(code)
    before = arguments.copy()
    machine = run(listing, [arguments, np.zeros(128, U32)])
    start = 16 * np.arange(64)
    loaded = np.where(start + 8 < size, before[:, 2], 0)
    np.testing.assert_array_equal(result(machine, 1)[::2], loaded)
    stored = np.where(start < size, 7, before[:, 1])
    np.testing.assert_array_equal(result(machine, 0).reshape(64, 4)[:, 1], stored)
    opcodes = [listing.instructions[access.index].opcode for access in machine.accesses]
    load = machine.accesses[opcodes.index("buffer_load_dword")]
    assert np.broadcast_to(load.lanes, machine.shape).sum() == (start + 8 < size).sum()


def test_only_masked_lanes_of_triton_lie_at_two_gigabytes(written):
    """An access behind is of an array that is too large: it would count as masked."""

    def loaded(place: int) -> np.ndarray:
        code = [*_BEGIN, *_BUFFER[:2], f"s_mov_b32 s10, {2**31 - 2}", _BUFFER[3], f"v_mov_b32 v1, {place}"]
        code += ["buffer_load_dword v8, v1, s[8:11], 0 offen", *_END]
        return result(run(written(code), [words(), np.zeros(128, U32)]), 1)[::2]

    assert not loaded(2**31).any()
    with pytest.raises(DseError, match="found an access past 2 GiB of an array"):
        loaded(2**31 + 2**25)


@pytest.mark.parametrize("load", ["buffer_load_dword v1, s[8:11], 0 offen", "global_load_dword v1, s[4:5]"])
def test_loads_to_the_lds_lie_side_by_side(written, load: str):
    code = [*_BEGIN, *(line.format(size=1024) for line in _BUFFER), "s_movk_i32 m0, 0x100"]
    code += [f"{load} offset:4 lds", "v_lshlrev_b32 v6, 2, v0"]
    code += ["ds_read_b32 v8, v6 offset:260", *_END]  # the offset counts at both ends
    arguments = words()
    machine = run(written(code, lds=1024), [arguments, np.zeros(128, U32)])
    np.testing.assert_array_equal(result(machine, 1)[::2], arguments[:, 1])


def test_places_in_the_lds_wrap_at_32_bits(written):
    """As where a loop counts from -256 up to 0."""
    code = [*_BEGIN, "v_lshlrev_b32 v6, 2, v0", "ds_write_b32 v6, v3", "v_add_u32 v7, 0xffffff00, v6"]
    machine = run(
        written([*code, "ds_read_b32 v8, v7 offset:256", *_END], lds=256), [words(), np.zeros(128, U32)]
    )
    np.testing.assert_array_equal(result(machine, 1)[::2], words()[:, 1])


def test_scalar_loads_of_blocks_that_ended_are_none(written):
    """The first one's address would be 4 GiB behind the array."""
    code = [*_BEGIN, "s_sub_u32 s8, s2, 1", "s_lshl_b32 s8, s8, 2", "s_cmp_lg_u32 s2, 0"]
    code += ["s_cbranch_scc1 .LBB0_1", "s_endpgm", ".LBB0_1:", "s_add_u32 s8, s4, s8", "s_addc_u32 s9, s5, 0"]
    code += ["s_load_dword s10, s[8:9], 0x8", "s_waitcnt lgkmcnt(0)", "v_mov_b32 v8, s10", *_END]
    machine = run(written(code), [words(), np.zeros(128, U32)], blocks=2)
    assert not machine.outside
    assert (result(machine, 1)[::2] == words()[0, 2]).all()


def test_a_trap_that_no_wave_comes_to_may_be_last(written):
    code = [*_BEGIN, "s_cmp_lg_u32 s2, 0", "s_cbranch_scc1 .LBB0_1", "v_mov_b32 v8, v2", *_END, "s_endpgm"]
    listing = written([*code, ".LBB0_1:", "s_trap 2"])
    listing = replace(listing, instructions=listing.instructions[:-1])
    code_of(listing, Purpose.COUNTS)
    np.testing.assert_array_equal(result(run(listing, [words(), np.zeros(128, U32)]), 1)[::2], words()[:, 0])
    with pytest.raises(DseError, match="s_trap 2: found waves that come to a trap"):
        run(listing, [words(), np.zeros(128, U32)], blocks=2)


def test_a_mask_that_is_not_known_leaves_other_waves_theirs(written):
    """The second block skips what makes the mask unknown, and reads the number that lay there before."""
    code = [*_BEGIN, "s_mov_b32 s8, 5", "s_cmp_lg_u32 s2, 0", "s_cbranch_scc1 .LBB0_1"]
    code += ["v_cmp_lt_f32_e64 s[8:9], v2, v3", ".LBB0_1:", "s_cmp_eq_u32 s2, 0", "s_cbranch_scc1 .LBB0_2"]
    code += ["v_lshlrev_b32 v1, s8, v0", "global_store_dword v1, v2, s[6:7]", ".LBB0_2:"]
    launch = LaunchArguments((2, 1, 1), (64, 1, 1), [None, None])
    machine, missing = execute(code_of(written(code)), launch, [(0, 0, 0), (1, 0, 0)])
    assert missing is None
    assert int(np.broadcast_to(machine.accesses[-1].base, machine.shape)[1, 0, 3]) & 0xFFFF == 3 << 5


def test_a_high_word_that_is_not_known_spoils_no_low_word(written):
    """The compiler leaves anything in the high word of an addend of which it wants the low word."""
    code = [*_BEGIN, "v_mov_b32 v4, 3", "v_mad_u64_u32 v[8:9], s[8:9], v0, 5, v[4:5]"]
    code += ["global_load_dword v3, v8, s[4:5]"]
    launch = LaunchArguments((1, 1, 1), (64, 1, 1), [None, None])
    machine, missing = execute(code_of(written(code)), launch, [(0, 0, 0)])
    assert missing is None
    np.testing.assert_array_equal(np.ravel(machine.accesses[-1].base & 0xFFFF), 5 * np.arange(64) + 3)


def test_what_is_not_known_is_named(written):
    with pytest.raises(DseError, match=r"f \(gfx90a\): v_frobnicate_b32 v1, v2: unknown opcode"):
        code_of(written(["v_frobnicate_b32_e32 v1, v2"]))
    with pytest.raises(DseError, match=r"unknown opcode \(of PTX, .*\), expected"):
        code_of(written(["mad.lo.cc.u32 v1, v1, v2, v3"]))
    with pytest.raises(DseError, match=r"unknown opcode \(of a call that is not inlined, .*\), expected"):
        code_of(written(["s_swappc_b64 s[30:31], s[2:3]"]))
    with pytest.raises(DseError, match="v_add_u32 v1, v2: found 2 operands, expected 3"):
        run(written(["v_add_u32 v1, v2"]), [None, None])
    with pytest.raises(DseError, match="arguments: found 1, expected 2"):
        run(written(["s_nop 0"]), [None])
    endless = code_of(written([".LBB0_1:", "s_branch .LBB0_1"]))
    launch = LaunchArguments((1, 1, 1), (64, 1, 1), [None, None])
    with pytest.raises(DseError, match="still running after 1000000000 stretches, at s_branch"):  # proven
        execute(endless, launch, [(0, 0, 0)], step_limit=10**9)
    launch = replace(launch, most_steps=500)
    with pytest.raises(DseError, match="still running after 500 stretches, at s_branch"):
        execute(endless, launch, [(0, 0, 0)], skip_loops=False)


def test_a_wave_that_others_spin_for_goes_on_from_the_start_of_their_loop(written):
    """The second wave waits in each trip for what the first stores in its next one."""
    code = """
    v_and_b32 v0, 0x3ff, v0
    v_lshrrev_b32 v1, 6, v0
    v_readfirstlane_b32 s3, v1
    s_sub_i32 s10, 6, s3
    v_mov_b32 v2, 0
    s_mov_b32 s8, 0
.LBB0_1:
    s_add_i32 s8, s8, 1
    s_cmp_lg_u32 s3, 0
    s_cbranch_scc1 .LBB0_2
    v_mov_b32 v3, s8
    ds_write_b32 v2, v3
    s_branch .LBB0_3
.LBB0_2:
    ds_read_b32 v4, v2
    s_waitcnt lgkmcnt(0)
    v_readfirstlane_b32 s9, v4
    s_cmp_le_u32 s9, s8
    s_cbranch_scc1 .LBB0_2
.LBB0_3:
    s_cmp_lt_u32 s8, s10
    s_cbranch_scc1 .LBB0_1
    """
    machine = run(written(code, lds=256), [None, None], threads=128)
    turns, spins = 6 + 5, 4 * 6  # few trips of those that wait
    assert turns < len(machine.trace) < 3 * turns + spins


@pytest.mark.parametrize("barrier", ["", "s_barrier"])
def test_a_loop_that_waits_for_other_blocks_ends_as_if_they_had_come(written, barrier):
    """The first wave asks global memory for all of them, which nobody changes."""
    code = f"""
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    v_and_b32 v0, 0x3ff, v0
    v_lshrrev_b32 v1, 6, v0
    v_readfirstlane_b32 s3, v1
    v_mov_b32 v2, 0
    s_waitcnt lgkmcnt(0)
.LBB0_1:
    s_cmp_lg_u32 s3, 0
    s_cbranch_scc1 .LBB0_2
    global_atomic_add v3, v2, v2, s[4:5] sc0
    s_waitcnt vmcnt(0)
    ds_write_b32 v2, v3
.LBB0_2:
    {barrier}
    ds_read_b32 v4, v2
    s_waitcnt lgkmcnt(0)
    {barrier}
    v_readfirstlane_b32 s9, v4
    s_cmp_eq_u32 s9, 0
    s_cbranch_scc1 .LBB0_1
    v_mov_b32 v5, 7
    global_store_dword v2, v5, s[4:5] offset:4
    s_endpgm
    """
    machine = run(written(code, lds=256), [np.zeros(2, U32), None], threads=128)
    assert result(machine, 0).tolist() == [0, 7]
    assert len(machine.trace) < 60
