"""Floating point, as far as divisions and conversions in addresses need it."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dse.cuda.execute.semantics.binding import (
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
    table_of,
)
from dse.cuda.execute.semantics.compare import COMPARE, combined
from dse.cuda.machine.thread_set import Lanes
from dse.cuda.sass.operands import RZ
from dse.cuda.sass.program import Step


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


def float_sum(b: Binder) -> Evaluate:
    left, right, step = b.real(0), b.real(1), b.step
    return lambda r, lanes: (_rounded(left(r).astype(F64) + right(r), step),)


def float_product(b: Binder) -> Evaluate:
    left, right, step = b.real(0), b.real(1), b.step
    return lambda r, lanes: (_rounded(left(r).astype(F64) * right(r), step),)


def float_multiply_add(b: Binder) -> Evaluate:
    """The product of two float32 is exact in float64; the sum is rounded there before it is again."""
    left, right, plus, step = b.real(0), b.real(1), b.real(2), b.step
    return lambda r, lanes: (_rounded(left(r).astype(F64) * right(r) + plus(r), step),)


def float_minimum(b: Binder) -> Evaluate:
    left, right, smaller = b.real(0), b.real(1), b.truth(0)

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


def compare_floats(b: Binder) -> Evaluate:
    read = b.double if b.step.opcode == "DSETP" else b.real
    return combined(b, _float_test(b.step.modifiers[0], read(0), read(1)), b.truth(0))


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


def transcendental(b: Binder) -> Evaluate:
    """Rounded correctly; hardware is off by up to an ulp or two, which divisions make up for."""
    name, step = b.step.modifiers[0], b.step
    if name in ("RCP64H", "RSQ64H"):
        function, high = _MUFU[name[:3]], b.word(0)

        def upper(r: Registers, lanes: Lanes) -> Values:
            value = (high(r).astype(U64) << HIGH).view(F64)
            return ((function(value).view(U64) >> HIGH).astype(U32),)

        return upper
    function, source = _MUFU[name], b.real(0)
    return lambda r, lanes: (_rounded(function(source(r).astype(F64)), step),)


def check_division(b: Binder) -> Evaluate:
    """FCHK: whether a / b needs more than Newton's steps, by the exponents of both and of the quotient."""
    left, right = b.real(0), b.real(1)

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


def integer_to_float(b: Binder) -> Evaluate:
    step = b.step
    name = next((name for name in step.modifiers if name in _INTEGERS), "S32")
    kind = _INTEGERS[name]
    source = b.wide(0) if name in ("S64", "U64") else b.word(0)
    exact = np.longdouble if name in ("S64", "U64") else F64  # 64 and 53 bits of mantissa
    to_double = step.modifiers[:1] == ("F64",)
    if step.has("F16"):
        raise Unsupported("half precision")

    def evaluate(r: Registers, lanes: Lanes) -> Values:
        value = source(r).astype(kind).astype(exact)
        return halves(value.astype(F64)) if to_double else (_rounded(value, step),)

    return evaluate


def float_to_integer(b: Binder) -> Evaluate:
    step = b.step
    name = next((name for name in step.modifiers if name in _INTEGERS), "S32")
    limits = np.iinfo(_INTEGERS[name])
    source = b.double(0) if step.has("F64") else b.real(0)
    whole = (
        np.trunc
        if step.has("TRUNC")
        else np.floor
        if step.has("FLOOR")
        else np.ceil
        if step.has("CEIL")
        else np.rint
    )
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


def float_to_float(b: Binder) -> Evaluate:
    step = b.step
    types = [name for name in step.modifiers if name[:1] == "F" and name[1:].isdigit()]
    if "F16" in types or "BF16" in step.modifiers:
        raise Unsupported("half precision")
    to_double = types[:1] == ["F64"]
    source = b.double(0) if "F64" in types[1:] or (step.opcode == "FRND" and to_double) else b.real(0)
    whole = None
    if step.opcode == "FRND":
        whole = (
            np.trunc
            if step.has("TRUNC")
            else np.floor
            if step.has("FLOOR")
            else np.ceil
            if step.has("CEIL")
            else np.rint
        )

    def evaluate(r: Registers, lanes: Lanes) -> Values:
        value = source(r).astype(F64)
        value = whole(value) if whole else value
        return halves(value) if to_double else (_rounded(value, step),)

    return evaluate


def double(b: Binder) -> Evaluate:
    terms = [b.double(index) for index in range(len(b.values))]
    name = b.step.opcode
    up, down = b.step.has("RP"), b.step.has("RM", "RZ")

    def evaluate(r: Registers, lanes: Lanes) -> Values:
        first, second, *third = (term(r).astype(np.longdouble) for term in terms)
        exact = (
            first + second
            if name == "DADD"
            else first * second
            if name == "DMUL"
            else first * second + third[0]
        )
        value = exact.astype(F64)
        if up:
            value = np.where(value < exact, np.nextafter(value, np.inf), value)
        if down:
            value = np.where(value > exact, np.nextafter(value, -np.inf), value)
        return halves(value)

    return evaluate


def half_multiply_add(b: Binder) -> Evaluate:
    """HFMA2 with a factor of zero: how the compiler writes a constant, its high half first."""
    zero = [value.slot == RZ for value in b.values[:2]]
    if not any(zero) or [value.kind for value in b.values[2:]] != ["number", "number"]:
        raise Unsupported("arithmetic in half precision")
    high, low = (int(np.array(float(value.text), np.float16).view(np.uint16)) for value in b.values[2:])
    constant = np.full((1, 1), high << 16 | low, U32)
    return lambda r, lanes: (constant,)


def half_to_float(b: Binder) -> Evaluate:
    """HADD2.F32 R0, -RZ, R1.H0_H0: how the compiler widens a half."""
    if not b.step.has("F32") or b.values[0].slot != RZ or b.values[1].part[:1] != "H":
        raise Unsupported("arithmetic in half precision")
    half = b.word(1)
    return lambda r, lanes: (half(r).astype(np.uint16).view(np.float16).astype(F32).view(U32),)


RULES = table_of(
    {
        float_sum: "FADD UFADD FADD32I",
        float_product: "FMUL UFMUL FMUL32I",
        float_multiply_add: "FFMA UFFMA FFMA32I",
        float_minimum: "FMNMX UFMNMX",
        compare_floats: "FSETP UFSETP DSETP",
        transcendental: "MUFU",
        check_division: "FCHK",
        integer_to_float: "I2F I2FP UI2F UI2FP",
        float_to_integer: "F2I UF2I",
        float_to_float: "F2F FRND UF2F",
        double: "DADD DMUL DFMA",
        half_multiply_add: "HFMA2",
        half_to_float: "HADD2",
    }
)
