"""Logic on bits and on predicates, and what counts or moves bits."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dse.source.machine.thread_set import Lanes
from dse.source.nvidia.execute.semantics.binding import (
    F64,
    I32,
    I64,
    ONE,
    U32,
    U64,
    Binder,
    Evaluate,
    Registers,
    Unsupported,
    Values,
    joined,
    rule,
)


def truth_table(lut: int, zero: Any, values: list[Any]) -> Any:
    """Return the bits that a truth table of three inputs gives."""
    result = zero
    a, b, c = values
    for case in range(8):
        if lut >> case & 1:
            result = result | ((a if case & 4 else ~a) & (b if case & 2 else ~b) & (c if case & 1 else ~c))
    return result


_SHORT_TABLES: dict[int, Callable[[Any, Any, Any], Any]] = {
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


@rule
def logic(binder: Binder) -> Evaluate:
    """LOP3: a truth table of three words, and whether a bit of the result is set."""
    step = binder.step
    if step.has("64"):
        raise Unsupported("logic of 64 bits")
    lut = binder.number(-1)
    terms = binder.words(3)
    test_first = step.targets[0].kind == "predicate"
    other = binder.truth(0, default=False)
    combine = np.logical_and if step.has("PAND") else np.logical_or
    table = _SHORT_TABLES.get(lut) or (lambda x, y, z: truth_table(lut, U32(0), [x, y, z]))

    def evaluate(r: Registers, lanes: Lanes) -> Values:
        value = np.asarray(table(terms[0](r), terms[1](r), terms[2](r)))
        if test_first:
            return combine(value != 0, other(r)), value
        return (value,)

    return evaluate


@rule
def predicate_logic(binder: Binder) -> Evaluate:
    """PLOP3: two truth tables of three predicates."""
    terms = [binder.truth(index) for index in range(3)]
    luts = [binder.number(index) for index in range(-2, 0)]
    wanted = [target.text[-1] != "T" for target in binder.step.targets]
    false = np.zeros((1, 1), bool)

    def evaluate(r: Registers, lanes: Lanes) -> Values:
        values = [term(r) for term in terms]
        return tuple(
            np.asarray(truth_table(lut, false, values)) if want else false
            for lut, want in zip(luts, wanted, strict=True)
        )

    return evaluate


@rule
def permute(binder: Binder) -> Evaluate:
    """PRMT: each nibble of the selector picks a byte of the pair; its top bit spreads that byte's sign."""
    if set(binder.step.modifiers) - {"IDX"}:
        raise Unsupported("this mode of PRMT")
    low, selector, high = binder.words(3)

    def evaluate(r: Registers, lanes: Lanes) -> Values:
        pair, selected = joined(low(r), high(r)), selector(r).astype(U64)
        value = U64(0)
        for position in range(4):
            nibble = (selected >> U64(4 * position)) & U64(15)
            byte = (pair >> ((nibble & U64(7)) << U64(3))) & U64(255)
            sign = np.where(byte > U64(127), U64(255), U64(0))
            value = value | (np.where(nibble > U64(7), sign, byte) << U64(8 * position))
        return (np.asarray(value).astype(U32),)

    return evaluate


@rule
def count_bits(binder: Binder) -> Evaluate:
    """POPC: how many bits are set."""
    source = binder.word(0)
    return lambda r, lanes: (np.bitwise_count(source(r)).astype(U32),)


@rule
def highest_bit(binder: Binder) -> Evaluate:
    """FLO: where the highest one is (of a negative number: zero); .SH: the shift that brings it up."""
    source, signed, as_shift = binder.word(0), not binder.step.has("U32"), binder.step.has("SH")
    tests = len(binder.step.targets) - 1

    def evaluate(r: Registers, lanes: Lanes) -> Values:
        value = source(r)
        if signed:
            value = np.where(value.view(I32) < 0, ~value, value)
        position = np.frexp(value.astype(F64))[1] - 1
        answer = 31 - position if as_shift else position
        return (np.where(value == 0, -1, answer).astype(I32).view(U32), *(value != 0,) * tests)

    return evaluate


@rule
def reverse_bits(binder: Binder) -> Evaluate:
    """BREV: the highest bit becomes the lowest."""
    source = binder.word(0)

    def evaluate(r: Registers, lanes: Lanes) -> Values:
        value = source(r)
        for shift, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF), (16, 0xFFFF)):
            value = ((value >> U32(shift)) & U32(mask)) | ((value & U32(mask)) << U32(shift))
        return (value,)

    return evaluate


@rule
def bit_mask(binder: Binder) -> Evaluate:
    """BMSK: a run of ones, from its first bit and length."""
    position, count = binder.words(2)
    wraps = binder.step.has("W")

    def evaluate(r: Registers, lanes: Lanes) -> Values:
        start, length = position(r).astype(U64), count(r).astype(U64)
        start = start & U64(31) if wraps else np.minimum(start, U64(32))
        length = length & U64(31) if wraps else np.minimum(length, U64(32))
        return ((((ONE << length) - ONE) << start).astype(U32),)

    return evaluate


@rule
def extend_sign(binder: Binder) -> Evaluate:
    """SGXT: the lowest n bits, sign extended."""
    source, bits = binder.words(2)
    unsigned, wraps = binder.step.has("U32"), binder.step.has("W")

    def evaluate(r: Registers, lanes: Lanes) -> Values:
        kept = bits(r).astype(I64)
        up = 32 - (kept & 31 if wraps else np.minimum(kept, 32))
        value = (source(r).astype(U64) << up.view(U64)) & U64(0xFFFFFFFF)
        if unsigned:
            return ((value >> up.view(U64)).astype(U32),)
        return ((value.astype(U32).view(I32).astype(I64) >> up).astype(I32).view(U32),)

    return evaluate
