"""Floating point, as far as divisions and conversions in addresses need it."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dse.source.machine.thread_set import Lanes
from dse.source.nvidia.execute.semantics.binding import (
    F32,
    F64,
    HIGH,
    I32,
    I64,
    U32,
    U64,
    Binder,
    Evaluate,
    Reader,
    Registers,
    Unsupported,
    Values,
    flushed,
    halves,
    rule,
)
from dse.source.nvidia.execute.semantics.compare import COMPARE, combined
from dse.source.nvidia.sass.operands import RZ
from dse.source.nvidia.sass.program import Step


def _rounded(exact: np.ndarray, step: Step) -> np.ndarray:
    """The bits of a float32, rounded the way that the instruction says."""
    value = exact.astype(F32)
    if step.has("RP", "CEIL"):
        value = np.where(value < exact, np.nextafter(value, F32(np.inf)), value)
    elif step.has("RM", "FLOOR"):
        value = np.where(value > exact, np.nextafter(value, F32(-np.inf)), value)
    elif step.has("RZ", "TRUNC"):
        value = np.where(np.abs(value) > np.abs(exact), np.nextafter(value, F32(0)), value)
    if step.has("SAT"):
        value = np.where(value > 0, np.minimum(value, F32(1)), F32(0))
    if step.has("FTZ"):
        value = flushed(value)
    return value.astype(F32).view(U32)


@rule
def float_sum(binder: Binder) -> Evaluate:
    """FADD, rounded once."""
    left, right, step = binder.real(0), binder.real(1), binder.step
    return lambda r, lanes: (_rounded(left(r).astype(F64) + right(r), step),)


@rule
def float_product(binder: Binder) -> Evaluate:
    """FMUL, rounded once."""
    left, right, step = binder.real(0), binder.real(1), binder.step
    return lambda r, lanes: (_rounded(left(r).astype(F64) * right(r), step),)


@rule
def float_multiply_add(binder: Binder) -> Evaluate:
    """The product of two float32 is exact in float64; the sum is rounded there before it is again."""
    left, right, plus, step = binder.real(0), binder.real(1), binder.real(2), binder.step
    return lambda r, lanes: (_rounded(left(r).astype(F64) * right(r) + plus(r), step),)


@rule
def float_minimum(binder: Binder) -> Evaluate:
    """FMNMX: the smaller of two where the predicate holds, else the larger."""
    left, right, smaller = binder.real(0), binder.real(1), binder.truth(0)

    def evaluate(r: Registers, lanes: Lanes) -> Values:
        a, c = left(r), right(r)
        return (np.where(smaller(r), np.fmin(a, c), np.fmax(a, c)).view(U32),)

    return evaluate


def _float_test(name: str, left: Reader, right: Reader) -> Reader:
    """LT, LTU (or not comparable), NUM (both are numbers), NAN, F, T."""
    if name in ("F", "T"):
        constant = np.full((1, 1), name == "T")
        return lambda r: constant
    if name in ("NUM", "NAN"):
        number = name == "NUM"
        return lambda r: (np.isnan(left(r)) | np.isnan(right(r))) != number
    compare, unordered = COMPARE[name[:2]], name.endswith("U")

    def test(r: Registers) -> np.ndarray:
        a, c = left(r), right(r)
        either = np.isnan(a) | np.isnan(c)
        return compare(a, c) | either if unordered else compare(a, c) & ~either

    return test


@rule
def compare_floats(binder: Binder) -> Evaluate:
    """FSETP: a test of two float32, combined with a predicate."""
    test = _float_test(binder.step.modifiers[0], binder.real(0), binder.real(1))
    return combined(binder, test, binder.truth(0))


@rule
def compare_doubles(binder: Binder) -> Evaluate:
    """DSETP: the same of two float64."""
    test = _float_test(binder.step.modifiers[0], binder.double(0), binder.double(1))
    return combined(binder, test, binder.truth(0))


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


@rule
def transcendental(binder: Binder) -> Evaluate:
    """Rounded correctly; hardware is off by up to an ulp or two, which divisions make up for."""
    name, step = binder.step.modifiers[0], binder.step
    if name in ("RCP64H", "RSQ64H"):
        function, high = _MUFU[name[:3]], binder.word(0)

        def upper(r: Registers, lanes: Lanes) -> Values:
            value = (high(r).astype(U64) << HIGH).view(F64)
            return ((function(value).view(U64) >> HIGH).astype(U32),)

        return upper
    function, source = _MUFU[name], binder.real(0)
    return lambda r, lanes: (_rounded(function(source(r).astype(F64)), step),)


@rule
def check_division(binder: Binder) -> Evaluate:
    """FCHK: whether a / b needs more than Newton's steps, by the exponents of both and of the quotient."""
    left, right = binder.real(0), binder.real(1)

    def evaluate(r: Registers, lanes: Lanes) -> Values:
        above, below = ((value(r).view(I32) >> 23) & 255 for value in (left, right))
        far = np.abs(above - below) > 125
        return ((below == 0) | (below >= 253) | (above == 255) | (above < 24) | far,)

    return evaluate


_INTEGERS = {
    "S8": np.int8,
    "U8": np.uint8,
    "S16": np.int16,
    "U16": np.uint16,
    "S32": I32,
    "U32": U32,
    "S64": I64,
    "U64": U64,
}


@rule
def integer_to_float(binder: Binder) -> Evaluate:
    """I2F: of 8 to 64 bits, to float32 or float64."""
    step = binder.step
    name = next((name for name in step.modifiers if name in _INTEGERS), "S32")
    kind = _INTEGERS[name]
    source = binder.wide(0) if name in ("S64", "U64") else binder.word(0)
    exact = np.longdouble if name in ("S64", "U64") else F64  # 64 and 53 bits of mantissa
    to_double = step.modifiers[:1] == ("F64",)
    if step.has("F16"):
        raise Unsupported("half precision")

    def evaluate(r: Registers, lanes: Lanes) -> Values:
        value = source(r).astype(kind).astype(exact)
        return halves(value.astype(F64)) if to_double else (_rounded(value, step),)

    return evaluate


@rule
def float_to_integer(binder: Binder) -> Evaluate:
    """F2I: to 32 or 64 bits; what does not fit becomes the nearest that does, NaN becomes zero."""
    step = binder.step
    name = next((name for name in step.modifiers if name in _INTEGERS), "S32")
    limits = np.iinfo(_INTEGERS[name])
    source = binder.double(0) if step.has("F64") else binder.real(0)
    whole = _to_whole(step)
    long = name in ("S64", "U64")
    low, above = F64(limits.min), F64(limits.max + 1)  # both exact, and so is every step below

    def evaluate(r: Registers, lanes: Lanes) -> Values:
        value = whole(source(r)).astype(F64)
        value = np.where(np.isnan(value), F64(0), np.maximum(value, low))
        if not long:
            return (np.minimum(value, above - 1).astype(I64).astype(U32),)
        fits = value < above
        integer = np.where(fits, value, F64(0)).astype(U64 if name == "U64" else I64).view(U64)
        return halves(np.where(fits, integer, U64(limits.max)))

    return evaluate


@rule
def float_to_float(binder: Binder) -> Evaluate:
    """F2F: between float32 and float64; the type that it makes is named first."""
    step, types = binder.step, _float_types(binder.step)
    to_double = types[:1] == ["F64"]
    source = binder.double(0) if "F64" in types[1:] else binder.real(0)

    def evaluate(r: Registers, lanes: Lanes) -> Values:
        value = source(r).astype(F64)
        return halves(value) if to_double else (_rounded(value, step),)

    return evaluate


@rule
def round_float(binder: Binder) -> Evaluate:
    """FRND: to the nearest whole number, or the next one in a direction."""
    step, whole = binder.step, _to_whole(binder.step)
    if "F64" in _float_types(step):
        double = binder.double(0)
        return lambda r, lanes: halves(whole(double(r)))
    source = binder.real(0)
    return lambda r, lanes: (_rounded(whole(source(r).astype(F64)), step),)


def _float_types(step: Step) -> list[str]:
    """The types that a conversion names, F32 and F64."""
    types = [name for name in step.modifiers if name[:1] == "F" and name[1:].isdigit()]
    if "F16" in types or "BF16" in step.modifiers:
        raise Unsupported("half precision")
    return types


_WHOLE = {"TRUNC": np.trunc, "FLOOR": np.floor, "CEIL": np.ceil}


def _to_whole(step: Step) -> Callable[[np.ndarray], np.ndarray]:
    """Rounding of a float to a whole number: by a modifier, else to the nearest."""
    return next((function for name, function in _WHOLE.items() if step.has(name)), np.rint)


@rule
def double_sum(binder: Binder) -> Evaluate:
    """DADD."""
    left, right, step = _long_double(binder, 0), _long_double(binder, 1), binder.step
    return lambda r, lanes: _rounded_double(left(r) + right(r), step)


@rule
def double_product(binder: Binder) -> Evaluate:
    """DMUL."""
    left, right, step = _long_double(binder, 0), _long_double(binder, 1), binder.step
    return lambda r, lanes: _rounded_double(left(r) * right(r), step)


@rule
def double_multiply_add(binder: Binder) -> Evaluate:
    """DFMA: the product is rounded to the bits of a long double before the sum is."""
    left, right, plus = (_long_double(binder, index) for index in range(3))
    step = binder.step
    return lambda r, lanes: _rounded_double(left(r) * right(r) + plus(r), step)


def _long_double(binder: Binder, index: int) -> Reader:
    """A 64-bit float source, with more bits behind it."""
    source = binder.double(index)
    return lambda r: source(r).astype(np.longdouble)


def _rounded_double(exact: np.ndarray, step: Step) -> Values:
    """The two registers of a float64, rounded the way that the instruction says.

    Towards zero is taken for downwards.
    """
    value = exact.astype(F64)
    if step.has("RP"):
        value = np.where(value < exact, np.nextafter(value, np.inf), value)
    if step.has("RM", "RZ"):
        value = np.where(value > exact, np.nextafter(value, -np.inf), value)
    return halves(value)


@rule
def half_multiply_add(binder: Binder) -> Evaluate:
    """HFMA2 with a factor of zero: how the compiler writes a constant, its high half first."""
    zero = [value.slot == RZ for value in binder.values[:2]]
    if not any(zero) or [value.kind for value in binder.values[2:]] != ["number", "number"]:
        raise Unsupported("arithmetic in half precision")
    high, low = (int(np.array(float(value.text), np.float16).view(np.uint16)) for value in binder.values[2:])
    constant = np.full((1, 1), high << 16 | low, U32)
    return lambda r, lanes: (constant,)


@rule
def half_to_float(binder: Binder) -> Evaluate:
    """HADD2.F32 R0, -RZ, R1.H0_H0: how the compiler widens a half."""
    if not binder.step.has("F32") or binder.values[0].slot != RZ or binder.values[1].part[:1] != "H":
        raise Unsupported("arithmetic in half precision")
    half = binder.word(1)
    return lambda r, lanes: (half(r).astype(np.uint16).view(np.float16).astype(F32).view(U32),)
