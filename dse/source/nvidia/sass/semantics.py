"""Functions of the table of opcodes, over arrays of lanes; those with the argument `modifiers` return one.

Float32 is computed in float64, in which products are exact and sums are rounded twice; float64 with a longer
mantissa. Only divisions and conversions in addresses need floats.
"""

import re
from collections.abc import Callable
from functools import reduce
from operator import attrgetter
from typing import Any

import ml_dtypes
import numpy as np

U32, I32, U64, I64 = np.uint32, np.int32, np.uint64, np.int64
F32, F64 = np.float32, np.float64
HIGH, ONE = U64(32), U64(1)
ZERO, TRUE = np.zeros((1, 1), U32), np.ones((1, 1), bool)
Array = Any
_size = attrgetter("size")
Test = Callable[[], Array]  # computed on demand
Modifiers = tuple[str, ...]
OTHER_PERMUTATIONS = ("F4E", "B4E", "RC8", "ECL", "ECR", "RC16")  # modes not covered by `permute`


def wide(a: Array) -> Array:
    """Convert words to 64 bits, unsigned."""
    return a.astype(U64)


def joined(low: Array, high: Array) -> Array:
    """Return the 64-bit value of two registers."""
    return low.astype(U64) | (high.astype(U64) << HIGH)


def halves(value: Array) -> tuple[Array, Array]:
    """Split a 64-bit value into two registers."""
    value = value.view(U64)
    return value.astype(U32), (value >> HIGH).astype(U32)


# Integers


def total(*terms: Array) -> Array:
    """The sum in the terms' own type, small arrays first: fewer passes over large ones."""
    return reduce(np.add, sorted(terms, key=_size))


def carried_total(*terms: Array) -> tuple[Array, Callable[[int], Array]]:
    """(the sum of words, 33-bit complements and predicates; whether it has at least so many carries)."""
    terms = tuple(sorted(terms, key=_size))  # small arrays first: fewer passes over large ones
    word = reduce(np.add, (term.astype(U32) if term.dtype == U64 else term for term in terms), U32(0))

    def carries(least: int) -> Array:
        words = [term for term in terms if term.size > 1 or term.any()]
        if least == 1 and 1 <= len(words) <= 2 and all(term.dtype != U64 for term in words):
            return word < words[-1]
        return reduce(np.add, terms, U64(0)) >= U64(least << 32)

    return word, carries


def multiply_add(a: Array, b: Array, c: Array) -> Array:
    """Return a * b + c."""
    return a * b + c


def wide_product(a: Array, b: Array, c: Array, carry: Array = None) -> tuple[Array, Test]:
    """Return (64 bits of a * b + c, whether they overflow)."""
    kind = I64 if a.dtype == I32 else U64
    result = (a.astype(kind) * b.astype(kind)).view(U64) + c
    if carry is None:
        return result, lambda: result < c
    added = result + carry
    return added, lambda: (result < c) | (carry & (added == 0))


def high_product(*factors: Array) -> tuple[Array, Test]:
    """Return the high word of `wide_product`, and its overflow."""
    result, over = wide_product(*factors)
    return result >> HIGH, over


def scaled_add(a: Array, b: Array, shift: int, carry: Array = None) -> Array:
    """LEA: (a << shift) + b, with a carry above its 32 bits."""
    result = (wide(a) << U64(shift & 63) & U64(0xFFFFFFFF)) + b
    return result if carry is None else result + carry


def scaled_add_high(a: Array, b: Array, c: Array, shift: int, carry: Array = None) -> Array:
    """LEA.HI: b plus the high word of the shifted pair of a and c."""
    result = (joined(a, c) << U64(shift & 63) >> HIGH) + b
    return result if carry is None else result + carry


def scaled_add_signed(a: Array, b: Array, shift: int, carry: Array = None) -> Array:
    """LEA.HI.SX32: `scaled_add_high` of a signed word."""
    result = (a.astype(I64).view(U64) << U64(shift & 63) >> HIGH) + b
    return result if carry is None else result + carry


def minimum(a: Array, b: Array, smaller: Array) -> tuple[Array, Test]:
    """(the smaller of two where the predicate holds, else the larger; whether the first is smaller)."""
    return np.where(smaller, np.minimum(a, b), np.maximum(a, b)), lambda: a < b


def not_negative(function: Callable[..., tuple[Array, Test]]) -> Callable[..., tuple[Array, Test]]:
    """Return a function of integers with 0 in place of negative results (.RELU)."""

    def positive(*sources: Array) -> tuple[Array, Test]:
        value, test = function(*sources)
        return np.maximum(value, 0), test

    return positive


def select(a: Array, b: Array, condition: Array) -> Array:
    """The first where the predicate holds, else the second."""
    return np.where(condition, a, b)


COMPARE: dict[str, Any] = {
    "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal, "EQ": np.equal, "NE":
    np.not_equal,
}  # fmt: skip

COMBINE = {"AND": np.logical_and, "OR": np.logical_or, "XOR": np.logical_xor}


def integer_test(modifiers: Modifiers) -> Callable[..., Array]:
    """ISETP: a test of two integers; T and F are tests too."""
    name = next((name for name in modifiers if name in COMPARE), "")
    return COMPARE[name] if name else lambda a, b: np.full((1, 1), "T" in modifiers)


def extended_test(modifiers: Modifiers) -> Callable[..., Array]:
    """ISETP.EX: a test of the high words of two pairs, given the same test of the low words."""
    name = next(name for name in modifiers if name in COMPARE)
    if name == "NE":
        return lambda a, b, low: (a != b) | low
    if name == "EQ":
        return lambda a, b, low: (a == b) & low
    strict = np.less if name[0] == "L" else np.greater
    return lambda a, b, low: strict(a, b) | (a == b) & low


def shift(modifiers: Modifiers) -> Callable[..., Array]:
    """SHF: the low or high word of the pair (third, first source), shifted by the second."""
    long, signed = "U64" in modifiers or "S64" in modifiers, "S32" in modifiers or "S64" in modifiers
    left, take_high, count = "L" in modifiers, "HI" in modifiers, limited(modifiers, 63 if long else 32)

    def shifted(low: Array, by: Array, high: Array) -> Array:
        pair, by = joined(low, high), count(by)
        if left:
            pair = pair << by
        elif signed:
            pair = (pair.view(I64) >> by.view(I64)).view(U64)
        else:
            pair = pair >> by
        return pair >> HIGH if take_high else pair

    return shifted


def limited(modifiers: Modifiers, most: int = 32) -> Callable[[Array], Array]:
    """Return shift counts as 64 bits: with .W modulo `most`, else at most that."""
    if "W" in modifiers:
        return lambda count: wide(count) & U64(63 if most == 63 else 31)
    return lambda count: np.minimum(wide(count), U64(most))


# Bits


_TABLES: dict[int, Callable[[Any, Any, Any], Any]] = {
    0xC0: lambda a, b, c: a & b,
    0xFC: lambda a, b, c: a | b,
    0x3C: lambda a, b, c: a ^ b,
    0x33: lambda a, b, c: ~b,
    0x0F: lambda a, b, c: ~a,
    0x30: lambda a, b, c: a & ~b,
    0x0C: lambda a, b, c: ~a & b,
    0x80: lambda a, b, c: a & b & c,
    0xFE: lambda a, b, c: a | b | c,
    0x96: lambda a, b, c: a ^ b ^ c,
    0xF8: lambda a, b, c: a | (b & c),
    0xEA: lambda a, b, c: (a & b) | c,
    0x78: lambda a, b, c: a ^ (b & c),
}


def logic(a: Array, b: Array, c: Array, table: int) -> Array:
    """Apply a truth table to the bits of three words or predicates."""
    if table in _TABLES:
        return _TABLES[table](a, b, c)
    cases = [case for case in range(8) if table >> case & 1]
    parts = [(a if n & 4 else ~a) & (b if n & 2 else ~b) & (c if n & 1 else ~c) for n in cases]
    return reduce(np.bitwise_or, parts, a & ~a)


def logic_and_test(modifiers: Modifiers) -> Callable[..., Any]:
    """LOP3: a truth table, and whether a bit is set, combined with a predicate."""
    combine = np.logical_and if "PAND" in modifiers else np.logical_or

    def both(a: Array, b: Array, c: Array, table: int, other: Array) -> tuple[Array, Test]:
        value = logic(a, b, c, table)
        return value, lambda: combine(value != 0, other)

    return both


def predicate_logic(a: Array, b: Array, c: Array, first: int, second: int) -> tuple[Test, Test]:
    """PLOP3: two truth tables of three predicates."""
    return lambda: logic(a, b, c, first), lambda: logic(a, b, c, second)


def permute(low: Array, selector: Array, high: Array) -> Array:
    """PRMT: each nibble of the selector selects a byte of the pair; its top bit replicates the sign."""
    pair, selected = joined(low, high), wide(selector)
    value = U64(0)
    for position in range(4):
        nibble = (selected >> U64(4 * position)) & U64(15)
        byte = (pair >> ((nibble & U64(7)) << U64(3))) & U64(255)
        sign = np.where(byte > U64(127), U64(255), U64(0))
        value = value | (np.where(nibble > U64(7), sign, byte) << U64(8 * position))
    return value


def highest_bit(modifiers: Modifiers) -> Callable[[Array], tuple[Array, Test]]:
    """FLO: position of the highest 1 (of negative numbers: 0); .SH: the shift that makes it the top bit."""

    def found(value: Array) -> tuple[Array, Test]:
        value = np.where(value < 0, ~value, value)
        position = np.frexp(value.astype(F64))[1] - 1
        position = 31 - position if "SH" in modifiers else position
        return np.where(value == 0, -1, position), lambda: value != 0

    return found


def reverse_bits(value: Array) -> Array:
    """BREV: the highest bit becomes the lowest."""
    for shift, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF), (16, 0xFFFF)):
        value = ((value >> U32(shift)) & U32(mask)) | ((value & U32(mask)) << U32(shift))
    return value


def bit_mask(modifiers: Modifiers) -> Callable[..., Array]:
    """BMSK: a run of ones, from its first bit and length."""
    count = limited(modifiers)
    return lambda start, length: ((ONE << count(length)) - ONE) << count(start)


def extend_sign(modifiers: Modifiers) -> Callable[..., Array]:
    """SGXT: the lowest n bits, sign extended."""
    count, kind = limited(modifiers), U32 if "U32" in modifiers else I32

    def extended(value: Array, bits: Array) -> Array:
        up = 32 - count(bits).view(I64)
        top = (wide(value) << up.view(U64)).astype(U32).view(kind).astype(I64)
        return top >> up

    return extended


def picked_bits(value: Array, mask: int) -> tuple[Array, ...]:
    """R2P: the bits of a register that a mask selects."""
    return tuple((value & U32(1 << bit)) != 0 for bit in range(7) if mask >> bit & 1)


# Floating point


def longer(a: Array) -> Array:
    """Return a float64 with a longer mantissa."""
    return a.astype(np.longdouble)


def flushed(value: Array) -> Array:
    """Flush subnormal floats to zeros of the same sign."""
    return np.where(np.abs(value) < np.finfo(F32).tiny, np.copysign(F32(0), value), value)


def float_bits(modifiers: Modifiers) -> Callable[[Array], Array]:
    """The bits of a float32, rounded as the modifiers say."""
    names = set(modifiers)
    up, down, inwards = names & {"RP", "CEIL"}, names & {"RM", "FLOOR"}, names & {"RZ", "TRUNC"}
    if not (up or down or inwards or names & {"SAT", "FTZ"}):
        return lambda exact: exact.astype(F32).view(U32)

    def rounded(exact: Array) -> Array:
        value = exact.astype(F32)
        if up:
            value = np.where(value < exact, np.nextafter(value, F32(np.inf)), value)
        elif down:
            value = np.where(value > exact, np.nextafter(value, F32(-np.inf)), value)
        elif inwards:
            value = np.where(np.abs(value) > np.abs(exact), np.nextafter(value, F32(0)), value)
        if "SAT" in names:
            value = np.where(value > 0, np.minimum(value, F32(1)), F32(0))
        if "FTZ" in names:
            value = flushed(value)
        return value.astype(F32).view(U32)

    return rounded


def double_words(modifiers: Modifiers) -> Callable[[Array], tuple[Array, Array]]:
    """The registers of a float64, rounded as the modifiers say; towards zero counts as downwards."""
    up, down = "RP" in modifiers, "RM" in modifiers or "RZ" in modifiers

    def rounded(exact: Array) -> tuple[Array, Array]:
        value = exact.astype(F64)
        if up:
            value = np.where(value < exact, np.nextafter(value, np.inf), value)
        if down:
            value = np.where(value > exact, np.nextafter(value, -np.inf), value)
        return halves(value)

    return rounded


def float_minimum(a: Array, b: Array, smaller: Array) -> Array:
    """FMNMX: the smaller of two where the predicate holds, else the larger."""
    return np.where(smaller, np.fmin(a, b), np.fmax(a, b))


def float_test(modifiers: Modifiers) -> Callable[..., Array]:
    """FSETP: LT, LTU (or unordered), NUM (both are numbers), NAN, F, T."""
    name = modifiers[0]
    if name in ("F", "T"):
        return lambda a, b: np.full((1, 1), name == "T")
    if name in ("NUM", "NAN"):
        return lambda a, b: (np.isnan(a) | np.isnan(b)) != (name == "NUM")
    compare = COMPARE[name[:2]]
    if name.endswith("U"):
        return lambda a, b: compare(a, b) | np.isnan(a) | np.isnan(b)
    return lambda a, b: compare(a, b) & ~(np.isnan(a) | np.isnan(b))


def half_tests(modifiers: Modifiers) -> Callable[..., tuple[Array, Array]]:
    """HSETP2: a test of each half, combined with a predicate."""
    combine = next(COMBINE[name] for name in modifiers if name in COMBINE)
    test = float_test(tuple(name for name in modifiers if not name.startswith("BF16")))
    return lambda a, b, other: tuple(combine(test(a, b), other))


def half_type(modifiers: Modifiers) -> Any:
    """Return the type of halves. **Raises:** ValueError if the modifiers name a smaller one."""
    if any(re.fullmatch(r"E\dM\d", name) for name in modifiers):
        raise ValueError("8-bit floats")
    return ml_dtypes.bfloat16 if any(name.startswith("BF16") for name in modifiers) else np.float16


def pair_bits(modifiers: Modifiers) -> Callable[[Array], Array]:
    """The words of pairs of halves, [2, ...]: the low ones first."""
    kind = half_type(modifiers)

    def packed(exact: Array) -> Array:
        if "RELU" in modifiers or "SAT" in modifiers:
            exact = np.where(exact > 0, exact, 0.0)  # NaN becomes 0, too
        exact = np.minimum(exact, 1.0) if "SAT" in modifiers else exact
        low, high = exact.astype(kind).view(np.uint16).astype(U32)
        return low | high << U32(16)

    return packed


def hard_to_divide(a: Array, b: Array) -> Array:
    """FCHK: whether a / b needs more than Newton steps, by the exponents of both and of the quotient."""
    above, below = ((value.view(I32) >> 23) & 255 for value in (a, b))
    return (below == 0) | (below >= 253) | (above == 255) | (above < 24) | (np.abs(above - below) > 125)


_MUFU: dict[str, Callable[[Any], Any]] = {
    "RCP": lambda x: 1.0 / x,
    "RSQ": lambda x: 1.0 / np.sqrt(x),
    "SQRT": np.sqrt,
    "EX2": np.exp2,
    "LG2": np.log2,
    "SIN": lambda x: np.sin(2 * np.pi * x),
    "COS": lambda x: np.cos(2 * np.pi * x),
    "TANH": np.tanh,
}


def transcendental(modifiers: Modifiers) -> Callable[[Array], Array]:
    """MUFU: correctly rounded; the hardware's error of an ulp or two is corrected in divisions."""
    return _MUFU[modifiers[0]]


def upper_transcendental(modifiers: Modifiers) -> Callable[[Array], Array]:
    """MUFU of the upper word of a float64."""
    function = _MUFU[modifiers[0][:3]]
    return lambda high: function((wide(high) << HIGH).view(F64)).view(U64) >> HIGH


_INTEGERS: dict[str, Any] = {
    "S8": np.int8, "U8": np.uint8, "S16": np.int16, "U16": np.uint16, "S32": I32, "U32": U32, "S64": I64,
    "U64": U64,
}  # fmt: skip


def _integer(modifiers: Modifiers) -> Any:
    """Return the integer type of a conversion."""
    return next((_INTEGERS[name] for name in modifiers if name in _INTEGERS), I32)


def extended(word: Array, modifiers: Modifiers) -> Array:
    """Return the part of a loaded word that its type names, extended by its sign if it has one."""
    for name in ("S8", "S16", "U8", "U16"):
        if name in modifiers:
            return word.astype(_INTEGERS[name]).astype(I32).view(U32)
    return word


def to_float(modifiers: Modifiers) -> Callable[[Array], Array]:
    """I2F: from 8 to 64 bits; to a mantissa of 53 bits, or of 64."""
    kind = _integer(modifiers)
    exact = np.longdouble if kind in (I64, U64) else F64
    return lambda value: value.astype(kind).astype(exact)


def to_half(modifiers: Modifiers) -> Callable[[Array], Array]:
    """I2F to the low one of two halves."""
    converted = to_float(modifiers)
    return lambda value: np.stack([converted(value), np.zeros(value.shape)])


def to_integer(modifiers: Modifiers) -> Callable[[Array], Array]:
    """F2I: to 32 or 64 bits; values out of range saturate, NaN becomes zero."""
    kind, whole = _integer(modifiers), to_whole(modifiers)
    limits = np.iinfo(kind)
    low, above = F64(limits.min), F64(limits.max + 1)  # both exact, and so is every step below

    def converted(value: Array) -> Array:
        value = whole(value)
        value = np.where(np.isnan(value), F64(0), np.maximum(value, low))
        if kind not in (I64, U64):
            return np.minimum(value, above - 1).astype(I64)
        fits = value < above
        integer = np.where(fits, value, F64(0)).astype(kind).view(U64)
        return np.where(fits, integer, U64(limits.max))

    return converted


def to_whole(modifiers: Modifiers) -> Callable[[Array], Array]:
    """Round to a whole number: as a modifier says, else to the nearest."""
    ways = {"TRUNC": np.trunc, "FLOOR": np.floor, "CEIL": np.ceil}
    return next((function for name, function in ways.items() if name in modifiers), np.rint)
