"""Every row of the table of opcodes that computes, against what it does in plain Python.

A statement is an instruction whose operands are kinds: `IMAD.WIDE U = i i U` writes a pair. `[-~]u` is also
read negated and inverted; `p` is a predicate.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import reduce
from itertools import product
from operator import and_, or_, xor
from typing import Any, NamedTuple

import numpy as np
import pytest
from plain_python import (
    BITS,
    FLOATS,
    NUMBERS,
    ORDER,
    SIGNED,
    assert_result,
    field,
    ieee,
    low,
    numeric,
    reversed_bits,
    signed,
    to_integer,
    value,
    words_of,
)

from dse.source.machine.thread_set import Lanes
from dse.source.nvidia.execute.binding import Bound, bind
from dse.source.nvidia.sass.listing import parse
from dse.source.nvidia.sass.opcodes import OPCODES, opcode
from dse.source.nvidia.sass.operands import PT, SLOTS, UP, P
from dse.source.nvidia.sass.program import program

INF = math.inf
EDGES = [*NUMBERS, 1e-40, 2.0**31, -(2.0**31), 2.0**32, 2.0**63, -(2.0**63), 2.0**64, INF, -INF, math.nan]
RESULTS = ("u", "U", "f", "D", "h", "P", "PT", "RZ")
SOURCE = re.compile(r"(?:\[([-~|!]+)\])?([-~!]?)([uiUIfDhp])(\.[\w.]+)?")
LITERAL, CONSTANT = "0x3a", "c[0x0][0x168]"  # that stand in place of a register
SHAPE = (2, 32)  # blocks, threads


class Statement(NamedTuple):
    results: list[str]
    sources: list[str]
    function: Callable[..., Any]
    across: bool  # of all lanes of a warp together
    rough: bool


STATED: dict[str, Statement] = {}  # by instruction


def row(text: str, function: Callable[..., Any], across: bool = False, rough: bool = False) -> None:
    """Expect this of all instructions that are named before the operands."""
    targets, sources = (side.split() for side in text.split("="))
    names = [word for word in targets if word not in RESULTS]
    for name in names:
        instruction = text.replace(" ".join(names), name)
        STATED[instruction] = Statement(targets[len(names) :], sources, function, across, rough)


def carrying(function: Callable[..., int], bits: int = 32) -> Callable[..., Any]:
    """The same, and what is above the result."""
    return lambda *values: (function(*values), function(*values) >> bits)


# Integers
row("MOV UMOV MOV32I RPCMOV.32 u = [-~]u", lambda a: a)
row("MOV.64 UMOV.64 U = U", lambda a: a)
row("SEL USEL u = [-]u [-]u p", lambda a, b, p: a if p else b)
row("SEL.64 U = U U p", lambda a, b, p: a if p else b)
row("IADD3 UIADD3 u = [-~]u [-~]u [-]u", lambda a, b, c: a + b + c)
row("IADD IADD32I VIADD UVIADD u = [-]u [-]u", lambda a, b: a + b)
row("IADD.64 IADD3.64 U = [-~]U U", lambda a, b: a + b)
row("IADD3.64 U PT PT = U U RZ", lambda a, b: a + b)
row("IADD3 UIADD3 IADD u P P = u u u", lambda a, b, c: (a + b + c, a + b + c >> 32, a + b + c >> 33))
row("IADD3 u P PT = u -u RZ", lambda a, b: (a - b, a >= b))
row("IADD3.X UIADD3.X u = u u u p !PT", lambda a, b, c, p: a + b + c + p)
for inverted in "~-":
    row(f"IADD3.X UIADD3.X u P = u {inverted}u RZ p !PT", carrying(lambda a, b, p: a + low(~b) + p))
row("LEA ULEA u = u [-]u 0x3", lambda a, b: (a << 3) + b)
row("IABS UIABS u = i", abs)
row("IMAD UIMAD u = [-]u u [-]u", lambda a, b, c: a * b + c)
row("IMAD.MOV.U32 UIMAD.MOV u = RZ RZ [-]u", lambda c: c)
row("IMAD.X UIMAD.X u = u u u p", lambda a, b, c, p: a * b + c + p)
for sign, kind in (("", "i"), (".U32", "u")):
    bits = {"i": lambda a, b: low(a * b, 64), "u": lambda a, b: a * b}[kind]
    for carry, of_carry in (("", ""), (".X", " p")):
        total = lambda a, b, c, p=0, f=bits: f(a, b) + c + p  # noqa: E731
        names, operands = f"{sign}{carry}", f"{kind} {kind} [-]U{of_carry}"
        row(f"IMAD.WIDE{names} UIMAD.WIDE{names} U P = {operands}", carrying(total, 64))
        row(f"IMAD.WIDE{names} U = {operands}", total)
        upper = lambda *values, f=total: (low(f(*values), 64) >> 32, f(*values) >> 64)  # noqa: E731
        row(f"IMAD.HI{names} UIMAD.HI{names} u P = {operands}", upper)
for carry, of_carry in (("", ""), (".X", " p")):
    row(f"LEA{carry} ULEA{carry} u P = u u 0x3{of_carry}", carrying(lambda a, b, p=0: low(a << 3) + b + p))
    row(f"LEA{carry} u = u u 0x1f{of_carry}", lambda a, b, p=0: (a << 31) + b + p)
    high = lambda a, b, c, p=0: low((a | c << 32) << 5 >> 32) + b + p  # noqa: E731
    row(f"LEA.HI{carry} ULEA.HI{carry} u P = u u u 0x5{of_carry}", carrying(high))
    text = f"LEA.HI{carry}.SX32 ULEA.HI{carry}.SX32 u = i u 0x5{of_carry}"
    row(text, lambda a, b, p=0: (a << 5 >> 32) + b + p)


def shifted(modifiers: str) -> Callable[..., int]:
    bits = 64 if "64" in modifiers else 32

    def run(a: int, by: int, c: int) -> int:
        by = by % bits if ".W" in modifiers else min(by, 63 if bits == 64 else 32)
        pair = signed(a | c << 32, 64) if ".S" in modifiers and ".R" in modifiers else a | c << 32
        pair = low(pair << by if ".L" in modifiers else pair >> by, 64)
        return pair >> 32 if ".HI" in modifiers else pair

    return run


for parts in product((".L", ".R"), ("", ".W"), (".U32", ".S32", ".U64", ".S64"), ("", ".HI")):
    row(f"SHF{''.join(parts)} USHF{''.join(parts)} u = u u u", shifted("".join(parts)))
for suffix, kind in (("", "i"), (".U32", "u")):
    names = " ".join(f"{name}{suffix}" for name in ("IMNMX", "UIMNMX", "VIMNMX", "UVIMNMX"))
    row(f"{names} u = {kind} {kind} p", lambda a, b, p: (min if p else max)(a, b))
    row(f"VIMNMX{suffix} u P = {kind} {kind} p", lambda a, b, p: ((min if p else max)(a, b), a < b))
    text = f"VIADDMNMX{suffix} UVIADDMNMX{suffix} u = {kind} {kind} {kind} p"
    row(text, lambda a, b, c, p, s=kind == "i": (min if p else max)(field(a + b, 0, 32, s), c))
    row(
        f"VIMNMX3{suffix} UVIMNMX3{suffix} u = {kind} {kind} {kind} p",
        lambda a, b, c, p: (min if p else max)(a, b, c),
    )
row(
    "IMNMX.RELU UIMNMX.RELU VIMNMX.RELU UVIMNMX.RELU u = i i p",
    lambda a, b, p: max((min if p else max)(a, b), 0),
)
row("VIMNMX3.RELU UVIMNMX3.RELU u = i i i p", lambda a, b, c, p: max((min if p else max)(a, b, c), 0))
row(
    "VIADDMNMX.RELU UVIADDMNMX.RELU u = i i i p",
    lambda a, b, c, p: max((min if p else max)(field(a + b, 0, 32, True), c), 0),
)
TESTS = {**{name.upper(): order for name, order in ORDER.items()}, "NE": lambda a, b: a != b}
COMBINE = {"AND": lambda a, b: a and b, "OR": lambda a, b: a or b, "XOR": lambda a, b: a != b}


def compared(test: Callable[..., bool], way: str) -> Callable[..., Any]:
    combine = COMBINE[way]
    return lambda a, b, p, *low: (combine(test(a, b, *low), p), combine(not test(a, b, *low), p))


def extended(name: str) -> Callable[..., bool]:
    """A test of high words, given the same of the low ones."""
    if name == "NE":
        return lambda a, b, below: a != b or below
    return lambda a, b, below: below if a == b else name != "EQ" and TESTS[name](a, b)


for name, way in product(TESTS, COMBINE):
    for suffix, kind in (("", "i"), (".U32", "u"), (".U64", "U"), (".S64", "I")):
        names = f"ISETP.{name}{suffix}.{way} UISETP.{name}{suffix}.{way}"
        row(f"{names} P P = {kind} [-]{kind} p", compared(TESTS[name], way))
        if kind in "iu":
            names = f"ISETP.{name}{suffix}.{way}.EX UISETP.{name}{suffix}.{way}.EX"
            row(f"{names} P P = {kind} {kind} p p", compared(extended(name), way))
row("ISETP.T.AND P P = i i p", lambda a, b, p: (p, False))
row("ISETP.F.AND P PT = i i p", lambda a, b, p: False)


# Logic and bits
def table(lut: int, *values: int) -> int:
    cases = zip(*(f"{low(a):032b}" for a in values), strict=True)
    return int("".join(str(lut >> int("".join(case), 2) & 1) for case in cases), 2)


SHORT = (0xC0, 0xFC, 0x3C, 0x33, 0x0F, 0x30, 0x0C, 0x80, 0xFE, 0x96, 0xF8, 0xEA, 0x78)
for lut in (*SHORT, 0, 0xFF, 0x1B, 0xD8):
    of_words = lambda a, b, c, n=lut: table(n, a, b, c)  # noqa: E731
    row(f"LOP3.LUT ULOP3.LUT u = u [~]u u {lut:#x} !PT", of_words)
    row(f"LOP3.LUT P u = u u u {lut:#x} !PT", lambda a, b, c, f=of_words: (f(a, b, c) != 0, f(a, b, c)))
    row(f"LOP3.LUT P RZ = u u u {lut:#x} p", lambda a, b, c, p, f=of_words: f(a, b, c) != 0 or p)
    both = lambda a, b, c, n=lut: tuple(k >> (a << 2 | b << 1 | c) & 1 for k in (n, 0x1B))  # noqa: E731
    row(f"PLOP3.LUT UPLOP3.LUT P P = p [!]p p {lut:#x} 0x1b", both)
    row(f"PLOP3.LUT P PT = p p p {lut:#x} 0x8", lambda a, b, c, f=both: f(a, b, c)[0])
row("LOP3.LUT.PAND P u = u u u 0xc0 p", lambda a, b, c, p: (bool(a & b) and p, a & b))


def permuted(a: int, selector: int, c: int) -> int:
    octets = (a | c << 32).to_bytes(8, "little")
    picked = [selector >> 4 * place & 15 for place in range(4)]
    return int.from_bytes([octets[n & 7] >> 7 and 255 if n > 7 else octets[n & 7] for n in picked], "little")


row("PRMT UPRMT u = u u u", permuted)
row("PRMT u = u 0x7a10 u", lambda a, c: permuted(a, 0x7A10, c))
row("POPC UPOPC u = [~]u", lambda a: a.bit_count())
row("FLO.U32 UFLO.U32 u P = u", lambda a: (a.bit_length() - 1, a != 0))
row("FLO.U32.SH u = u", lambda a: 32 - a.bit_length() if a else -1)
row("FLO UFLO u = i", lambda a: (~a if a < 0 else a).bit_length() - 1)
row("BREV UBREV u = u", reversed_bits)
row("BMSK UBMSK u = u u", lambda a, b: (1 << min(b, 32)) - 1 << min(a, 32))
row("BMSK.W u = u u", lambda a, b: (1 << b % 32) - 1 << a % 32)
row("SGXT USGXT u = u u", lambda a, b: field(a, 0, min(b, 32), True))
row("SGXT.U32 u = u u", lambda a, b: low(a, min(b, 32)))
row("SGXT.W u = u u", lambda a, b: field(a, 0, b % 32, True))
row("P2R u = PR u 0x0", lambda a: a)
row("UP2UR u = UPR u 0x0", lambda a: a)
row("UR2UP P P = UPR u 0x30", lambda a: (a >> 4 & 1, a >> 5 & 1))
row("R2P P P = PR u 0x30", lambda a: (a >> 4 & 1, a >> 5 & 1))
row("CS2R U = SRZ", lambda: 0)
row("CS2R.32 S2R S2UR u = SRZ", lambda: 0)
row("B2R.RESULT u P =", lambda: (0, False))  # of a barrier without threads
row(f"LDC LDCU ULDC LDC.S8 ULDC.U16 u = {CONSTANT}", lambda: int(LITERAL, 0))


# Floating point
def nearest(a: float) -> float:
    with np.errstate(all="ignore"):
        return float(np.float32(a))


def directed(function: Callable[..., float], towards: float) -> Callable[..., float]:
    """Rounded towards an infinity, or to zero."""

    def run(*values: Any) -> float:
        exact = ieee(function)(*values)
        near = nearest(exact)
        beyond = abs(near) > abs(exact) if towards == 0 else near < exact if towards > 0 else near > exact
        return float(np.nextafter(np.float32(near), np.float32(towards))) if beyond else near

    return run


def flush(a: float) -> float:
    return math.copysign(0.0, a) if abs(a) < 2.0**-126 else a


def fused(a: float, b: float, c: float) -> float:
    if not all(map(math.isfinite, (a, b, c))):
        return ieee(lambda *values: values[0] * values[1] + values[2])(a, b, c)
    return float(Fraction(a) * Fraction(b) + Fraction(c))


ARITHMETIC: dict[str, tuple[str, Callable[..., float]]] = {
    "ADD": ("[-|]{0} [-]{0}", ieee(lambda a, b: a + b)),
    "MUL": ("[-]{0} [|]{0}", ieee(lambda a, b: a * b)),
    "FMA": ("{0} [-]{0} [-]{0}", ieee(lambda a, b, c: a * b + c)),
}
for name, (operands, function) in ARITHMETIC.items():
    row(f"F{name} F{name}32I UF{name} f = {operands.format('f')}", function)
    flushing = lambda *values, f=function: flush(nearest(f(*map(flush, values))))  # noqa: E731
    row(f"F{name}.FTZ f = {operands.format('f')}", flushing)
    saturated = lambda *values, f=function: min(f(*values), 1.0) if f(*values) > 0 else 0.0  # noqa: E731
    row(f"F{name}.SAT f = {operands.format('f')}", saturated)
    row(f"D{name} D = {operands.format('D')}", fused if name == "FMA" else function, rough=name == "FMA")
for mode, towards in ((".RP", INF), (".RM", -INF), (".RZ", 0.0)):
    row(f"FMUL{mode} f = f f", directed(lambda a, b: a * b, towards))
    row(f"I2F.U32{mode} f = u", directed(lambda a: a, towards))
row("FMNMX UFMNMX f = [-|]f f p", lambda a, b, p: numeric(min if p else max)(a, b))
row(
    "FMNMX3 f = [-|]f f f p",
    lambda a, b, c, p: numeric(min if p else max)(numeric(min if p else max)(a, b), c),
)
row("FSEL UFSEL f = [-|]f f p", lambda a, b, p: a if p else b)
UNORDERED = lambda a, b: a != a or b != b  # noqa: E731
OF_FLOATS = {
    "NUM": lambda a, b: not UNORDERED(a, b), "NAN": UNORDERED, "T": lambda a, b: True,
    **{name: lambda a, b, f=test: not UNORDERED(a, b) and f(a, b) for name, test in TESTS.items()},
    **{f"{name}U": lambda a, b, f=test: UNORDERED(a, b) or f(a, b) for name, test in TESTS.items()},
}  # fmt: skip
for name, way in product(OF_FLOATS, COMBINE):
    names = f"FSETP.{name}.{way} UFSETP.{name}.{way}"
    row(f"{names} P P = f [-|]f p", compared(OF_FLOATS[name], way))
    row(f"DSETP.{name}.{way} P P = D [-|]D p", compared(OF_FLOATS[name], way))


def hard_to_divide(a: int, b: int) -> bool:
    above, below = a >> 23 & 255, b >> 23 & 255
    return below == 0 or below >= 253 or above == 255 or above < 24 or abs(above - below) > 125


row("FCHK P = u u", hard_to_divide)
TRANSCENDENTAL: dict[str, Callable[[Any], Any]] = {
    "RCP": lambda a: 1 / a, "RSQ": lambda a: 1 / np.sqrt(a), "SQRT": np.sqrt, "EX2": np.exp2, "LG2": np.log2,
    "SIN": lambda a: np.sin(2 * np.pi * a), "COS": lambda a: np.cos(2 * np.pi * a), "TANH": np.tanh,
}  # fmt: skip
for name, of_one in TRANSCENDENTAL.items():
    row(f"MUFU.{name} f = [-|]f", ieee(of_one), rough=True)


def upper_word(name: str) -> Callable[[int], int]:
    def run(a: int) -> int:
        double = ieee(TRANSCENDENTAL[name])(value(np.array([0, a]), "D"))
        return int(np.float64(double).view(np.uint64)) >> 32

    return run


row("MUFU.RCP64H u = u", upper_word("RCP"))
row("MUFU.RSQ64H u = u", upper_word("RSQ"))
for kind, of_kind in (("U32", "u"), ("S32", "i"), ("U64", "U"), ("S64", "I")):
    row(f"I2F.{kind} UI2F.{kind} f = {of_kind}", np.float32)
    row(f"I2F.F64.{kind} UI2F.F64.{kind} D = {of_kind}", float)
row("I2F I2FP.F32.S32 UI2FP.F32.S32 f = [-]i", np.float32)
row("I2F.U8 f = u.B1", lambda a: a >> 8 & 255)
row("I2F.S16 f = u.H1", lambda a: signed(a >> 16, 16))
for mode, whole in {"": np.rint, ".TRUNC": np.trunc, ".FLOOR": np.floor, ".CEIL": np.ceil}.items():
    for kind in ("S16", "U8", "S32", "U32", "S64", "U64"):
        bits, result = int(kind[1:]), "U" if kind.endswith("64") else "u"
        limits = (-(1 << bits - 1), (1 << bits - 1) - 1) if kind[0] == "S" else (0, (1 << bits) - 1)
        row(f"F2I.{kind}{mode} UF2I.{kind}{mode} {result} = f", to_integer(*limits, whole))
        row(f"F2I.{kind}.F64{mode} {result} = D", to_integer(*limits, whole))
    row(f"F2I{mode}.NTZ u = [-]f", to_integer(-(1 << 31), (1 << 31) - 1, whole))
    row(f"FRND{mode} f = f", ieee(whole))
    row(f"FRND.F64{mode} D = D", ieee(whole))
row("F2F.F64.F32 UF2F.F64.F32 D = [-|]f", lambda a: a)
row("F2F.F32.F64 UF2F.F32.F64 f = [-]D", lambda a: a)


# Pairs of halves: the low one by its number, both by words
def half_word(a: float) -> int:
    with np.errstate(over="ignore"):
        return int(np.float16(a).view(np.uint16))


def rounded_word(a: float) -> int:
    """A number of 16 bits with the exponent of a float32."""
    word = int(np.float32(nearest(a)).view(np.uint32))
    return word >> 16 if a != a else word + 0x7FFF + (word >> 16 & 1) >> 16


def longer(word: int) -> float:
    return float(np.uint32(low(word << 16)).view(np.float32))


def of_high(word: int) -> float:
    return float(np.uint16(low(word >> 16, 16)).view(np.float16))


# Two float32 of each operand, of which the lower result is looked at
PAIR, TURNED = "U.F32x2.HI_LO", "U.F32x2.LO_HI"


def real(word: int) -> float:
    return float(np.uint32(low(word)).view(np.float32))


row(f"FADD2 f = {PAIR} -{PAIR}", lambda a, b: real(a) - real(b))
row(f"FMUL2 f = {TURNED} u.F32", lambda a, b: real(a >> 32) * real(b))
row(f"FFMA2 f = {TURNED} {PAIR} {PAIR}", lambda a, b, c: real(a >> 32) * real(b) + real(c))
row("FADD2 U = 0.5 0.25", lambda: 0x3F4000003F400000)
for half, as_word in (("F16", half_word), ("BF16", lambda a: rounded_word(float(np.float32(a))))):
    for kind, of_kind in (("U32", "u"), ("S32", "i")):
        row(f"I2F.{half}.{kind} UI2F.{half}.{kind} I2FP.{half}.{kind} u = {of_kind}", as_word)
row("HFMA2.MMA HFMA2 u = -RZ RZ 0.771484375 0.21533203125", lambda: 0x3A2C32E4)
row("HFMA2.MMA HFMA2 h = [-]h h [|]h", fused)
row("HFMA2.RELU h = h h h", lambda a, b, c: max(fused(a, b, c), 0.0) if fused(a, b, c) > 0 else 0.0)
row("HMUL2 h = [-|]h [-]h", ieee(lambda a, b: a * b))
row("HADD2 h = h [-]h", ieee(lambda a, b: a + b))
row("HADD2.SAT h = h h", lambda a, b: min(a + b, 1.0) if a + b > 0 else 0.0)
row("HADD2.F32 f = -RZ u.H0_H0", lambda a: of_high(a << 16))
row("HADD2.F32 f = u.H1_H1 RZ", of_high)
row("HMNMX2 h = [-|]h h p", lambda a, b, p: numeric(min if p else max)(a, b))
row(
    "VHMNMX h = h h h p",
    lambda a, b, c, p: numeric(min if p else max)(numeric(min if p else max)(a, b), c),
)
row(
    "F2FP.PACK_AB F2FP.F16.F32.PACK_AB UF2FP.PACK_AB u = [-]f f",
    lambda a, b: half_word(a) << 16 | half_word(b),
)
row("F2FP.BF16.F32.PACK_AB u = f f", lambda a, b: rounded_word(a) << 16 | rounded_word(b))


def of_halves(name: str, way: str, *numbers: Callable[[int], float]) -> Callable[..., bool]:
    """A test of what `numbers` read from words."""
    return lambda a, b, p: COMBINE[way](OF_FLOATS[name](numbers[0](a), numbers[1](b)), p)


for name, way in product(OF_FLOATS, COMBINE):
    if name != "T":
        row(f"HSETP2.{name}.{way} P PT = h [-|]h p", of_halves(name, way, float, float))
        operands = "= u.H0_H0 u.H1_H1 p"
        row(f"HSETP2.{name}.{way} PT P {operands}", of_halves(name, way, lambda a: of_high(a << 16), of_high))
        text = f"HSETP2.BF16_V2.{name}.{way} P PT {operands}"
        row(text, of_halves(name, way, longer, lambda b: longer(b >> 16)))


# Lanes of a warp together: lists of 32, after whether each takes part
def ballot(active: list[bool], p: list[bool]) -> int:
    return sum(1 << lane for lane in range(32) if active[lane] and p[lane])


def voted(name: str, with_mask: bool = True) -> Callable[..., Any]:
    def run(active: list[bool], p: list[bool]) -> list[Any]:
        mask, everyone = ballot(active, p), ballot(active, active)
        holds = {"ANY": mask != 0, "ALL": mask == everyone, "EQ": mask in (0, everyone)}
        return [(mask, holds[name]) if with_mask else holds[name]] * 32

    return run


for name in ("ANY", "ALL", "EQ"):
    row(f"VOTE.{name} VOTEU.{name} u P = [!]p", voted(name), across=True)
    row(f"VOTE.{name} P = p", voted(name, with_mask=False), across=True)
row("ELECT P u = PT", lambda active: [(n == active.index(True), active.index(True)) for n in range(32)], True)
row("R2UR u = u", lambda active, a: [a[active.index(True)]] * 32, across=True)
row(
    "R2UR P u = u",
    lambda active, a: [(mine != a[active.index(True)], a[active.index(True)]) for mine in a],
    across=True,
)


def shuffled(mode: str) -> Callable[..., Any]:
    def run(active: list[bool], a: list[int], by: list[int], clamp: list[int]) -> list[Any]:
        answers = []
        for lane, (distance, limits) in enumerate(zip(by, clamp, strict=True)):
            segment, distance = limits >> 8 & 31, distance & 31
            lowest = lane & segment
            highest = lowest | (limits & 31 & ~segment)
            indexed = lowest | (distance & ~segment)
            source = {"UP": lane - distance, "DOWN": lane + distance, "BFLY": lane ^ distance, "IDX": indexed}
            inside = source[mode] >= highest if mode == "UP" else source[mode] <= highest
            answers.append((inside, a[source[mode] if inside else lane]))
        return answers

    return run


for mode in ("UP", "DOWN", "BFLY", "IDX"):
    row(f"SHFL.{mode} P u = u u u", shuffled(mode), across=True)


def alike(active: list[bool], a: list[int]) -> list[int]:
    return [ballot(active, [other == mine for other in a]) for mine in a]


def all_alike(active: list[bool], a: list[int]) -> list[Any]:
    everyone = ballot(active, active)
    return [(mask == everyone, mask if mask == everyone else 0) for mask in alike(active, a)]


for modifier, kind in (("", "u"), (".U64", "U")):
    row(f"MATCH.ANY{modifier} u = {kind}", alike, across=True)
    row(f"MATCH.ALL{modifier} P u = {kind}", all_alike, across=True)
REDUCE: dict[str, Callable[[list[int]], int]] = {
    "SUM": sum, "MIN": min, "MAX": max, "AND": lambda values: reduce(and_, values),
    "OR": lambda values: reduce(or_, values), "XOR": lambda values: reduce(xor, values),
}  # fmt: skip


def reduced(name: str) -> Callable[..., Any]:
    def run(active: list[bool], a: list[int]) -> list[int]:
        return [REDUCE[name]([mine for mine, takes_part in zip(a, active, strict=True) if takes_part])] * 32

    return run


for name in REDUCE:
    row(f"REDUX.{name} CREDUX.{name} u = u", reduced(name), across=True)
    row(f"REDUX.{name}.S32 CREDUX.{name}.S32 u = i", reduced(name), across=True)

# What asks and waits succeeds at once
row("SYNCS.PHASECHK.TRANS64.TRYWAIT P = [UR12+0x18000] u", lambda a: True)
row("UTCATOMSWS P u = u", lambda a: (True, 0))
row("USETMAXREG.TRY_ALLOC.CTAPOOL P = 0x100", lambda: True)

WORDS = {kind: words_of(kind, EDGES) for kind in "ufD"}
WORDS["h"] = words_of("h", [x for x in EDGES if not 2.0**16 < abs(x) < INF])
TRUTHS = np.random.default_rng(5).integers(0, 2, (64, 4)).astype(bool)
ACTIVE = np.random.default_rng(6).integers(0, 2, SHAPE).astype(bool)
CHANGE: dict[str, Callable[[Any], Any]] = {
    "-": lambda a: -a, "~": lambda a: ~a, "|": abs, "!": lambda a: not a, "-|": lambda a: -abs(a),
}  # fmt: skip


class Source(NamedTuple):
    """One way to write an operand: its text, and what is read of a register's number."""

    text: str
    kind: str
    read: Callable[[Any], Any]


def ways_of(statement: Statement) -> Iterator[list[Source]]:
    """All operands plain, and then each in every other way."""
    registers, predicates = iter(range(4)), iter(range(4))
    plain, others = [], []
    for source in statement.sources:
        match = SOURCE.fullmatch(source)
        if match is None:
            plain.append(Source(source, "", lambda a: a))
            others.append([])
            continue
        signs, sign, kind, part = match.groups(default="")
        name = f"P{next(predicates)}" if kind == "p" else f"R{2 * next(registers)}"
        plain.append(Source(f"{sign}{name}{part}", kind, lambda a: a))
        changes = [*signs, "-|"] if {*signs} >= {*"-|"} else [*signs]
        texts = {change: f"{change[:-1]}|{name}|" if "|" in change else change + name for change in changes}
        ways = [Source(texts[change], kind, CHANGE[change]) for change in changes]
        if name == "R2" and not sign and not part and not statement.across:  # or no register at all
            number = 3.5 if kind in FLOATS else int(LITERAL, 0)
            numbers = (
                ["3.5, 3.5" if kind == "h" else "3.5"]
                if kind in FLOATS
                else [LITERAL, CONSTANT]
                if kind in "ui"
                else [LITERAL]
            )
            ways += [Source(text, kind, lambda a, n=number: n) for text in numbers]
        others.append(ways)
    yield plain
    for place, ways in enumerate(others):
        for way in ways:
            yield [*plain[:place], way, *plain[place + 1 :]]


def bound(name: str, results: list[str], sources: list[str]) -> tuple[Bound, list[Any]]:
    """What an instruction does, and registers with the numbers that it reads in place."""
    predicates = iter(("P4", "P5"))
    names = {"PT": "PT", "RZ": "RZ"}
    targets = [next(predicates) if result == "P" else names.get(result, "R20") for result in results]
    text = f"{name} {', '.join([*([] if name in ('R2P', 'UR2UP') else targets), *sources])}"
    code = f"\t.target sm_80\n\t.section .text.toy,\n  /*0000*/ {text} ;\n  /*0010*/ EXIT ;"
    slots: dict[tuple[str, Any], int] = {}
    r: list[Any] = [np.zeros((1, 1), np.uint32)] * SLOTS
    r[P : PT + 1] = [np.zeros((1, 1), bool)] * 7 + [np.ones((1, 1), bool)]

    def slot_of(kind: str, key: Any) -> int:
        if (kind, key) not in slots:
            slots[kind, key] = len(r)
            bits, words = key if kind == "number" else (int(LITERAL, 0), 1)
            r.extend(np.full((1, 1), bits >> 32 * word & 0xFFFFFFFF, np.uint32) for word in range(words))
        return slots[kind, key]

    return bind(program(parse(code, "toy.sass")[0]).steps[0], slot_of), r


def numbers_of(sources: list[Source], words: np.ndarray, lanes: Iterable[int]) -> dict[int, list[Any]]:
    """What each of these threads reads: Python's numbers."""
    numbers = {}
    for lane in lanes:
        registers, predicates, read = iter(range(0, 8, 2)), iter(range(4)), []
        for source in sources:
            if source.kind == "p":
                read.append(source.read(bool(TRUTHS[lane, next(predicates)])))
            elif source.kind:
                number = source.read(value(words[lane, next(registers) :], source.kind))
                bits, negative = BITS.get(source.kind), source.kind in SIGNED
                read.append(field(number, 0, bits, negative) if bits else number)
        numbers[lane] = read
    return numbers


@pytest.mark.parametrize("letter", sorted({text[0] for text in STATED}))
def test_equals_plain_python(letter: str):
    for text in STATED:
        if text.startswith(letter):
            expect_plain_python(text)


def expect_plain_python(text: str) -> None:
    name, statement = text.split()[0], STATED[text]
    for way, sources in enumerate(ways_of(statement)):
        words = WORDS[next((source.kind for source in sources if source.kind in FLOATS), "u")]
        (evaluate, writes, _), r = bound(name, statement.results, [source.text for source in sources])
        r[:8], r[P : P + 4] = list(words.T.reshape(8, *SHAPE)), list(TRUTHS.T.reshape(4, *SHAPE))
        mask = ACTIVE if statement.across else np.ones(SHAPE, bool)
        with np.errstate(all="ignore"):
            computed = [np.broadcast_to(item, SHAPE).ravel() for item in evaluate(r, Lanes(mask, SHAPE))]
        actual = dict(zip(writes, computed, strict=True))
        # Python takes most of the time: plain operands in all threads, each other way in some.
        lanes = range(64) if statement.across or not way else range(way % 5, 64, 5)
        numbers = numbers_of(sources, words, lanes)
        if statement.across:
            read = list(numbers.values())
            warps = [[list(item) for item in zip(*read[at : at + 32], strict=True)] for at in (0, 32)]
            pairs = zip(ACTIVE.tolist(), warps, strict=True)
            answered = [answer for active, lists in pairs for answer in statement.function(active, *lists)]
            answers = dict(zip(lanes, answered, strict=True))
        else:
            answers = {lane: statement.function(*read) for lane, read in numbers.items()}
        results = [result for result in statement.results if result not in ("PT", "RZ")]
        for lane in (lane for lane in lanes if mask.flat[lane]):
            what = (text, [source.text for source in sources], lane, numbers[lane])
            predicate = 4 + (UP if name == "UR2UP" else P)
            answer = answers[lane] if isinstance(answers[lane], tuple) else (answers[lane],)
            for kind, wanted in zip(results, answer, strict=True):
                if kind == "P":
                    assert actual[predicate][lane] == bool(wanted), what
                    predicate += 1
                else:
                    pair = np.array([actual[20][lane], actual[21 if kind in "UD" else 20][lane]])
                    assert_result(value(pair, kind), wanted, kind, statement.rough, what)


def test_every_row_is_stated():
    names = [f"{text.split()[0]}{carry}" for text in STATED for carry in ("", ".CO")]
    stated = {opcode(name) for name in names}
    assert {name for name, row in OPCODES.items() if row.function and row not in stated} == set()
