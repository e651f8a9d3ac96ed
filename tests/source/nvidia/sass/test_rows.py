"""Every row of the table of opcodes that computes, against what it does in plain Python.

A statement is an instruction whose operands are kinds: `IMAD.WIDE U = i i U` writes a pair. What is in brackets
may stand before an operand: `[-~]u` is also read negated and inverted. `p` is a predicate.
"""

import math
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
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
from dse.source.nvidia.execute.semantics import bind
from dse.source.nvidia.sass.listing import parse
from dse.source.nvidia.sass.opcodes import OPCODES
from dse.source.nvidia.sass.operands import PT, SLOTS, P
from dse.source.nvidia.sass.program import Step, program

EDGES = [*NUMBERS, 1e-40, 2.0**31, -(2.0**31), 2.0**32, 2.0**63, -(2.0**63), 2.0**64, math.inf, -math.inf, math.nan]
LITERAL, CONSTANT = "0x3a", "c[0x0][0x168]"  # that stand in place of a register
SHAPE = (2, 32)  # blocks, threads


class Statement(NamedTuple):
    results: list[str]
    sources: list[str]
    function: Callable[..., Any]
    across: bool  # of all lanes of a warp together
    rough: bool


RESULTS = ("u", "U", "f", "D", "P", "PT", "RZ")
STATED: dict[str, Statement] = {}  # by instruction


def row(text: str, function: Callable[..., Any], across: bool = False, rough: bool = False) -> None:
    """Expect this of all instructions that are named before the operands."""
    targets, sources = (side.split() for side in text.split("="))
    names = [word for word in targets if word not in RESULTS]
    results = targets[len(names) :]
    for name in names:
        STATED[text.replace(" ".join(names), name)] = Statement(results, sources, function, across, rough)


# Integers
row("MOV UMOV MOV32I RPCMOV.32 u = [-~]u", lambda a: a)
row("MOV.64 UMOV.64 U = U", lambda a: a)
row("SEL USEL u = [-]u [-]u p", lambda a, b, p: a if p else b)
row("SEL.64 U = U U p", lambda a, b, p: a if p else b)
row("IADD3 UIADD3 u = [-~]u [-~]u [-]u", lambda a, b, c: a + b + c)
row("IADD IADD32I VIADD UVIADD u = [-]u [-]u", lambda a, b: a + b)
row("IADD.64 IADD3.64 U = [-~]U U", lambda a, b: a + b)
row("IADD3.64 U PT PT = U U RZ", lambda a, b: a + b)
row("IADD3 u P P = u u u", lambda a, b, c: (a + b + c, a + b + c >> 32, a + b + c >> 33))
row("IADD3 u P PT = u -u RZ", lambda a, b: (a - b, a >= b))
row("IADD3.X u = u u u p !PT", lambda a, b, c, p: a + b + c + p)
row("IADD3.X u P = u ~u RZ p !PT", lambda a, b, p: (a + low(~b) + p, a + low(~b) + p >> 32))
row("IADD3.X u P = u -u RZ p !PT", lambda a, b, p: (a + low(~b) + p, a + low(~b) + p >> 32))
row("IABS UIABS u = i", abs)
row("IMAD UIMAD u = [-]u u [-]u", lambda a, b, c: a * b + c)
row("IMAD.MOV.U32 u = RZ RZ [-]u", lambda c: c)
row("IMAD.X u = u u u p", lambda a, b, c, p: a * b + c + p)
for sign, kind in (("", "i"), (".U32", "u")):
    wide = f"{kind} {kind} [-]U"
    row(f"IMAD.WIDE{sign} UIMAD.WIDE{sign} U = {wide}", lambda a, b, c: a * b + c)
    row(f"IMAD.HI{sign} UIMAD.HI{sign} u = {wide}", lambda a, b, c: a * b + c >> 32)
row("IMAD.WIDE.U32 U P = u u U", lambda a, b, c: (a * b + c, a * b + c >> 64))
row("IMAD.WIDE.U32.X U P = u u U p", lambda a, b, c, p: (a * b + c + p, a * b + c + p >> 64))
row("IMAD.HI.U32.X u P = u u U p", lambda a, b, c, p: (a * b + c + p >> 32, a * b + c + p >> 64))
row("LEA ULEA u = u [-]u 0x3", lambda a, b: (a << 3) + b)
row("LEA u P = u u 0x1f", lambda a, b: (low(a << 31) + b, low(a << 31) + b >> 32))
row("LEA.X u = u u 0x2 p", lambda a, b, p: (a << 2) + b + p)
row("LEA.HI u = u u u 0x5", lambda a, b, c: ((a | c << 32) << 5 >> 32) + b)
row("LEA.HI ULEA.HI u P = u u u 0x5", lambda a, b, c: [low((a | c << 32) << 5 >> 32) + b, low((a | c << 32) << 5 >> 32) + b >> 32])
row("LEA.HI.X u = u u u 0x5 p", lambda a, b, c, p: ((a | c << 32) << 5 >> 32) + b + p)
row("LEA.HI.SX32 u = i u 0x5", lambda a, b: (a << 5 >> 32) + b)
row("LEA.HI.X.SX32 u = i u 0x5 p", lambda a, b, p: (a << 5 >> 32) + b + p)


def shifted(left: bool, sign: bool, wraps: bool, limit: int, by_bits: int, high: bool) -> Callable[..., int]:
    def run(a: int, by: int, c: int) -> int:
        by = by % by_bits if wraps else min(by, limit)
        pair = a | c << 32
        pair = low(pair << by, 64) if left else (signed(pair, 64) if sign else pair) >> by
        return low(pair, 64) >> 32 if high else pair

    return run


for way, kind, wraps, high in product("LR", ("U32", "S32", "U64", "S64"), ("", ".W"), ("", ".HI")):
    bits = 64 if kind[1:] == "64" else 32
    limits = 63 if bits == 64 else 32
    of_pair = shifted(way == "L", kind[0] == "S", bool(wraps), limits, bits, bool(high))
    row(f"SHF.{way}{wraps}.{kind}{high} USHF.{way}{wraps}.{kind}{high} u = u u u", of_pair)
names = "IMNMX{0} UIMNMX{0} VIMNMX{0} UVIMNMX{0}"
for suffix, kind in (("", "i"), (".U32", "u")):
    row(f"{names.format(suffix)} u = {kind} {kind} p", lambda a, b, p: min(a, b) if p else max(a, b))
    row(f"VIMNMX{suffix} u P = {kind} {kind} p", lambda a, b, p: (min(a, b) if p else max(a, b), a < b))
    text = f"VIADDMNMX{suffix} UVIADDMNMX{suffix} u = {kind} {kind} {kind} p"
    row(text, lambda a, b, c, p, s=kind == "i": (min if p else max)(field(a + b, 0, 32, s), c))
names = [*(name.upper() for name in ORDER), "NE"]
COMBINE = {"AND": lambda a, b: a and b, "OR": lambda a, b: a or b, "XOR": lambda a, b: a != b}


def compared(order: Callable[[Any, Any], bool], combine: Callable[..., bool]) -> Callable[..., Any]:
    return lambda a, b, p: (combine(order(a, b), p), combine(not order(a, b), p))


for name, (way, combine) in product(names, COMBINE.items()):
    order = ORDER.get(name.lower(), lambda a, b: a != b)
    for suffix, kind in (("", "i"), (".U32", "u"), (".U64", "U"), (".S64", "I")):
        row(f"ISETP.{name}{suffix}.{way} UISETP.{name}{suffix}.{way} P P = {kind} [-]{kind} p", compared(order, combine))
        if kind in "iu":
            text = f"ISETP.{name}{suffix}.{way}.EX UISETP.{name}{suffix}.{way}.EX P P = {kind} {kind} p p"

            def extended(a: int, b: int, p: bool, below: bool, n: str = name, f: Any = order, c: Any = combine) -> Any:
                holds = f(a, b) or below if n == "NE" else (a == b and below) or (n != "EQ" and a != b and f(a, b))
                return c(holds, p), c(not holds, p)

            row(text, extended)
row("ISETP.T.AND P P = i i p", lambda a, b, p: (p, False))
row("ISETP.F.AND P PT = i i p", lambda a, b, p: False)


# Logic and bits
def table(lut: int, *values: Any) -> Any:
    cases = zip(*(f"{a:032b}" for a in values), strict=True)
    return int("".join(str(lut >> int("".join(case), 2) & 1) for case in cases), 2)


for lut in (0xC0, 0xFC, 0x3C, 0x33, 0x0F, 0x30, 0x0C, 0x80, 0xFE, 0x96, 0xF8, 0xEA, 0x78, 0, 0xFF, 0x1B, 0xD8):
    of_words = lambda a, b, c, n=lut: table(n, low(a), low(b), low(c))  # noqa: E731
    row(f"LOP3.LUT ULOP3.LUT u = u [~]u u {lut:#x} !PT", of_words)
    row(f"LOP3.LUT P u = u u u {lut:#x} !PT", lambda a, b, c, f=of_words: (f(a, b, c) != 0, f(a, b, c)))
    row(f"LOP3.LUT P RZ = u u u {lut:#x} p", lambda a, b, c, p, f=of_words: f(a, b, c) != 0 or p)
    of_truths = lambda a, b, c, n=lut: n >> (a << 2 | b << 1 | c) & 1  # noqa: E731
    row(f"PLOP3.LUT UPLOP3.LUT P P = p [!]p p {lut:#x} 0x1b", lambda a, b, c, f=of_truths: (f(a, b, c), f(a, b, c, 0x1B)))
    row(f"PLOP3.LUT P PT = p p p {lut:#x} 0x8", of_truths)
row("LOP3.LUT.PAND P u = u u u 0xc0 p", lambda a, b, c, p: (bool(a & b) and p, a & b))


def permuted(a: int, selector: int, c: int) -> int:
    octets = (a | c << 32).to_bytes(8, "little")
    picked = [selector >> 4 * place & 15 for place in range(4)]
    return int.from_bytes([octets[n & 7] >> 7 and 255 if n > 7 else octets[n & 7] for n in picked], "little")


row("PRMT UPRMT u = u u u", permuted)
row("PRMT u = u 0x7a10 u", lambda a, c: permuted(a, 0x7A10, c))
row("POPC UPOPC u = [~]u", lambda a: low(a).bit_count())
row("FLO.U32 UFLO.U32 u = u", lambda a: a.bit_length() - 1)
row("FLO.U32.SH u = u", lambda a: 32 - a.bit_length() if a else -1)
row("FLO u = i", lambda a: (~a if a < 0 else a).bit_length() - 1)
row("FLO.U32 u P = u", lambda a: (a.bit_length() - 1, a != 0))
row("BREV UBREV u = u", reversed_bits)
row("BMSK UBMSK u = u u", lambda a, b: (1 << min(b, 32)) - 1 << min(a, 32))
row("BMSK.W u = u u", lambda a, b: (1 << b % 32) - 1 << a % 32)
row("SGXT USGXT u = u u", lambda a, b: field(a, 0, min(b, 32), True))
row("SGXT.U32 u = u u", lambda a, b: low(a, min(b, 32)))
row("SGXT.W u = u u", lambda a, b: field(a, 0, b % 32, True))
row("P2R u = PR u 0x0", lambda a: a)
row("R2P P P = PR u 0x30", lambda a: (a >> 4 & 1, a >> 5 & 1))
row("CS2R U = SRZ", lambda: 0)
row("CS2R.32 S2R S2UR u = SRZ", lambda: 0)
row(f"LDC LDCU ULDC u = {CONSTANT}", lambda: int(LITERAL, 0))


# Floating point; arithmetic of float32 is rounded from exact or double results
def flush(a: float) -> float:
    return math.copysign(0.0, a) if abs(a) < 2.0**-126 else a


def nearest(a: float) -> float:
    with np.errstate(all="ignore"):
        return float(np.float32(a))


def fused(*values: float) -> float:
    """Multiply and add, rounded once."""
    if not all(map(math.isfinite, values)):
        return ieee(lambda a, b, c: a * b + c)(*values)
    a, b, c = map(Fraction, values)
    return float(a * b + c)


def saturated(a: float) -> float:
    return min(a, 1.0) if a > 0 else 0.0


def directed(function: Callable[..., float], up: bool | None) -> Callable[..., Any]:
    """Rounded up, down, or towards zero if `up` is None."""

    def run(*values: Any) -> float:
        exact = ieee(function)(*values)
        with np.errstate(all="ignore"):
            near = float(np.float32(exact))
            beyond = abs(near) > abs(exact) if up is None else near < exact if up else near > exact
            towards = 0.0 if up is None else math.inf if up else -math.inf
            return float(np.nextafter(np.float32(near), np.float32(towards))) if beyond else near

    return run


ARITHMETIC: dict[str, tuple[str, Callable[..., float]]] = {
    "ADD": ("[-|]{0} [-]{0}", lambda a, b: a + b),
    "MUL": ("[-]{0} [|]{0}", lambda a, b: a * b),
    "FMA": ("{0} [-]{0} [-]{0}", lambda a, b, c: a * b + c),
}
for name, (operands, function) in ARITHMETIC.items():
    of_float, exact = operands.format("f"), ieee(function)
    row(f"F{name} F{name}32I UF{name} f = {of_float}", exact)
    row(f"F{name}.FTZ f = {of_float}", lambda *values, f=exact: flush(nearest(f(*map(flush, values)))))
    row(f"F{name}.SAT f = {of_float}", lambda *values, f=exact: saturated(f(*values)))
    row(f"D{name} D = {operands.format('D')}", fused if name == "FMA" else exact, rough=name == "FMA")
for mode, up in ((".RP", True), (".RM", False), (".RZ", None)):
    row(f"FMUL{mode} f = f f", directed(lambda a, b: a * b, up))
    row(f"I2F.U32{mode} f = u", directed(lambda a: a, up))
row("FMNMX UFMNMX f = [-|]f f p", lambda a, b, p: numeric(min if p else max)(a, b))
row("FSEL UFSEL f = [-|]f f p", lambda a, b, p: a if p else b)
for kind, opcodes in (("f", "FSETP UFSETP"), ("D", "DSETP")):
    for name, (way, combine) in product(names, COMBINE.items()):
        order = ORDER.get(name.lower(), lambda a, b: a != b)
        comparable = lambda a, b, f=order: a == a and b == b and f(a, b)  # noqa: E731
        lacking = lambda a, b, f=order: a != a or b != b or f(a, b)  # noqa: E731
        for suffix, compare in (("", comparable), ("U", lacking)):
            text = " ".join(f"{opcode}.{name}{suffix}.{way}" for opcode in opcodes.split())
            row(f"{text} P P = {kind} [-|]{kind} p", compared(compare, combine))
    for name, compare in (("NUM", lambda a, b: a == a and b == b), ("NAN", lambda a, b: a != a or b != b), ("T", lambda a, b: True)):
        row(" ".join(f"{opcode}.{name}.AND" for opcode in opcodes.split()) + f" P P = {kind} {kind} p", compared(compare, COMBINE["AND"]))


def hard_to_divide(a: int, b: int) -> bool:
    above, below = a >> 23 & 255, b >> 23 & 255
    return below == 0 or below >= 253 or above == 255 or above < 24 or abs(above - below) > 125


row("FCHK P = u u", hard_to_divide)
TRANSCENDENTAL: dict[str, Callable[[Any], Any]] = {
    "RCP": lambda a: 1 / a, "RSQ": lambda a: 1 / np.sqrt(a), "SQRT": np.sqrt, "EX2": np.exp2, "LG2": np.log2,
    "SIN": lambda a: np.sin(2 * np.pi * a), "COS": lambda a: np.cos(2 * np.pi * a), "TANH": np.tanh,
}  # fmt: skip
for name, function in TRANSCENDENTAL.items():
    row(f"MUFU.{name} f = [-|]f", ieee(function), rough=True)
for name in ("RCP", "RSQ"):

    def upper(a: int, function: Any = ieee(TRANSCENDENTAL[name])) -> int:
        bits = np.array(function(np.array(a << 32, np.uint64).view(float)))
        return int(bits.view(np.uint64)) >> 32

    row(f"MUFU.{name}64H u = u", upper)
for kind, of_kind in (("U32", "u"), ("S32", "i"), ("U64", "U"), ("S64", "I")):
    for opcode in ("I2F", "UI2F"):
        row(f"{opcode}.{kind} f = {of_kind}", np.float32)
        row(f"{opcode}.F64.{kind} D = {of_kind}", float)
row("I2F I2FP.F32.S32 UI2FP.F32.S32 f = i", np.float32)
row("I2F.U8 f = u.B1", lambda a: a >> 8 & 255)
row("I2F.S16 f = u.H1", lambda a: signed(a >> 16, 16))
WHOLE = {"": np.rint, ".TRUNC": np.trunc, ".FLOOR": np.floor, ".CEIL": np.ceil}
for mode, function in WHOLE.items():
    for kind in ("S16", "U8", "S32", "U32", "S64", "U64"):
        bits = int(kind[1:])
        limits = (-(1 << bits - 1), (1 << bits - 1) - 1) if kind[0] == "S" else (0, (1 << bits) - 1)
        for source, of_source in (("", "f"), (".F64", "D")):
            whole = to_integer(*limits, lambda a, f=function: int(f(a)))
            row(f"F2I.{kind}{source}{mode} UF2I.{kind}{source}{mode} {'U' if bits == 64 else 'u'} = {of_source}", whole)
    row(f"F2I{mode}.NTZ u = [-]f", to_integer(-(1 << 31), (1 << 31) - 1, lambda a, f=function: int(f(a))))
    row(f"FRND{mode} f = f", ieee(function))
    row(f"FRND.F64{mode} D = D", ieee(function))
row("F2F.F64.F32 UF2F.F64.F32 D = [-|]f", lambda a: a)
row("F2F.F32.F64 UF2F.F32.F64 f = [-]D", lambda a: a)
row("HFMA2.MMA HFMA2 u = -RZ RZ 0.771484375 0.21533203125", lambda: 0x3A2C32E4)
row("HADD2.F32 f = -RZ u.H0_H0", lambda a: np.uint16(low(a, 16)).view(np.float16))


# Lanes of a warp together: lists of 32, after whether each takes part
def ballot(active: list[bool], p: list[bool]) -> int:
    return sum(1 << lane for lane in range(32) if active[lane] and p[lane])


ALL_ANY = {"ANY": lambda mask, everyone: mask != 0, "ALL": lambda mask, everyone: mask == everyone, "EQ": lambda mask, everyone: mask in (0, everyone)}
for name, agreed in ALL_ANY.items():

    def votes(active: list[bool], p: list[bool], agreed: Any = agreed) -> list[Any]:
        mask = ballot(active, p)
        return [(mask, agreed(mask, ballot(active, active)))] * 32

    row(f"VOTE.{name} VOTEU.{name} u P = [!]p", votes, across=True)
    row(f"VOTE.{name} P = p", lambda active, p, f=votes: [answer[1] for answer in f(active, p)], across=True)
row("ELECT P u = PT", lambda active: [(lane == active.index(True), active.index(True)) for lane in range(32)], across=True)
row("R2UR u = u", lambda active, a: [a[active.index(True)]] * 32, across=True)


def shuffled(mode: str) -> Callable[..., Any]:
    def run(active: list[bool], a: list[int], by: list[int], clamp: list[int]) -> list[Any]:
        answers = []
        for lane, (distance, limits) in enumerate(zip(by, clamp, strict=True)):
            segment, distance = limits >> 8 & 31, distance & 31
            lowest = lane & segment
            highest = lowest | (limits & 31 & ~segment)
            source = {"UP": lane - distance, "DOWN": lane + distance, "BFLY": lane ^ distance}.get(mode, lowest | (distance & ~segment))
            inside = source >= highest if mode == "UP" else source <= highest
            answers.append((inside, a[source if inside else lane]))
        return answers

    return run


for mode in ("UP", "DOWN", "BFLY", "IDX"):
    row(f"SHFL.{mode} P u = u u u", shuffled(mode), across=True)
    row(f"SHFL.{mode} PT u = u 0x3 {'0x0' if mode == 'UP' else '0x1c1f'}", lambda active, a, m=mode: [pair[1] for pair in shuffled(m)(active, a, [3] * 32, [0 if m == "UP" else 0x1C1F] * 32)], across=True)


def alike(active: list[bool], a: list[int]) -> list[int]:
    return [sum(1 << lane for lane in range(32) if active[lane] and a[lane] == mine) for mine in a]


row("MATCH.ANY u = u", alike, across=True)
row("MATCH.ALL P u = u", lambda active, a: [(mask == ballot(active, active), mask if mask == ballot(active, active) else 0) for mask in alike(active, a)], across=True)
REDUCE = {"AND": lambda a, b: a & b, "OR": lambda a, b: a | b, "XOR": lambda a, b: a ^ b, "SUM": lambda a, b: a + b, "MIN": min, "MAX": max}
for name, of_two in REDUCE.items():
    for suffix, kind in (("", "u"), (".S32", "i")):

        def reduced(active: list[bool], a: list[int], f: Any = of_two) -> list[int]:
            total: int | None = None
            for taking, mine in zip(active, a, strict=True):
                if taking:
                    total = mine if total is None else f(total, mine)
            return [total or 0] * 32

        row(f"REDUX.{name}{suffix} CREDUX.{name}{suffix} u = {kind}", reduced, across=True)


# What asks and waits succeeds at once
row("SYNCS.PHASECHK.TRANS64.TRYWAIT P = [UR12+0x18000] u", lambda a: True)
row("UTCATOMSWS P u = u", lambda a: (True, 0))
row("USETMAXREG.TRY_ALLOC.CTAPOOL P = 0x100", lambda: True)

SOURCE = re.compile(r"(?:\[([-~|!]+)\])?([-~!]?)([uiUIfDp])(\.\w+)?")
SIGNS: dict[str, Callable[[Any], Any]] = {"-": lambda a: -a, "~": lambda a: ~a, "|": abs, "!": lambda a: not a, "-|": lambda a: -abs(a), "": lambda a: a}
WORDS = {kind: words_of(kind, EDGES) for kind in "ufD"}
TRUTHS = np.random.default_rng(5).integers(0, 2, (64, 4)).astype(bool)
ACTIVE = np.random.default_rng(6).integers(0, 2, SHAPE).astype(bool)


def cut(number: Any, kind: str) -> Any:
    """What an operand of a kind holds: integers wrap."""
    return field(number, 0, BITS[kind], kind in SIGNED) if kind in BITS else number


def forms(statement: Statement) -> Iterator[tuple[list[str], list[str]]]:
    """Operands as text, and how each source's number is changed: all signs, and numbers in place of registers."""
    ways, places = [], iter(range(4))
    truths = iter(range(4))
    for source in statement.sources:
        if not (match := SOURCE.fullmatch(source)):
            ways.append([(source, None)])
            continue
        signs, sign, kind, part = match.groups()
        name = f"P{next(truths)}" if kind == "p" else f"R{2 * next(places)}"
        extra = [*(signs or ""), *(["-|"] if signs and {*"-|"} <= {*signs} else [])]
        texts = [(f"{sign}{name}{part or ''}", "")]
        for one in extra:
            texts.append((f"{'-' if '-' in one else ''}|{name}|" if "|" in one else one + name, one))
        ways.append(texts)
        # a number or a constant in place of the second source
        if name == "R2" and not sign and not part and not statement.across:
            texts += [("3.5" if kind in "fD" else LITERAL, LITERAL), *([(CONSTANT, CONSTANT)] if kind in "ui" else [])]
    for way in product(*ways):
        yield [text for text, _ in way], [change for _, change in way if change is not None]


def bound(name: str, results: list[str], sources: list[str]) -> tuple[Step, Any, list[Any]]:
    """An instruction, its function, and registers with the numbers that it reads in place."""
    targets, wanted = [], iter(("P4", "P5"))
    for result in results:
        targets.append(next(wanted) if result == "P" else result if result in ("PT", "RZ") else "R20")
    text = f"{name} {', '.join([*([] if name.startswith('R2P') else targets), *sources])}"
    code = f"\t.target sm_80\n\t.section .text.toy,\n  /*0000*/ {text} ;\n  /*0010*/ EXIT ;"
    step = program(parse(code, "toy.sass")[0]).steps[0]
    slots: dict[tuple[str, Any], int] = {}
    r: list[Any] = [np.zeros((1, 1), np.uint32)] * SLOTS
    r[P : PT + 1] = [np.zeros((1, 1), bool)] * 7 + [np.ones((1, 1), bool)]

    def slot_of(kind: str, key: Any) -> int:
        if (kind, key) not in slots:
            slots[kind, key] = len(r)
            bits, words = key if kind == "number" else (int(LITERAL, 0), 1)
            r.extend(np.full((1, 1), bits >> 32 * word & 0xFFFFFFFF, np.uint32) for word in range(words))
        return slots[kind, key]

    return step, bind(step, slot_of)[0], r


@pytest.mark.parametrize("text", STATED)
def test_equals_plain_python(text: str):
    name, statement = text.split()[0], STATED[text]
    kinds = [match[3] for source in statement.sources if (match := SOURCE.fullmatch(source))]
    words = WORDS[next((kind for kind in kinds if kind in FLOATS), "u")]
    for sources, changes in forms(statement):
        step, evaluate, r = bound(name, statement.results, sources)
        r[:8] = list(words.T.reshape(8, *SHAPE))
        r[P : P + 4] = list(TRUTHS.T.reshape(4, *SHAPE))
        mask = ACTIVE if statement.across else np.ones(SHAPE, bool)
        with np.errstate(all="ignore"):
            found = [np.broadcast_to(result, SHAPE).ravel() for result in evaluate(r, Lanes(mask, SHAPE))]
        values: list[list[Any]] = []
        for lane in range(64):
            places, truths = iter(range(0, 8, 2)), iter(range(4))
            read = [
                bool(TRUTHS[lane, next(truths)]) if kind == "p" else value(words[lane, next(places) :], kind)
                for kind in kinds
            ]
            given = [
                {LITERAL: 3.5 if kind in "fD" else int(LITERAL, 0), CONSTANT: int(LITERAL, 0)}[change]
                if change in (LITERAL, CONSTANT) else cut(SIGNS[change](number), kind)
                for kind, change, number in zip(kinds, changes, read, strict=True)
            ]
            values.append(given)
        if statement.across:
            answers = []
            for warp in range(2):
                lanes = slice(32 * warp, 32 * warp + 32)
                answers += statement.function(ACTIVE[warp].tolist(), *map(list, zip(*values[lanes], strict=True)))
        else:
            answers = [statement.function(*given) for given in values]
        for lane, answer in enumerate(answers):
            if statement.across and not ACTIVE.ravel()[lane]:
                continue
            left, at = list(answer) if isinstance(answer, tuple | list) else [answer], 0
            for result in statement.results:
                what = (step.text, lane, values[lane])
                if result in ("PT", "RZ"):
                    at += 1
                elif result == "P":
                    assert found[at][lane] == bool(left.pop(0)), what
                    at += 1
                else:
                    size = 2 if result in "UID" else 1
                    pair = [int(found[at][lane]), int(found[at + size - 1][lane])]
                    assert_result(value(pair, result), left.pop(0), result, statement.rough, what)
                    at += size


def test_every_row_is_stated():
    stated = {text.split()[0].split(".")[0] for text in STATED}
    assert {name for name, row in OPCODES.items() if row.rule} - stated == set()
