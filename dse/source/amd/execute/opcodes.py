"""Table of opcodes: pipe, operands and function of each.

A row's form lists results and sources: `u=uu` writes a word, from two words. Kinds are

    u i f    a word: unsigned, signed, single precision      U I D    the same of 64 bits, in two registers
    w s h    the lower half of a word                        P        two numbers in two registers
    W S H    two such halves                                 x        a number of single or half precision
    j k      16 bits in the instruction, signed or not
    m        a mask of lanes                                 c        the scalar condition, not written
    M        a mask of the active lanes                      d        the destination's old value, likewise

Without a function, the result is not computed: an address or a branch that needs it is an error. Accesses of
memory are derived from their names (`memory_names`); control and waits have no form.

Source: AMD, "CDNA2", "CDNA3", "RDNA2", "RDNA3" and "RDNA4 Instruction Set Architecture", and LLVM's AMDGPU
target for the names that differ between them.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from dse.source.amd.execute import semantics as s

U32, I32, U64, F32 = np.uint32, np.int32, np.uint64, np.float32


@dataclass(frozen=True)
class OpcodeRow:
    """A row of the table."""

    pipe: str  # see PIPES
    form: str = ""
    function: Callable[..., Any] | None = None
    operations: int = 0  # of each lane
    kind: str = ""  # their type: "fp16", "fp32", "fp64", "int"
    special: str = ""  # for rows without function: see `dse.source.amd.execute.actions`


# valu: a vector instruction of one pass; valu64: with numbers of 64 bits; packed: two operations a lane;
# trans: a transcendental; salu, smem: scalar; vmem, flat, lds, scratch: memory; matrix: products of matrices.
PIPES = (
    "valu", "valu64", "packed", "trans", "matrix", "salu", "smem", "vmem", "flat", "scratch", "lds", "branch",
    "barrier", "wait", "other",
)  # fmt: skip

TABLE: dict[str, OpcodeRow] = {}


def _row(
    names: str,
    pipe: str,
    form: str = "",
    function: Any = None,
    ops: int = 0,
    kind: str = "int",
    special: str = "",
) -> None:
    for name in names.split():
        TABLE[name] = OpcodeRow(pipe, form, function, ops, kind, special)


# Vector integers

_row("v_mov_b32 v_accvgpr_read_b32 v_accvgpr_write_b32 v_accvgpr_mov_b32", "valu", "u=u", lambda a: a)
_row("v_mov_b64", "valu64", "U=U", lambda a: a)
_row("v_mov_b16", "valu", "w=w", lambda a: a)
_row("v_swap_b32", "valu", special="swap")
_row("v_bitop2_b32", "valu", "u=uu", s.looked_up, 1)
_row("v_bitop3_b32", "valu", "u=uuu", s.looked_up, 1)
_row("v_bitop3_b16", "valu", "w=www", s.looked_up, 1)
_row("v_add_u32 v_add_i32", "valu", "u=uu", np.add, 1)
_row("v_sub_u32 v_sub_i32", "valu", "u=uu", np.subtract, 1)
_row("v_subrev_u32", "valu", "u=uu", s.swapped(np.subtract), 1)
_row("v_add_co_u32", "valu", "uM=uu", s.add_carry, 1)
_row("v_addc_co_u32", "valu", "uM=uum", s.add_carry_in, 1)
_row("v_sub_co_u32", "valu", "uM=uu", s.sub_borrow, 1)
_row("v_subrev_co_u32", "valu", "uM=uu", s.swapped(s.sub_borrow), 1)
_row("v_subb_co_u32", "valu", "uM=uum", s.sub_borrow_in, 1)
_row("v_subbrev_co_u32", "valu", "uM=uum", s.swapped(s.sub_borrow_in), 1)
_row("v_add3_u32", "valu", "u=uuu", lambda a, b, c: a + b + c, 2)
_row("v_add_lshl_u32", "valu", "u=uuu", lambda a, b, c: s.shift_left(a + b, c), 2)
_row("v_lshl_add_u32", "valu", "u=uuu", lambda a, b, c: s.shift_left(a, b) + c, 2)
_row("v_lshl_or_b32", "valu", "u=uuu", lambda a, b, c: s.shift_left(a, b) | c, 2)
_row("v_and_or_b32", "valu", "u=uuu", lambda a, b, c: a & b | c, 2)
_row("v_or3_b32", "valu", "u=uuu", lambda a, b, c: a | b | c, 2)
_row("v_xor3_b32", "valu", "u=uuu", lambda a, b, c: a ^ b ^ c, 2)
_row("v_xad_u32", "valu", "u=uuu", lambda a, b, c: (a ^ b) + c, 2)
_row("v_lshl_add_u64", "valu64", "U=UuU", lambda a, b, c: s.shift_left(a, b) + c, 2)
_row("v_add_u64", "valu64", "U=UU", np.add, 1)
_row("v_sub_u64", "valu64", "U=UU", np.subtract, 1)
_row("v_mul_lo_u32 v_mul_lo_i32", "valu64", "u=uu", np.multiply, 1)
_row("v_mad_u32", "valu64", "u=uuu", lambda a, b, c: a * b + c, 2)
_row("v_mul_hi_u32", "valu64", "u=uu", s.mul_hi, 1)
_row("v_mul_hi_i32", "valu64", "i=ii", s.mul_hi, 1)
_row("v_mad_u64_u32", "valu64", "UM=uuU", s.mad64, 2)
_row("v_mad_i64_i32", "valu64", "UM=iiU", s.mad64, 2)
for _type, _kind in (("u32_u24", "u"), ("i32_i24", "i")):
    _row(f"v_mul_{_type}", "valu", f"{_kind}={_kind * 2}", s.mul24, 1)
    _row(
        f"v_mul_hi_{_type}", "valu", f"{_kind}={_kind * 2}", lambda a, b: s.mul_hi(s.low24(a), s.low24(b)), 1
    )
    _row(f"v_mad_{_type}", "valu", f"{_kind}={_kind * 3}", lambda a, b, c: s.mul24(a, b) + c, 2)
_row("v_mad_u32_u16", "valu", "u=wwu", lambda a, b, c: a * b + c, 2)
_row("v_mad_i32_i16", "valu", "i=ssi", lambda a, b, c: a * b + c, 2)
_row("v_mad_u16 v_mad_i16 v_mad_legacy_u16 v_mad_legacy_i16", "valu", "w=www", lambda a, b, c: a * b + c, 2)
for _type, _kind in (("b32", "u"), ("b16", "w")):
    for _name, _function in (("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor)):
        _row(f"v_{_name}_{_type}", "valu", f"{_kind}={_kind * 2}", _function, 1)
    _row(f"v_not_{_type}", "valu", f"{_kind}={_kind}", np.invert, 1)
_row("v_xnor_b32", "valu", "u=uu", lambda a, b: ~(a ^ b), 1)
_row("v_lshlrev_b32", "valu", "u=uu", s.swapped(s.shift_left), 1)
_row("v_lshrrev_b32", "valu", "u=uu", s.swapped(s.shift_right), 1)
_row("v_ashrrev_i32", "valu", "i=ui", s.swapped(s.shift_right), 1)
_row("v_lshlrev_b64", "valu64", "U=uU", s.swapped(s.shift_left), 1)
_row("v_lshrrev_b64", "valu64", "U=uU", s.swapped(s.shift_right), 1)
_row("v_ashrrev_i64", "valu64", "I=uI", s.swapped(s.shift_right), 1)
_row("v_lshlrev_b16", "valu", "w=ww", lambda a, b: b << (a & U32(15)), 1)
_row("v_lshrrev_b16", "valu", "w=ww", lambda a, b: b >> (a & U32(15)), 1)
_row("v_ashrrev_i16", "valu", "s=ws", lambda a, b: b >> (a & U32(15)).astype(I32), 1)
_row("v_add_u16 v_add_i16", "valu", "w=ww", np.add, 1)
_row("v_sub_u16 v_sub_i16", "valu", "w=ww", np.subtract, 1)
_row("v_subrev_u16", "valu", "w=ww", s.swapped(np.subtract), 1)
_row("v_mul_lo_u16", "valu", "w=ww", np.multiply, 1)
_row("v_bfe_u32", "valu", "u=uuu", s.bit_field, 1)
_row("v_bfe_i32", "valu", "i=iuu", s.bit_field, 1)
_row("v_bfi_b32", "valu", "u=uuu", lambda mask, a, b: mask & a | ~mask & b, 1)
_row("v_bfm_b32", "valu", "u=uu", lambda a, b: ((U32(1) << (a & U32(31))) - U32(1)) << (b & U32(31)), 1)
_row("v_alignbit_b32", "valu", "u=uuu", s.align_bits, 1)
_row("v_alignbyte_b32", "valu", "u=uuu", lambda a, b, c: s.align_bits(a, b, (c & U32(3)) << U32(3)), 1)
_row("v_perm_b32", "valu", "u=uuu", s.permute_bytes, 1)
_row("v_bcnt_u32_b32", "valu", "u=uu", lambda a, b: s.count_ones(a) + b, 2)
_row("v_bfrev_b32", "valu", "u=u", s.reversed_bits, 1)
_row("v_ffbl_b32", "valu", "u=u", s.first_one, 1)
_row("v_ffbh_u32", "valu", "u=u", s.leading_zeros, 1)
_row("v_ffbh_i32", "valu", "u=i", s.leading_signs, 1)
_row("v_sad_u32", "valu", "u=uuu", lambda a, b, c: np.where(a > b, a - b, b - a) + c, 2)
_row("v_sad_u8 v_sad_hi_u8 v_sad_u16 v_msad_u8 v_lerp_u8", "valu", "u=uuu", None, 2)
_row("v_qsad_pk_u16_u8 v_mqsad_pk_u16_u8", "valu64", "U=UuU", None, 2)
_row("v_prng_b32", "valu", "u=u")
for _type, _kind in (("u16", "w"), ("i16", "s"), ("u32", "u"), ("i32", "i")):
    _row(f"v_min_{_type}", "valu", f"{_kind}={_kind * 2}", np.minimum, 1)
    _row(f"v_max_{_type}", "valu", f"{_kind}={_kind * 2}", np.maximum, 1)
    _row(f"v_min3_{_type}", "valu", f"{_kind}={_kind * 3}", s.smallest, 2)
    _row(f"v_max3_{_type}", "valu", f"{_kind}={_kind * 3}", s.largest, 2)
    _row(f"v_med3_{_type}", "valu", f"{_kind}={_kind * 3}", s.median, 2)
    _row(f"v_maxmin_{_type}", "valu", f"{_kind}={_kind * 3}", s.least_of_largest, 2)
    _row(f"v_minmax_{_type}", "valu", f"{_kind}={_kind * 3}", s.largest_of_least, 2)
_row("v_cndmask_b32", "valu", "u=uum", s.choose)
_row("v_cndmask_b16", "valu", "w=wwm", s.choose)
_row("v_mbcnt_lo_u32_b32", "valu", special="mbcnt_lo")
_row("v_mbcnt_hi_u32_b32", "valu", special="mbcnt_hi")
for _name in ("readlane", "writelane", "readfirstlane", "movrels", "movreld", "permlane64"):
    _row(f"v_{_name}_b32", "valu", special=_name)
_row("v_permlanex16_b32 v_permlane16_b32", "valu", special="permlane")
_row("v_permlane16_swap_b32 v_permlane32_swap_b32", "valu", special="row_swap")
_row("v_accvgpr_read v_accvgpr_write v_accvgpr_mov", "valu", "u=u", lambda a: a)
_row("v_pk_mov_b32", "packed", "P=PP", special="pk_mov")

# Comparisons

_ORDER = {
    "eq": np.equal, "ne": np.not_equal, "lg": np.not_equal, "lt": np.less, "le": np.less_equal, "gt":
    np.greater, "ge": np.greater_equal,
}  # fmt: skip
_NOT = {"neq": np.equal, "nlt": np.less, "nle": np.less_equal, "ngt": np.greater, "nge": np.greater_equal}


def _less_or_greater(a: Any, b: Any) -> Any:
    return (a < b) | (a > b)


def _negated(function: Any) -> Any:
    return lambda a, b: ~function(a, b)


_FLOAT_ORDER = {
    **_ORDER,
    **{name: _negated(function) for name, function in _NOT.items()},
    "lg": _less_or_greater,
    "nlg": _negated(_less_or_greater),
    "o": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "u": lambda a, b: np.isnan(a) | np.isnan(b),
}
for _type, _kind in (
    ("u32", "u"), ("i32", "i"), ("u64", "U"), ("i64", "I"), ("u16", "w"), ("i16", "s"), ("f32", "f"),
    ("f64", "D"), ("f16", "h"),
):  # fmt: skip
    _float, _pipe = _type.startswith("f"), "valu64" if _type.endswith("64") else "valu"
    _numbers = f"fp{_type[1:]}" if _float else "int"
    for _name, _function in (_FLOAT_ORDER if _float else _ORDER).items():
        _row(f"v_cmp_{_name}_{_type}", _pipe, f"M={_kind * 2}", _function, 1, _numbers)
        _row(f"v_cmpx_{_name}_{_type}", _pipe, f"M={_kind * 2}", _function, 1, special="cmpx")
    if _float:
        _row(f"v_cmp_class_{_type}", _pipe, f"M={_kind}u", s.class_of)
        _row(f"v_cmpx_class_{_type}", _pipe, f"M={_kind}u", s.class_of, special="cmpx")
_row("v_cmp_t_u32", "valu", "M=uu", lambda a, b: np.ones(np.broadcast_shapes(a.shape, b.shape), bool))

# Floating point

_ROUNDED = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rndne": np.rint}
for _type, _kind, _pipe in (("f32", "f", "valu"), ("f64", "D", "valu64"), ("f16", "h", "valu")):
    _fp, _one, _two, _three = f"fp{_type[1:]}", *(f"{_kind}={_kind * sources}" for sources in (1, 2, 3))
    _row(f"v_add_{_type}", _pipe, _two, np.add, 1, _fp)
    _row(f"v_sub_{_type}", _pipe, _two, np.subtract, 1, _fp)
    _row(f"v_subrev_{_type}", _pipe, _two, s.swapped(np.subtract), 1, _fp)
    _row(f"v_mul_{_type} v_mul_legacy_{_type} v_mul_dx9_zero_{_type}", _pipe, _two, np.multiply, 1, _fp)
    _row(f"v_min_{_type} v_min_num_{_type} v_minimum_{_type}", _pipe, _two, np.fmin, 1, _fp)
    _row(f"v_max_{_type} v_max_num_{_type} v_maximum_{_type}", _pipe, _two, np.fmax, 1, _fp)
    _row(f"v_min3_{_type} v_min3_num_{_type} v_minimum3_{_type}", _pipe, _three, s.smallest, 2, _fp)
    _row(f"v_max3_{_type} v_max3_num_{_type} v_maximum3_{_type}", _pipe, _three, s.largest, 2, _fp)
    for _name in ("maxmin", "maxmin_num", "maximumminimum"):
        _row(f"v_{_name}_{_type}", _pipe, _three, s.least_of_largest, 2, _fp)
    for _name in ("minmax", "minmax_num", "minimummaximum"):
        _row(f"v_{_name}_{_type}", _pipe, _three, s.largest_of_least, 2, _fp)
    _row(f"v_med3_{_type} v_med3_num_{_type}", _pipe, _three, s.median, 2, _fp)
    for _name in ("fma", "mad", "fma_legacy", "fmamk", "madmk", "fmaak", "madak", "div_fmas"):
        _row(f"v_{_name}_{_type}", _pipe, _three, s.multiply_add, 2, _fp)
    _row(f"v_fmac_{_type} v_mac_{_type} v_fmac_legacy_{_type}", _pipe, f"{_two}d", s.multiply_add, 2, _fp)
    _row(f"v_div_scale_{_type}", _pipe, f"{_kind}M={_kind * 3}", s.unscaled, 1, _fp)
    _row(f"v_div_fixup_{_type}", _pipe, _three, s.divided, 1, _fp)
    for _name, _function in _ROUNDED.items():
        _row(f"v_{_name}_{_type}", _pipe, _one, _function, 1, _fp)
    _row(f"v_fract_{_type}", _pipe, _one, lambda a: a - np.floor(a), 1, _fp)
    _row(f"v_frexp_mant_{_type}", _pipe, _one, lambda a: np.frexp(a)[0].astype(a.dtype), 1, _fp)
    _row(f"v_ldexp_{_type}", _pipe, f"{_kind}={_kind}i", lambda a, b: np.ldexp(a, b).astype(a.dtype), 1, _fp)
    _row(f"v_rcp_{_type} v_rcp_iflag_{_type}", "trans", _one, np.reciprocal, 1, _fp)
    _row(f"v_rsq_{_type}", "trans", _one, lambda a: (1 / np.sqrt(a)).astype(a.dtype), 1, _fp)
    _row(f"v_sqrt_{_type}", "trans", _one, np.sqrt, 1, _fp)


def _of_turns(function: Any) -> Any:
    return lambda a: function(2 * np.pi * a.astype(float)).astype(a.dtype)


for _type, _kind in (("f32", "f"), ("f16", "h")):
    _fp = f"fp{_type[1:]}"
    _row(f"v_exp_{_type}", "trans", f"{_kind}={_kind}", np.exp2, 1, _fp)
    _row(f"v_log_{_type}", "trans", f"{_kind}={_kind}", np.log2, 1, _fp)
    _row(f"v_sin_{_type}", "trans", f"{_kind}={_kind}", _of_turns(np.sin), 1, _fp)
    _row(f"v_cos_{_type}", "trans", f"{_kind}={_kind}", _of_turns(np.cos), 1, _fp)
_row("v_frexp_exp_i32_f32", "valu", "i=f", lambda a: np.frexp(a)[1].astype(I32), 1)
_row("v_frexp_exp_i32_f64", "valu64", "i=D", lambda a: np.frexp(a)[1].astype(I32), 1)
_row("v_frexp_exp_i16_f16", "valu", "w=h", None, 1)
_row("v_trig_preop_f64", "valu64", "D=Du", None, 1, "fp64")
for _unit, _pipe, _float, _kind, _to in (
    ("v", "valu", "f32", "f", F32), ("v", "valu64", "f64", "D", float), ("s", "salu", "f32", "f", F32),
):  # fmt: skip
    for _type, _whole, _rounded in (("i32", "i", s.to_int), ("u32", "u", s.to_uint)):
        _row(f"{_unit}_cvt_{_float}_{_type}", _pipe, f"{_kind}={_whole}", lambda a, to=_to: a.astype(to), 1)
        _row(f"{_unit}_cvt_{_type}_{_float}", _pipe, f"{_whole}={_kind}", _rounded, 1)
_row("v_cvt_rpi_i32_f32 v_cvt_nearest_i32_f32", "valu", "i=f", lambda a: s.to_int(np.floor(a + F32(0.5))), 1)
_row("v_cvt_flr_i32_f32 v_cvt_floor_i32_f32", "valu", "i=f", lambda a: s.to_int(np.floor(a)), 1)
_row("v_cvt_f64_f32", "valu64", "D=f", lambda a: a.astype(float), 1)
_row("v_cvt_f32_f64", "valu64", "f=D", lambda a: a.astype(F32), 1)
_row("v_cvt_f16_f32", "valu", "h=f", lambda a: a.astype(np.float16), 1)
_row("v_cvt_f32_f16", "valu", "f=h", lambda a: a.astype(F32), 1)
_row("v_cvt_f16_u16", "valu", "h=w", lambda a: a.astype(np.float16), 1)
_row("v_cvt_f16_i16", "valu", "h=s", lambda a: a.astype(np.float16), 1)
_row("v_cvt_u16_f16 v_cvt_i16_f16 v_cvt_norm_u16_f16 v_cvt_norm_i16_f16", "valu", "w=h", None, 1)
_row("v_cvt_u32_u16", "valu", "u=w", lambda a: a)
_row("v_cvt_i32_i16", "valu", "i=s", lambda a: a)
_row("v_cvt_pk_u16_u32 v_cvt_pk_i16_i32 v_cvt_pk_u16_f32 v_cvt_pk_i16_f32", "valu", "u=uu", None, 2)
_row(
    "v_cvt_pk_u8_f32 v_cvt_pkaccum_u8_f32 v_ashr_pk_i8_i32 v_ashr_pk_u8_i32 v_sat_pk_u8_i16 v_cvt_small",
    "valu",
    special="unknown",  # v_cvt_small: from or to 8, 6 and 4 bits, or rounded at random
)
_row("v_cvt_pkrtz_f16_f32 v_cvt_pk_rtz_f16_f32 v_cvt_pk_f16_f32", "valu", "u=ff", s.packed_halves, 2)
_row("v_cvt_pk_bf16_f32", "valu", "u=ff", s.packed_bfloats, 2)
_row("v_pack_b32_f16", "valu", "u=ww", lambda a, b: a & U32(0xFFFF) | b << U32(16))
for _number in range(4):
    _row(f"v_cvt_f32_ubyte{_number}", "valu", "f=u", s.byte(_number), 1)

# Two at a time, and products of matrices

for _type, _pair in (("f32", "P"), ("f16", "H")):
    _fp, _two, _three = f"fp{_type[1:]}", f"{_pair}={_pair * 2}", f"{_pair}={_pair * 3}"
    _row(f"v_pk_add_{_type}", "packed", _two, np.add, 2, _fp)
    _row(f"v_pk_mul_{_type}", "packed", _two, np.multiply, 2, _fp)
    _row(f"v_pk_fma_{_type}", "packed", _three, s.multiply_add, 4, _fp)
_row("v_pk_fmac_f16", "packed", "H=HHd", s.multiply_add, 4, "fp16")
_row("v_pk_min_f16 v_pk_min_num_f16 v_pk_minimum_f16", "packed", "H=HH", np.fmin, 2, "fp16")
_row("v_pk_max_f16 v_pk_max_num_f16 v_pk_maximum_f16", "packed", "H=HH", np.fmax, 2, "fp16")
_row("v_pk_minimum3_f16", "packed", "H=HHH", s.smallest, 4, "fp16")
_row("v_pk_maximum3_f16", "packed", "H=HHH", s.largest, 4, "fp16")
for _type, _kind in (("u16", "W"), ("i16", "S")):
    for _name, _function in (("add", np.add), ("sub", np.subtract), ("min", np.minimum), ("max", np.maximum)):
        _row(f"v_pk_{_name}_{_type}", "packed", f"{_kind}={_kind * 2}", _function, 2)
    _row(f"v_pk_mad_{_type}", "packed", f"{_kind}={_kind * 3}", lambda a, b, c: a * b + c, 4)
_row("v_pk_mul_lo_u16", "packed", "W=WW", np.multiply, 2)
_row("v_pk_lshlrev_b16", "packed", "W=WW", lambda a, b: b << (a & U32(15)), 2)
_row("v_pk_lshrrev_b16", "packed", "W=WW", lambda a, b: b >> (a & U32(15)), 2)
_row("v_pk_ashrrev_i16", "packed", "S=WS", lambda a, b: b >> (a & U32(15)).astype(I32), 2)
_row("v_dot2_f32_f16", "valu", "f=uuf", s.dot_of_halves, 4, "fp16")
_row("v_dot2c_f32_f16 v_dot2acc_f32_f16", "valu", "f=uud", s.dot_of_halves, 4, "fp16")
_row("v_dot2_f32_bf16", "valu", "f=uuf", None, 4, "fp16")
_row("v_dot2c_f32_bf16", "valu", "f=uud", None, 4, "fp16")
_row("v_dot4_i32_i8 v_dot4_u32_u8 v_dot4_i32_iu8", "valu", "u=uuu", None, 8)
_row("v_dot2_i32_i16 v_dot2_u32_u16 v_dot8_i32_i4 v_dot8_u32_u4 v_dot8_i32_iu4", "valu", "u=uuu", None, 8)
_row("v_dot2c_i32_i16 v_dot4c_i32_i8 v_dot8c_i32_i4", "valu", "u=uud", None, 8)
_row("v_dot4_f32_fp8_fp8 v_dot4_f32_bf8_bf8 v_dot4_f32_fp8_bf8 v_dot4_f32_bf8_fp8", "valu", "f=uuf", None, 8)
_row("v_dot2_f16_f16 v_dot2_bf16_bf16", "valu", "w=uuw", None, 4, "fp16")
_row("v_fma_mix_f32 v_mad_mix_f32", "valu", "f=xxx", s.multiply_add, 2, "fp32")
for _name in ("mixlo", "mixhi"):
    _row(f"v_fma_{_name}_f16 v_mad_{_name}_f16", "valu", "h=xxx", s.half_sum, 2, "fp16")

# Scalar

_row("s_mov_b32 s_mov_b64", "salu", special="move")
_row("s_movk_i32", "salu", "i=j", lambda a: a)
_row("s_cmov_b32", "salu", "u=udc", lambda a, d, c: np.where(c, a, d))
_row("s_cmov_b64", "salu", "U=Udc", lambda a, d, c: np.where(c, a, d))
_row("s_cmovk_i32", "salu", "i=jdc", lambda a, d, c: np.where(c, a, d))
_row("s_cselect_b32 s_cselect_b64", "salu", special="select")
_row("s_add_u32", "salu", "uc=uu", s.add_carry, 1)
_row("s_sub_u32", "salu", "uc=uu", s.sub_borrow, 1)
_row("s_addc_u32", "salu", "uc=uuc", s.add_carry_in, 1)
_row("s_subb_u32", "salu", "uc=uuc", s.sub_borrow_in, 1)
_row("s_add_i32", "salu", "ic=ii", s.add_overflow, 1)
_row("s_sub_i32", "salu", "ic=ii", s.sub_overflow, 1)
_row("s_addk_i32", "salu", "ic=jd", s.add_overflow, 1)
_row("s_mulk_i32", "salu", "i=jd", np.multiply, 1)
_row("s_add_nc_u64", "salu", "U=UU", np.add, 1)
_row("s_sub_nc_u64", "salu", "U=UU", np.subtract, 1)
_row("s_mul_i32", "salu", "u=uu", np.multiply, 1)
_row("s_mul_u64", "salu", "U=UU", np.multiply, 1)
_row("s_mul_hi_u32", "salu", "u=uu", s.mul_hi, 1)
_row("s_mul_hi_i32", "salu", "i=ii", s.mul_hi, 1)
for _type, _kind in (("u32", "u"), ("i32", "i")):
    _row(f"s_min_{_type}", "salu", f"{_kind}c={_kind * 2}", lambda a, b: (np.minimum(a, b), a < b), 1)
    _row(f"s_max_{_type}", "salu", f"{_kind}c={_kind * 2}", lambda a, b: (np.maximum(a, b), a > b), 1)
_row("s_lshl_b32", "salu", "uc=uu", s.tested(s.shift_left), 1)
_row("s_lshr_b32", "salu", "uc=uu", s.tested(s.shift_right), 1)
_row("s_ashr_i32", "salu", "ic=iu", s.tested(s.shift_right), 1)
_row("s_lshl_b64", "salu", "Uc=Uu", s.tested(s.shift_left), 1)
_row("s_lshr_b64", "salu", "Uc=Uu", s.tested(s.shift_right), 1)
_row("s_ashr_i64", "salu", "Ic=Iu", s.tested(s.shift_right), 1)
for _number in (1, 2, 3, 4):
    _row(
        f"s_lshl{_number}_add_u32", "salu", "uc=uu",
        lambda a, b, n=_number: ((a << U32(n)) + b, s.wide(a) * U64(1 << n) + s.wide(b) >> U64(32) != 0), 2,
    )  # fmt: skip
for _type, _kind in (("u32", "u"), ("i32", "i"), ("u64", "U"), ("i64", "I")):
    _row(f"s_bfe_{_type}", "salu", f"{_kind}c={_kind}u", s.tested(s.packed_bit_field), 1)
_row("s_bfm_b32", "salu", "u=uu", lambda a, b: ((U32(1) << (a & U32(31))) - U32(1)) << (b & U32(31)), 1)
_row(
    "s_bfm_b64",
    "salu",
    "U=uu",
    lambda a, b: ((U64(1) << s.wide(a & U32(63))) - U64(1)) << s.wide(b & U32(63)),
    1,
)
_row("s_abs_i32", "salu", "ic=i", s.tested(np.abs), 1)
_row("s_absdiff_i32", "salu", "ic=ii", s.tested(lambda a, b: np.abs(a - b)), 1)
_row("s_sext_i32_i8", "salu", "i=i", s.sign_extended(8), 1)
_row("s_sext_i32_i16", "salu", "i=i", s.sign_extended(16), 1)
_row("s_brev_b32", "salu", "u=u", s.reversed_bits, 1)
_row("s_brev_b64", "salu", "U=U", None, 1)
for _type, _kind in (("b32", "u"), ("b64", "U")):
    _row(f"s_bcnt1_i32_{_type}", "salu", f"uc={_kind}", s.tested(s.count_ones), 1)
    _row(f"s_bcnt0_i32_{_type}", "salu", f"uc={_kind}", s.tested(lambda a: s.count_ones(~a)), 1)
    _row(f"s_ff1_i32_{_type}", "salu", f"u={_kind}", s.first_one, 1)
    _row(f"s_flbit_i32_{_type}", "salu", f"u={_kind}", s.leading_zeros, 1)
_row("s_flbit_i32", "salu", "u=i", s.leading_signs, 1)
_row("s_flbit_i32_i64", "salu", "u=I", None, 1)
_row("s_pack_ll_b32_b16", "salu", "u=uu", lambda a, b: a & U32(0xFFFF) | b << U32(16), 1)
_row("s_pack_lh_b32_b16", "salu", "u=uu", lambda a, b: a & U32(0xFFFF) | b & U32(0xFFFF0000), 1)
_row("s_pack_hh_b32_b16", "salu", "u=uu", lambda a, b: a >> U32(16) | b & U32(0xFFFF0000), 1)
_row("s_pack_hl_b32_b16", "salu", "u=uu", lambda a, b: a >> U32(16) | b << U32(16), 1)
for _type, _kind in (("b32", "u"), ("b64", "U")):
    _row(f"s_bitset0_{_type}", "salu", f"{_kind}=ud", lambda a, d: d & ~s.bit(a, d), 1)
    _row(f"s_bitset1_{_type}", "salu", f"{_kind}=ud", lambda a, d: d | s.bit(a, d), 1)
    _row(f"s_bitcmp0_{_type}", "salu", f"c={_kind}u", lambda a, b: a & s.bit(b, a) == 0, 1)
    _row(f"s_bitcmp1_{_type}", "salu", f"c={_kind}u", lambda a, b: a & s.bit(b, a) != 0, 1)
for _name, _function in _ORDER.items():
    for _type, _kind in (("u32", "u"), ("i32", "i"), ("u64", "U")):
        _row(f"s_cmp_{_name}_{_type}", "salu", f"c={_kind * 2}", _function, 1)
    _row(f"s_cmpk_{_name}_i32", "salu", "c=ij", _function, 1)
    _row(f"s_cmpk_{_name}_u32", "salu", "c=uk", _function, 1)
for _bits in ("32", "64"):
    for _name in ("and", "or", "xor", "nand", "nor", "xnor", "andn2", "orn2", "andn1", "orn1", "not"):
        _row(f"s_{_name}_b{_bits}", "salu", special="logic")
        _row(f"s_{_name}_saveexec_b{_bits}", "salu", special="saveexec")
    _row(f"s_andn1_wrexec_b{_bits} s_andn2_wrexec_b{_bits}", "salu", special="wrexec")
    _row(f"s_wqm_b{_bits}", "salu", special="logic")
for _type, _kind in (("f32", "f"), ("f16", "h")):
    _fp = f"fp{_type[1:]}"
    for _name, _function in (
        ("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("min_num", np.fmin), ("min", np.fmin),
        ("max_num", np.fmax), ("max", np.fmax), ("minimum", np.minimum), ("maximum", np.maximum),
    ):  # fmt: skip
        _row(f"s_{_name}_{_type}", "salu", f"{_kind}={_kind * 2}", _function, 1, _fp)
    _row(f"s_fmac_{_type}", "salu", f"{_kind}={_kind * 2}d", s.multiply_add, 2, _fp)
    for _name, _function in _ROUNDED.items():
        _row(f"s_{_name}_{_type}", "salu", f"{_kind}={_kind}", _function, 1)
    for _name, _function in _FLOAT_ORDER.items():
        _row(f"s_cmp_{_name}_{_type}", "salu", f"c={_kind * 2}", _function, 1)
_row("s_fmaak_f32 s_fmamk_f32", "salu", "f=fff", s.multiply_add, 2, "fp32")
_row("s_cvt_f16_f32", "salu", "h=f", lambda a: a.astype(np.float16), 1)
_row("s_cvt_f32_f16", "salu", "f=h", lambda a: a.astype(F32), 1)
_row("s_cvt_hi_f32_f16", "salu", "f=u", None, 1)
_row("s_cvt_pk_rtz_f16_f32", "salu", "u=ff", s.packed_halves, 2)
_row("s_getpc_b64", "salu", "U=", lambda: np.zeros((1, 1, 1), U64))  # symbols are relative to the counter
_row("s_getreg_b32 s_sendmsg_rtn_b32", "salu", special="getreg")
_row("s_memtime s_memrealtime", "smem", "U=", lambda: np.zeros((1, 1, 1), U64))

# Control and waits

_row(
    "s_branch s_endpgm s_cbranch_scc0 s_cbranch_scc1 s_cbranch_vccz s_cbranch_vccnz s_cbranch_execz "
    "s_cbranch_execnz",
    "branch",
)
_row("s_trap", "other", special="trap")
_row("s_barrier s_barrier_wait", "barrier")
_row("s_barrier_signal", "other")  # the wait that follows counts as the barrier
_row(
    "s_waitcnt s_waitcnt_vscnt s_waitcnt_vmcnt s_waitcnt_lgkmcnt s_waitcnt_expcnt s_wait_loadcnt "
    "s_wait_storecnt s_wait_dscnt s_wait_kmcnt s_wait_samplecnt s_wait_bvhcnt s_wait_expcnt "
    "s_wait_loadcnt_dscnt s_wait_storecnt_dscnt s_wait_idle s_wait_event s_wait_xcnt",
    "wait",
)
_row(
    "s_setreg_b32 s_setreg_imm32_b32 s_round_mode s_denorm_mode s_setprio s_setprio_inc_wg s_sethalt s_nop "
    "s_delay_alu s_waitcnt_depctr s_wait_alu s_clause s_inst_prefetch s_set_inst_prefetch_distance s_sleep "
    "s_sleep_var s_wakeup s_sendmsg s_code_end s_icache_inv s_gl1_inv s_dcache_wb s_dcache_inv s_ttracedata "
    "s_prefetch_inst s_prefetch_data s_prefetch_inst_pc_rel s_incperflevel s_decperflevel s_version v_nop "
    "s_set_gpr_idx_on s_set_gpr_idx_off buffer_gl0_inv buffer_gl1_inv buffer_wbl2 buffer_invl2 buffer_inv "
    "buffer_wbinvl1 buffer_wbinvl1_vol global_inv global_wb global_wbinv",
    "other",
)

# Names on newer targets

_NEW = {
    r"v_(add|sub|subrev)_nc_(\w+)": r"v_\1_\2",
    "v_add_co_ci_u32": "v_addc_co_u32", "v_sub_co_ci_u32": "v_subb_co_u32",
    "v_subrev_co_ci_u32": "v_subbrev_co_u32", r"v_mad_co_([ui]64_[ui]32)": r"v_mad_\1",
    "v_ctz_i32_b32": "v_ffbl_b32", "v_clz_i32_u32": "v_ffbh_u32", "v_cls_i32": "v_ffbh_i32",
    r"s_ctz_i32_(b32|b64)": r"s_ff1_i32_\1", r"s_clz_i32_u(32|64)": r"s_flbit_i32_b\1",
    r"s_cls_i32(_i64)?": r"s_flbit_i32\1", r"s_(and|or)_not1_(\w+)": r"s_\1n2_\2",
    r"s_(and|or)_not0_(\w+)": r"s_\1n1_\2", r"s_(add|sub|addk)_co_([ui]32)": r"s_\1_\2",
    "s_add_co_ci_u32": "s_addc_u32", "s_sub_co_ci_u32": "s_subb_u32", "s_get_pc_i64": "s_getpc_b64",
    r"v_s_(exp|log|rcp|rsq|sqrt)_(f\d\d)": r"v_\1_\2",
    r"v_cvt_(sr|scale|scalef32)_\w+|v_cvt_\w*(bf|fp)[864]\w*|v_cvt_pk_?norm_\w+": "v_cvt_small",
    r"v_(lshlrev|lshrrev|ashrrev)_(b16|i16)_\w+": r"v_\1_\2",
    r"v_([us]?(?:mfma|smfmac|wmma|swmmac))_.*": r"v_\1",
}  # fmt: skip
_row("v_mfma v_smfmac v_wmma v_swmmac", "matrix", special="matrix")


@cache
def opcode(name: str) -> OpcodeRow | None:
    """Return the row of an instruction that does not access memory; None if there is none."""
    matches = ((re.fullmatch(pattern, name), renamed) for pattern, renamed in _NEW.items())
    names = name, *(match.expand(renamed) for match, renamed in matches if match)
    return next((TABLE[known] for known in names if known in TABLE), None)
