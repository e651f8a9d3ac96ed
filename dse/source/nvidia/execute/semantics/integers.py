"""Adds, multiplies, shifts, minima and compares of integers."""

import numpy as np

from dse.source.machine.thread_set import Lanes
from dse.source.nvidia.execute.semantics.binding import (
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
    rule,
)
from dse.source.nvidia.execute.semantics.compare import COMPARE, combined
from dse.source.nvidia.sass.operands import PT, RZ, Operand

_STRICT = {"LT": np.less, "LE": np.less, "GT": np.greater, "GE": np.greater}


def _add_term(operand: Operand, read: Reader, extended: bool) -> Reader:
    """A term of a sum with carry, in 64 bits: a negated one is its complement, plus one in the low word."""
    if operand.negate and operand.slot != RZ:
        return lambda r: (~np.negative(read(r))).astype(U64) + (U64(0) if extended else ONE)
    return lambda r: read(r).astype(U64)


@rule
def add(binder: Binder) -> Evaluate:
    """IADD3: a sum of two or three, with carries to predicates; .X adds carries to it."""
    if binder.step.has("64"):
        return _add_pairs(binder)
    carries, extended = binder.step.targets[1:], binder.step.has("X")
    if extended or not all(target.text[-1] == "T" for target in carries):
        return _add_with_carry(binder, extended)
    terms = binder.words(len(binder.values))
    none = [np.zeros((1, 1), bool)] * len(carries)

    def evaluate(r: Registers, lanes: Lanes) -> Values:
        return (_sum(terms, r), *none)

    return evaluate


def _add_pairs(binder: Binder) -> Evaluate:
    carries = binder.step.targets[1:]
    if any(target.slot != PT for target in carries if target.kind == "predicate" and target.text[-1] != "T"):
        raise Unsupported("a carry of 64 bits")
    terms = [binder.wide(index) for index in range(len(binder.values))]
    none = [np.zeros((1, 1), bool)] * len(carries)

    def evaluate(r: Registers, lanes: Lanes) -> Values:
        return (*halves(_sum(terms, r)), *none)

    return evaluate


def _sum(terms: list[Reader], r: Registers) -> np.ndarray:
    """The sum in the terms' own type, without carry."""
    total = terms[0](r)
    for term in terms[1:]:
        total = total + term(r)
    return total


def _add_with_carry(binder: Binder, extended: bool) -> Evaluate:
    words = binder.words(len(binder.values))
    terms = [_add_term(operand, word, extended) for operand, word in zip(binder.values, words, strict=True)]
    carried = [binder.truth(index) for index in range(len(binder.conditions))] if extended else []
    carries = len(binder.step.targets) - 1

    def evaluate(r: Registers, lanes: Lanes) -> Values:
        total = terms[0](r)
        for term in (*terms[1:], *carried):
            total = total + term(r).astype(U64)
        over = total >> HIGH
        return (total.astype(U32), *(over > U64(index) for index in range(carries)))

    return evaluate


@rule
def multiply_add(binder: Binder) -> Evaluate:
    """IMAD: a * b + c of 32 bits; .WIDE and .HI: of 64; .MOV: c alone."""
    step = binder.step
    if step.has("MOV"):
        addend = binder.word(2)
        return lambda r, lanes: (addend(r),)
    if step.has("WIDE", "HI"):
        return _multiply_add_wide(binder)
    left, right, addend = binder.words(3)
    if step.has("X"):
        carried = binder.truth(0)
        return lambda r, lanes: (left(r) * right(r) + addend(r) + carried(r).astype(U32),)
    return lambda r, lanes: (left(r) * right(r) + addend(r),)


def _multiply_add_wide(binder: Binder) -> Evaluate:
    step = binder.step
    left, right = binder.words(2)
    addend, unsigned, high_only = binder.wide(2), step.has("U32"), step.has("HI")
    carries = len(step.targets) - 1
    carried = binder.truth(0) if step.has("X") else None

    def product(r: Registers) -> np.ndarray:
        if unsigned:
            return left(r).astype(U64) * right(r).astype(U64)
        return (left(r).view(I32).astype(I64) * right(r).view(I32).astype(I64)).view(U64)

    def evaluate(r: Registers, lanes: Lanes) -> Values:
        times, plus = product(r), addend(r)
        total = times + plus
        over = total < plus
        if carried is not None:
            total = total + carried(r).astype(U64)
            over = over | (carried(r) & (total == 0))
        low, high = halves(total)
        return (*((high,) if high_only else (low, high)), *(over,) * carries)

    return evaluate


@rule
def scaled_add(binder: Binder) -> Evaluate:
    """LEA: (a << shift) + b, or b plus the high word of the shifted pair."""
    step = binder.step
    shift = U64(binder.number(-1) & 63)
    a = binder.word(0)
    negated = binder.values[1].negate
    plus = _add_term(binder.values[1], binder.word(1), step.has("X")) if negated else binder.word(1)
    carried = binder.truth(0) if step.has("X") else None
    carries = len(step.targets) - 1
    high = step.has("HI")
    signed = step.has("SX32")
    upper = binder.word(2) if high and not signed and len(binder.values) > 3 else None

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


@rule
def shift(binder: Binder) -> Evaluate:
    """SHF: the pair of the third and the first source, shifted by the second; its low or its high word."""
    step = binder.step
    low, by, high = binder.words(3)
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


@rule
def minimum(binder: Binder) -> Evaluate:
    """IMNMX: the smaller of two where the predicate holds, else the larger."""
    left, right = binder.words(2)
    return _smaller_or_larger(binder, left, right)


@rule
def add_and_minimum(binder: Binder) -> Evaluate:
    """VIADDMNMX: the same of the sum of two and a third."""
    first, second, third = binder.words(3)
    return _smaller_or_larger(binder, lambda r: first(r) + second(r), third)


def _smaller_or_larger(binder: Binder, left: Reader, right: Reader) -> Evaluate:
    kind = U32 if binder.step.has("U32") else I32
    smaller = binder.truth(0)
    tests = len(binder.step.targets) - 1

    def evaluate(r: Registers, lanes: Lanes) -> Values:
        a, b = left(r).view(kind), right(r).view(kind)
        value = np.where(smaller(r), np.minimum(a, b), np.maximum(a, b))
        return (value.astype(kind).view(U32), *(a < b,) * tests)

    return evaluate


@rule
def absolute(binder: Binder) -> Evaluate:
    """IABS."""
    source = binder.word(0)
    return lambda r, lanes: (np.abs(source(r).view(I32)).view(U32),)


@rule
def compare_integers(binder: Binder) -> Evaluate:
    """ISETP: a test of two integers, combined with a predicate; .EX: of the high words of two pairs."""
    step = binder.step
    name = next((name for name in step.modifiers if name in COMPARE), None)
    other = binder.truth(0)
    if name is None:
        always = np.full((1, 1), step.has("T"))
        return combined(binder, lambda r: always, other)
    compare = COMPARE[name]
    if step.has("U64", "S64"):
        kind = I64 if step.has("S64") else U64
        left, right = binder.wide(0), binder.wide(1)
    else:
        kind = U32 if step.has("U32") else I32
        left, right = binder.words(2)
    if not step.has("EX"):
        return combined(binder, lambda r: compare(left(r).view(kind), right(r).view(kind)), other)
    low = binder.truth(1)  # the same test of the low words

    def extended(r: Registers) -> np.ndarray:
        a, c, below = left(r).view(kind), right(r).view(kind), low(r)
        if name == "NE":
            return (a != c) | below
        equal = (a == c) & below
        return equal if name == "EQ" else _STRICT[name](a, c) | equal

    return combined(binder, extended, other)
