"""Adds, multiplies, shifts, minima and compares of integers."""

import numpy as np

from dse.cuda.execute.semantics.binding import (
    HIGH,
    I32,
    I64,
    ONE,
    U32,
    U64,
    Binder,
    Evaluate,
    Reader,
    Registers,
    Unsupported,
    Values,
    halves,
    joined,
    table_of,
)
from dse.cuda.execute.semantics.compare import COMPARE, combined
from dse.cuda.machine.thread_set import Lanes
from dse.cuda.sass.operands import PT, RZ, Operand

_STRICT = {"LT": np.less, "LE": np.less, "GT": np.greater, "GE": np.greater}


def _add_term(operand: Operand, read: Reader, extended: bool) -> Reader:
    """A term of a sum with carry, in 64 bits: a negated one is its complement, plus one in the low word."""
    if operand.negate and operand.slot != RZ:
        return lambda r: (~np.negative(read(r))).astype(U64) + (U64(0) if extended else ONE)
    return lambda r: read(r).astype(U64)


def add(b: Binder) -> Evaluate:
    step = b.step
    if step.has("64"):
        wide = [b.wide(index) for index in range(len(b.values))]
        if any(
            target.slot != PT
            for target in step.targets[1:]
            if target.kind == "predicate" and target.text[-1] != "T"
        ):
            raise Unsupported("a carry of 64 bits")
        tests = len(step.targets) - 1

        def add_wide(r: Registers, lanes: Lanes) -> Values:
            total = wide[0](r)
            for term in wide[1:]:
                total = total + term(r)
            return (*halves(total), *[np.zeros((1, 1), bool)] * tests)

        return add_wide
    terms = b.words(len(b.values))
    carries, extended = len(step.targets) - 1, step.has("X")
    if not extended and all(target.text[-1] == "T" for target in step.targets[1:]):
        false = np.zeros((1, 1), bool)

        def add(r: Registers, lanes: Lanes) -> Values:
            total = terms[0](r)
            for term in terms[1:]:
                total = total + term(r)
            return (total, *[false] * carries)

        return add
    long = [_add_term(operand, term, extended) for operand, term in zip(b.values, terms, strict=True)]
    carried = [b.truth(index) for index in range(len(b.conditions))] if extended else []

    def add_with_carry(r: Registers, lanes: Lanes) -> Values:
        total = long[0](r)
        for term in (*long[1:], *carried):
            total = total + term(r).astype(U64)
        over = total >> HIGH
        return (total.astype(U32), *(over > U64(index) for index in range(carries)))

    return add_with_carry


def multiply_add(b: Binder) -> Evaluate:
    step = b.step
    unsigned = step.has("U32")
    if step.has("MOV"):
        addend = b.word(2)
        return lambda r, lanes: (addend(r),)
    a, c = b.word(0), b.word(1)
    carries = len(step.targets) - 1
    carried = b.truth(0) if step.has("X") else None

    def product(r: Registers) -> np.ndarray:
        if unsigned:
            return a(r).astype(U64) * c(r).astype(U64)
        return (a(r).view(I32).astype(I64) * c(r).view(I32).astype(I64)).view(U64)

    if step.has("WIDE", "HI"):
        addend, high_only = b.wide(2), step.has("HI")

        def long(r: Registers, lanes: Lanes) -> Values:
            times, plus = product(r), addend(r)
            total = times + plus
            over = total < plus
            if carried is not None:
                total = total + carried(r).astype(U64)
                over = over | (carried(r) & (total == 0))
            low, high = halves(total)
            return (*((high,) if high_only else (low, high)), *(over,) * carries)

        return long
    addend = b.word(2)
    if carried is not None:
        return lambda r, lanes: (a(r) * c(r) + addend(r) + carried(r).astype(U32),)
    return lambda r, lanes: (a(r) * c(r) + addend(r),)


def scaled_add(b: Binder) -> Evaluate:
    """LEA: (a << shift) + b, or b plus the high word of the shifted pair."""
    step = b.step
    shift = U64(b.number(-1) & 63)
    a = b.word(0)
    negated = b.values[1].negate
    plus = _add_term(b.values[1], b.word(1), step.has("X")) if negated else b.word(1)
    carried = b.truth(0) if step.has("X") else None
    carries = len(step.targets) - 1
    high = step.has("HI")
    signed = step.has("SX32")
    upper = b.word(2) if high and not signed and len(b.values) > 3 else None

    def evaluate(r: Registers, lanes: Lanes) -> Values:
        if high:
            pair = a(r).view(I32).astype(I64).view(U64) if signed else a(r).astype(U64)
            if upper is not None:
                pair = pair | (upper(r).astype(U64) << HIGH)
            shifted = (pair << shift) >> HIGH
        else:
            shifted = (a(r).astype(U64) << shift) & U64(0xFFFFFFFF)
        total = shifted + plus(r).astype(U64)
        if carried is not None:
            total = total + carried(r).astype(U64)
        return (total.astype(U32), *((total >> HIGH) > 0,) * carries)

    return evaluate


def shift(b: Binder) -> Evaluate:
    """SHF: the pair of the third and the first source, shifted by the second; its low or its high word."""
    step = b.step
    low, by, high = b.words(3)
    long = step.has("U64", "S64")
    limit, wraps = 63 if long else 32, step.has("W")
    left, take_high, signed = step.has("L"), step.has("HI"), step.has("S32", "S64")

    def evaluate(r: Registers, lanes: Lanes) -> Values:
        count = by(r).astype(U64)
        count = count & U64(63 if long else 31) if wraps else np.minimum(count, U64(limit))
        pair = joined(low(r), high(r))
        if left:
            pair = pair << count
        elif signed:
            pair = (pair.view(I64) >> count.view(I64)).view(U64)
        else:
            pair = pair >> count
        return ((pair >> HIGH if take_high else pair).astype(U32),)

    return evaluate


def minimum(b: Binder) -> Evaluate:
    """The smaller of two where the predicate holds, else the larger; VIADDMNMX adds the first two before."""
    step = b.step
    kind = U32 if step.has("U32") else I32
    terms = b.words(len(b.values))
    smaller = b.truth(0)
    tests = len(step.targets) - 1
    adds = step.opcode.endswith("VIADDMNMX")

    def evaluate(r: Registers, lanes: Lanes) -> Values:
        left, right = (terms[0](r) + terms[1](r), terms[2](r)) if adds else (terms[0](r), terms[1](r))
        left, right = left.view(kind), right.view(kind)
        value = np.where(smaller(r), np.minimum(left, right), np.maximum(left, right))
        return (value.astype(kind).view(U32), *(left < right,) * tests)

    return evaluate


def absolute(b: Binder) -> Evaluate:
    source = b.word(0)
    return lambda r, lanes: (np.abs(source(r).view(I32)).view(U32),)


def compare_integers(b: Binder) -> Evaluate:
    step = b.step
    name = next((name for name in step.modifiers if name in COMPARE), None)
    other = b.truth(0)
    if name is None:
        always = np.full((1, 1), step.has("T"))
        return combined(b, lambda r: always, other)
    compare = COMPARE[name]
    if step.has("U64", "S64"):
        kind = I64 if step.has("S64") else U64
        left, right = b.wide(0), b.wide(1)
    else:
        kind = U32 if step.has("U32") else I32
        left, right = b.words(2)
    if not step.has("EX"):
        return combined(b, lambda r: compare(left(r).view(kind), right(r).view(kind)), other)
    low = b.truth(1)  # the same test of the low words

    def extended(r: Registers) -> np.ndarray:
        a, c, below = left(r).view(kind), right(r).view(kind), low(r)
        if name == "NE":
            return (a != c) | below
        equal = (a == c) & below
        return equal if name == "EQ" else _STRICT[name](a, c) | equal

    return combined(b, extended, other)


RULES = table_of(
    {
        add: "IADD3 UIADD3 IADD VIADD UVIADD IADD32I",
        multiply_add: "IMAD UIMAD",
        scaled_add: "LEA ULEA",
        shift: "SHF USHF",
        minimum: "IMNMX UIMNMX VIMNMX UVIMNMX VIADDMNMX UVIADDMNMX",
        absolute: "IABS UIABS",
        compare_integers: "ISETP UISETP",
    }
)
