"""Every row of the table of opcodes that computes, against the manuals' arithmetic in plain Python.

An instruction's types follow from its name, not from the table: `v_mad_u32_u16` adds a word to a product of
lower halves.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from plain_python import (
    FLOATS,
    ORDER,
    assert_result,
    field,
    high_one,
    ieee,
    low,
    low_one,
    numeric,
    reversed_bits,
    signed,
    to_integer,
    value,
    words_of,
)

from dse.source.amd.execute.code import code_of
from dse.source.amd.execute.interpret import execute
from dse.source.amd.execute.opcodes import TABLE
from dse.source.machine.launch import LaunchArguments

LITERAL = 0x8123  # of instructions with 16 bits in them
KINDS = {"u32": "u", "i32": "i", "b32": "u", "f32": "f", "u64": "U", "i64": "I", "b64": "U", "f64": "D"}
KINDS |= {"u16": "w", "b16": "w", "i16": "s", "f16": "h"}


class Expected(NamedTuple):
    """The kinds of results and operands as in the table's forms, and the function of Python's numbers."""

    results: str
    operands: str
    function: Callable[..., Any]


EXPECTED: dict[str, Expected] = {}


def row(names: str, types: str, form: str, function: Callable[..., Any]) -> None:
    """Expect of `name_type`, for all names and types; `t` in the form is the kind of the type."""
    for name in names.split():
        for kind in types.split():
            results, operands = form.replace("t", KINDS.get(kind, "")).split("=")
            EXPECTED[f"{name}_{kind}" if kind != "-" else name] = Expected(results, operands, function)


def swapped(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, b, *more: function(b, a, *more)


def shift(a: int, by: int, bits: int) -> int:
    return a << (by & bits - 1)


def permuted(a: int, b: int, select: int) -> int:
    words = (b | a << 32).to_bytes(8, "little")
    selected = []
    for which in select.to_bytes(4, "little"):
        if which < 8:
            selected.append(words[which])
        elif which < 12:  # the sign of a half, in all bits
            selected.append(255 * (words[2 * which - 15] >> 7))
        else:
            selected.append(255 * (which > 12))
    return int.from_bytes(selected, "little")


def both(function: Callable[..., Any], test: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *values: (function(*values), test(*values))


def nonzero(function: Callable[..., int], bits: int = 32) -> Callable[..., Any]:
    return both(function, lambda *values: low(function(*values), bits) != 0)


# Integers
row("v_mov v_accvgpr_read v_accvgpr_write v_accvgpr_mov", "b32", "t=t", lambda a: a)
row("v_accvgpr_read v_accvgpr_write v_accvgpr_mov", "-", "u=u", lambda a: a)
row("v_mov", "b64 b16", "t=t", lambda a: a)
row("v_add s_add_nc", "u32 i32 u64 u16 i16", "t=tt", lambda a, b: a + b)
row("v_sub s_sub_nc", "u32 i32 u64 u16 i16", "t=tt", lambda a, b: a - b)
row("v_subrev", "u32 u16", "t=tt", lambda a, b: b - a)
row("v_add_co", "u32", "tM=tt", both(lambda a, b: a + b, lambda a, b: a + b >> 32))
row("v_addc_co", "u32", "tM=ttm", both(lambda a, b, c: a + b + c, lambda a, b, c: a + b + c >> 32))
for name, turn in (("v_sub{}_co", lambda f: f), ("v_sub{}rev_co", swapped)):
    row(name.format(""), "u32", "tM=tt", turn(both(lambda a, b: a - b, lambda a, b: a < b)))
    row(name.format("b"), "u32", "tM=ttm", turn(both(lambda a, b, c: a - b - c, lambda a, b, c: a < b + c)))
row("v_add3", "u32", "t=ttt", lambda a, b, c: a + b + c)
row("v_add_lshl", "u32", "t=ttt", lambda a, b, c: shift(a + b, c, 32))
row("v_lshl_add", "u32", "t=ttt", lambda a, b, c: shift(a, b, 32) + c)
row("v_lshl_add", "u64", "t=tut", lambda a, b, c: shift(a, b, 64) + c)
row("v_lshl_or", "b32", "t=ttt", lambda a, b, c: low(shift(a, b, 32)) | c)
row("v_and_or", "b32", "t=ttt", lambda a, b, c: a & b | c)
row("v_or3", "b32", "t=ttt", lambda a, b, c: a | b | c)
row("v_xor3", "b32", "t=ttt", lambda a, b, c: a ^ b ^ c)
row("v_xad", "u32", "t=ttt", lambda a, b, c: (a ^ b) + c)
row("v_mul_lo s_mul", "u32 i32 u16 u64", "t=tt", lambda a, b: a * b)
row("v_mad", "u32 u16 i16", "t=ttt", lambda a, b, c: a * b + c)
row("v_mad_legacy", "u16 i16", "t=ttt", lambda a, b, c: a * b + c)
row("v_mad", "u64_u32", "UM=uuU", both(lambda a, b, c: a * b + c, lambda a, b, c: a * b + c >> 64))
EXPECTED["v_mad_i64_i32"] = Expected(
    "UM", "iiU", both(lambda a, b, c: a * b + c, lambda a, b, c: low(a * b, 64) + c >> 64)
)
for text, kind in (("u", "x"), ("i", "y")):
    row(f"v_mul_{text}32", f"{text}24", f"u={kind * 2}", lambda a, b: a * b)
    row(f"v_mul_hi_{text}32", f"{text}24", f"u={kind * 2}", lambda a, b: a * b >> 32)
    row(f"v_mad_{text}32", f"{text}24", f"u={kind * 2}u", lambda a, b, c: a * b + c)
row("v_mad_u32 v_mad_i32", "u16 i16", "u=ttu", lambda a, b, c: a * b + c)
row("v_mul_hi s_mul_hi", "u32 i32", "t=tt", lambda a, b: a * b >> 32)
for name, of_two in (("and", lambda a, b: a & b), ("or", lambda a, b: a | b), ("xor", lambda a, b: a ^ b)):
    row(f"v_{name}", "b32 b16", "t=tt", of_two)
row("v_xnor", "b32", "t=tt", lambda a, b: ~(a ^ b))
row("v_not", "b32 b16", "t=t", lambda a: ~a)
for kind, size in (("b32", 32), ("b64", 64), ("b16", 16)):
    amount = "w" if size == 16 else "u"
    row("v_lshlrev", kind, f"t={amount}t", lambda a, b, n=size: shift(b, a, n))
    row("v_lshrrev v_ashrrev", kind, f"t={amount}t", lambda a, b, n=size: b >> (a & n - 1))
    row("v_ashrrev", kind.replace("b", "i"), f"t={amount}t", lambda a, b, n=size: b >> (a & n - 1))
    if size > 16:
        row("s_lshl", kind, "tc=tu", nonzero(lambda a, b, n=size: shift(a, b, n), size))
        row("s_lshr", kind, "tc=tu", nonzero(lambda a, b, n=size: a >> (b & n - 1), size))
        row("s_ashr", kind.replace("b", "i"), "tc=tu", nonzero(lambda a, b, n=size: a >> (b & n - 1), size))
        of_bits = lambda a, b, n=size: low(shift(-1, a, n) ^ -1, n) << (b & n - 1)  # noqa: E731
        row("s_bfm v_bfm", kind, "t=uu", of_bits)
        for sign in "ui":
            packed = lambda a, b, n=size, s=sign == "i": field(  # noqa: E731
                a, b & n - 1, min(b >> 16 & 0x7F, n), s
            )
            row("s_bfe", kind.replace("b", sign), "tc=tu", nonzero(packed, size))
row("v_bfe", "u32", "t=ttt", lambda a, at, width: field(a, at & 31, width & 31, False))
row("v_bfe", "i32", "t=tuu", lambda a, at, width: field(a, at & 31, width & 31, True))
INTEGERS = "u32 i32 u16 i16"
for name, choose in (("min", min), ("max", max)):
    row(f"v_{name}", INTEGERS, "t=tt", choose)
    row(f"v_{name}3", INTEGERS, "t=ttt", choose)
row("s_min", "u32 i32", "tc=tt", both(min, lambda a, b: a < b))
row("s_max", "u32 i32", "tc=tt", both(max, lambda a, b: a > b))
row("v_med3", INTEGERS, "t=ttt", lambda *values: sorted(values)[1])
row("v_maxmin", INTEGERS, "t=ttt", lambda a, b, c: min(max(a, b), c))
row("v_minmax", INTEGERS, "t=ttt", lambda a, b, c: max(min(a, b), c))
row("v_bfi", "b32", "t=ttt", lambda mask, a, b: mask & a | ~mask & b)
row("v_alignbit", "b32", "t=ttt", lambda a, b, c: (a << 32 | b) >> (c & 31))
row("v_alignbyte", "b32", "t=ttt", lambda a, b, c: (a << 32 | b) >> 8 * (c & 3))
row("v_perm", "b32", "t=ttt", permuted)
row("v_bcnt_u32", "b32", "t=tt", lambda a, b: a.bit_count() + b)
row("v_bfrev s_brev", "b32", "t=t", reversed_bits)
row("v_ffbl s_ff1_i32", "b32", "t=t", low_one)
row("s_ff1_i32", "b64", "u=t", low_one)
row("v_ffbh s_flbit_i32", "u32 b32", "t=t", lambda a: high_one(a, 32))
row("s_flbit_i32", "b64", "u=t", lambda a: high_one(a, 64))
row("v_ffbh s_flbit", "i32", "u=t", lambda a: high_one(a ^ -1 if a < 0 else a, 32))
row("v_sad", "u32", "t=ttt", lambda a, b, c: abs(a - b) + c)
row("v_cndmask", "b32 b16", "t=ttm", lambda a, b, chosen: b if chosen else a)
row("s_movk", "i32", "t=j", lambda a: a)
row("s_cmov", "b32 b64", "t=tdc", lambda a, old, c: a if c else old)
row("s_cmovk", "i32", "t=jdc", lambda a, old, c: a if c else old)
row("s_add", "u32", "tc=tt", both(lambda a, b: a + b, lambda a, b: a + b >> 32))
row("s_sub", "u32", "tc=tt", both(lambda a, b: a - b, lambda a, b: a < b))
row("s_addc", "u32", "tc=ttc", both(lambda a, b, c: a + b + c, lambda a, b, c: a + b + c >> 32))
row("s_subb", "u32", "tc=ttc", both(lambda a, b, c: a - b - c, lambda a, b, c: a < b + c))


def overflows(a: int) -> bool:
    return not -(1 << 31) <= a < 1 << 31


row("s_add", "i32", "tc=tt", both(lambda a, b: a + b, lambda a, b: overflows(a + b)))
row("s_sub", "i32", "tc=tt", both(lambda a, b: a - b, lambda a, b: overflows(a - b)))
row("s_addk", "i32", "tc=jd", both(lambda a, b: a + b, lambda a, b: overflows(a + b)))
row("s_mulk", "i32", "t=jd", lambda a, b: a * b)
for places in (1, 2, 3, 4):
    sum_ = lambda a, b, n=places: (a << n) + b  # noqa: E731
    row(f"s_lshl{places}_add", "u32", "tc=tt", both(sum_, lambda a, b, f=sum_: f(a, b) >> 32))
row("s_abs", "i32", "tc=t", nonzero(lambda a: abs(a)))
row("s_absdiff", "i32", "tc=tt", nonzero(lambda a, b: abs(signed(a - b))))
row("s_sext_i32", "i8 i16", "i=u", lambda a: a)
EXPECTED["s_sext_i32_i8"] = Expected("i", "u", lambda a: signed(a, 8))
EXPECTED["s_sext_i32_i16"] = Expected("i", "u", lambda a: signed(a, 16))
row("s_bcnt1_i32", "b32 b64", "uc=t", nonzero(lambda a: a.bit_count()))
row("s_bcnt0_i32", "b32", "uc=t", nonzero(lambda a: 32 - a.bit_count()))
row("s_bcnt0_i32", "b64", "uc=t", nonzero(lambda a: 64 - a.bit_count()))
for first, of_first in (("l", lambda a: low(a, 16)), ("h", lambda a: a >> 16)):
    for second, of_second in (("l", lambda a: low(a, 16)), ("h", lambda a: a >> 16)):
        pack = lambda a, b, f=of_first, g=of_second: f(a) | g(b) << 16  # noqa: E731
        row(f"s_pack_{first}{second}_b32", "b16", "u=uu", pack)
row("v_pack_b32", "f16", "u=ww", lambda a, b: a | b << 16)
for kind, last in (("b32", 31), ("b64", 63)):
    row("s_bitset0", kind, "t=ud", lambda a, old, last=last: old & ~(1 << (a & last)))
    row("s_bitset1", kind, "t=ud", lambda a, old, last=last: old | 1 << (a & last))
    row("s_bitcmp0", kind, "c=tu", lambda a, b, last=last: not a >> (b & last) & 1)
    row("s_bitcmp1", kind, "c=tu", lambda a, b, last=last: a >> (b & last) & 1)
LOGIC: dict[str, Callable[[int, int], int]] = {
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
    "nand": lambda a, b: ~(a & b), "nor": lambda a, b: ~(a | b), "xnor": lambda a, b: ~(a ^ b),
    "andn1": lambda a, b: ~a & b, "orn1": lambda a, b: ~a | b,
    "andn2": lambda a, b: a & ~b, "orn2": lambda a, b: a | ~b,
}  # fmt: skip
for kind, size in (("b32", 32), ("b64", 64)):
    for name, of_two in LOGIC.items():
        row(f"s_{name}", kind, "tc=tt", nonzero(of_two, size))
    row("s_not", kind, "tc=t", nonzero(lambda a: ~a, size))
    row("s_mov", kind, "t=t", lambda a: a)
    row("s_cselect", kind, "t=ttc", lambda a, b, c: a if c else b)

# Comparisons
for name, order in ORDER.items():
    row(f"v_cmp_{name} s_cmp_{name}", "u32 i32 u64 i64 u16 i16 f32 f64 f16", "M=tt", order)
    row(f"v_cmp_n{name} s_cmp_n{name}", "f32 f64 f16", "M=tt", lambda a, b, f=order: not f(a, b))
    row(f"s_cmpk_{name}", "i32", "M=tj", order)
    row(f"s_cmpk_{name}", "u32", "M=tk", order)
for name in ("ne", "lg"):
    row(f"v_cmp_{name} s_cmp_{name}", "u32 i32 u64 i64 u16 i16", "M=tt", lambda a, b: a != b)
    row(f"s_cmpk_{name}", "i32", "M=tj", lambda a, b: a != b)
    row(f"s_cmpk_{name}", "u32", "M=tk", lambda a, b: a != b)
FLOATING = "f32 f64 f16"
row("v_cmp_ne s_cmp_ne", FLOATING, "M=tt", lambda a, b: a != b)
row("v_cmp_lg s_cmp_lg", FLOATING, "M=tt", lambda a, b: a < b or a > b)
row("v_cmp_nlg s_cmp_nlg", FLOATING, "M=tt", lambda a, b: not (a < b or a > b))
row("v_cmp_o s_cmp_o", FLOATING, "M=tt", lambda a, b: a == a and b == b)
row("v_cmp_u s_cmp_u", FLOATING, "M=tt", lambda a, b: a != a or b != b)
row("v_cmp_t", "u32", "M=tt", lambda a, b: True)

# Floating point
for name, arithmetic in (
    ("add", lambda a, b: a + b),
    ("sub", lambda a, b: a - b),
    ("mul", lambda a, b: a * b),
):
    row(f"v_{name} s_{name}", FLOATING, "t=tt", ieee(arithmetic))
row("v_subrev", FLOATING, "t=tt", ieee(lambda a, b: b - a))
row("v_mul_legacy v_mul_dx9_zero", FLOATING, "t=tt", ieee(lambda a, b: a * b))
for name, choose in (("min", min), ("max", max)):
    row(
        f"v_{name} v_{name}_num v_{name}imum s_{name} s_{name}_num s_{name}imum",
        FLOATING,
        "t=tt",
        numeric(choose),
    )
    row(f"v_{name}3 v_{name}3_num v_{name}imum3", FLOATING, "t=ttt", numeric(choose))
row("v_maxmin v_maxmin_num v_maximumminimum", FLOATING, "t=ttt", lambda a, b, c: min(max(a, b), c))
row("v_minmax v_minmax_num v_minimummaximum", FLOATING, "t=ttt", lambda a, b, c: max(min(a, b), c))
row("v_med3 v_med3_num", FLOATING, "t=ttt", lambda *values: sorted(values)[1])
fused = ieee(lambda a, b, c: a * b + c)
row("v_fma v_mad v_fma_legacy v_fmaak v_madak v_div_fmas s_fmaak", FLOATING, "t=ttt", fused)
row("v_fmamk v_madmk s_fmamk", FLOATING, "t=ttt", ieee(lambda a, k, b: a * k + b))
row("v_fmac v_mac v_fmac_legacy s_fmac", FLOATING, "t=ttd", fused)
row("v_div_fixup", FLOATING, "t=ttt", ieee(lambda quotient, a, b: b / a))
for name, of_one in (("floor", np.floor), ("ceil", np.ceil), ("trunc", np.trunc), ("rndne", np.rint)):
    row(f"v_{name} s_{name}", FLOATING, "t=t", ieee(of_one))
row("v_fract", FLOATING, "t=t", ieee(lambda a: a - np.floor(a)))
row("v_frexp_mant", FLOATING, "t=t", lambda a: math.frexp(a)[0])
row("v_frexp_exp_i32", FLOATING, "i=t", lambda a: math.frexp(a)[1])
row("v_ldexp", FLOATING, "t=tv", ieee(lambda a, b: np.ldexp(a, int(b))))
row("v_rcp v_rcp_iflag", FLOATING, "t=t", ieee(lambda a: 1 / a))
row("v_rsq", FLOATING, "t=t", ieee(lambda a: 1 / np.sqrt(a)))
row("v_sqrt", FLOATING, "t=t", ieee(np.sqrt))
row("v_exp", FLOATING, "t=t", ieee(np.exp2))
row("v_log", FLOATING, "t=t", ieee(np.log2))
row("v_sin", FLOATING, "t=t", ieee(lambda a: np.sin(2 * np.pi * a)))
row("v_cos", FLOATING, "t=t", ieee(lambda a: np.cos(2 * np.pi * a)))
for result in ("f32", "f64", "f16"):
    for source in ("u32", "i32", "u16", "i16", "f32", "f64", "f16"):
        row(f"v_cvt_{result} s_cvt_{result}", source, f"{KINDS[result]}=t", float)
for result, limits in (("i32", (-(1 << 31), (1 << 31) - 1)), ("u32", (0, (1 << 32) - 1))):
    row(f"v_cvt_{result} s_cvt_{result}", FLOATING, f"{KINDS[result]}=t", to_integer(*limits))
nearest = to_integer(-(1 << 31), (1 << 31) - 1, lambda a: math.floor(np.float32(a) + np.float32(0.5)))
row("v_cvt_u32", "u16", "u=t", lambda a: a)
row("v_cvt_i32", "i16", "i=t", lambda a: a)
row("v_cvt_rpi_i32 v_cvt_nearest_i32", "f32", "i=t", nearest)
row("v_cvt_flr_i32 v_cvt_floor_i32", "f32", "i=t", to_integer(-(1 << 31), (1 << 31) - 1, math.floor))
for name in ("v_cvt_f32_ubyte0", "v_cvt_f32_ubyte1", "v_cvt_f32_ubyte2", "v_cvt_f32_ubyte3"):
    row(name, "-", "f=u", lambda a, n=int(name[-1]): a >> 8 * n & 255)

# Rows with tests of their own, below and in test_interpret.py, or of which nothing is to compute
APART = {name for name, opcode in TABLE.items() if opcode.special and name not in EXPECTED} | {
    *("v_bitop2_b32", "v_bitop3_b32", "v_bitop3_b16"),  # their table is a modifier
    *("s_getpc_b64", "s_memtime", "s_memrealtime", "v_pk_add_f32", "v_pk_mul_f32", "v_pk_fma_f32"),
    *(f"v_cvt_{kind}_f32" for kind in ("pkrtz_f16", "pk_rtz_f16", "pk_f16", "pk_bf16")),
    "s_cvt_pk_rtz_f16_f32",
    *(name for name in TABLE if name.startswith(("v_cmp_class_", "v_div_scale_", "v_dot2"))),
    *(name for name, opcode in TABLE.items() if set("WSHx") & set(opcode.form)),
}
ROWS = sorted(name for name, op in TABLE.items() if (op.function or op.special) and name not in APART)


def source_kind(name: str) -> str:
    """The kind that an instruction's first operand has: it decides what words hold."""
    kinds = EXPECTED[name].operands
    return kinds[0] if kinds and kinds[0] in FLOATS else "u"


def instruction(name: str) -> list[str]:
    """Code that leaves a result in v[20:21], and what it says of masks or the scalar condition in v22."""
    results, operands, _ = EXPECTED[name]
    scalar = name.startswith("s_")
    letter, places, out = ("s", (16, 18, 20), 12) if scalar else ("v", (2, 4, 10), 20)
    sources, place = [], iter(places)
    for kind in operands:
        if kind in "jk":
            sources.append(hex(LITERAL))
        elif kind == "m":
            sources.append("s[10:11]")
        elif kind not in "cd":
            at = next(place)
            sources.append(f"{letter}[{at}:{at + 1}]" if kind in "UID" else f"{letter}{at}")
    targets = [
        "s[8:9]" if kind == "M" else f"{letter}[{out}:{out + 1}]" if kind in "UID" else f"{letter}{out}"
        for kind in results
        if kind != "c" and not (scalar and kind == "M")
    ]
    text = f"{name} {', '.join([*targets, *sources])}"
    if scalar:
        before = ["s_mov_b32 s12, s22", "s_mov_b32 s13, s23", "s_cmp_lt_i32 s23, 0"]
        after = ["s_cselect_b32 s14, 1, 0", *(f"v_mov_b32 v{20 + n}, s{12 + n}" for n in range(3))]
        return [*before, text, *after]
    after = ["v_cndmask_b32 v22, 0, 1, s[8:9]"] if "M" in results else []
    return ["v_mov_b32 v20, v12", "v_mov_b32 v21, v13", "s_mov_b64 s[8:9], 0", text, *after]


@cache
def computed(written: Any, scalar: bool, kind: str) -> dict[str, np.ndarray]:
    """Run all rows of one kind in one kernel: words [64, 3] by name. Scalar ones get a block for each row."""
    names = [name for name in ROWS if name.startswith("s_") == scalar and source_kind(name) == kind]
    code = ["s_load_dwordx4 s[4:7], s[0:1], 0x0", "v_and_b32 v0, 0x3ff, v0"]
    if scalar:
        code += ["s_lshl_b32 s3, s2, 5", "s_load_dwordx8 s[16:23], s[4:5], s3", "s_lshl_b32 s3, s2, 4"]
        code += ["v_mov_b32 v1, s3"]
    else:
        code += ["v_lshlrev_b32 v1, 5, v0", "global_load_dwordx4 v[2:5], v1, s[4:5]"]
        code += ["global_load_dwordx4 v[10:13], v1, s[4:5] offset:16", "s_waitcnt vmcnt(0)"]
        code += ["v_cmp_gt_i32 s[10:11], 0, v13", "v_lshlrev_b32 v1, 4, v0"]
    for name in names:
        code += [*instruction(name), "global_store_dwordx4 v1, v[20:23], s[6:7]", "v_add_u32 v1, 0x400, v1"]
    blocks, threads = (64, 1) if scalar else (1, 64)
    stored = np.zeros((len(names), 64, 4), np.uint32)
    launch = LaunchArguments((blocks, 1, 1), (threads, 1, 1), [words_of(kind).ravel(), stored.ravel()])
    with np.errstate(all="ignore"):
        machine, _ = execute(code_of(written(code)), launch, [(n, 0, 0) for n in range(blocks)])
    actual = machine.memory.regions[2]
    assert actual is not None
    return dict(zip(names, actual.view(np.uint32).reshape(stored.shape), strict=True))


def test_every_row_has_its_arithmetic():
    assert set(ROWS) <= set(EXPECTED), sorted(set(ROWS) - set(EXPECTED))
    assert len(ROWS) > 400


@pytest.mark.parametrize(("scalar", "kind"), sorted({(x.startswith("s_"), source_kind(x)) for x in ROWS}))
def test_equals_plain_python(written, scalar: bool, kind: str):
    for name, actual in computed(written, scalar, kind).items():
        expect_plain_python(name, actual)


def expect_plain_python(name: str, stored: np.ndarray) -> None:
    scalar, (results, operands, function) = name.startswith("s_"), EXPECTED[name]
    for words, actual in zip(words_of(source_kind(name)), stored, strict=True):
        values, pairs = [], iter(range(0, 6, 2))
        for operand in operands:
            if operand in "mc":
                values.append(int(words[7]) >> 31)
            elif operand == "d":
                values.append(value(words[6:], results[0]))
            elif operand in "jk":
                values.append(field(LITERAL, 0, 16, operand == "j"))
            else:
                values.append(value(words[next(pairs) :], "i" if operand == "v" else operand))
        answer = function(*values)
        answers = answer if isinstance(answer, tuple) else (answer,)
        if len(answers) == len(results) == 2 or results in ("M", "c"):
            assert actual[2] == bool(answers[-1]), (name, values)
        elif scalar:
            assert actual[2] == int(words[7]) >> 31, f"{name}: the scalar condition"
        if results in ("M", "c"):
            continue
        rough = name.split("_")[1] in ("exp", "log", "sin", "cos", "rsq", "rcp", "sqrt")
        assert_result(value(actual, results[0]), answers[0], results[0], rough, (name, values))
