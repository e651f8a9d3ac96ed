"""Moves, selections, constants, special registers."""

import numpy as np

from dse.source.machine.thread_set import Lanes
from dse.source.nvidia.execute.semantics.binding import (
    U32,
    Binder,
    Evaluate,
    Registers,
    Unsupported,
    Values,
    halves,
    rule,
)
from dse.source.nvidia.sass.operands import RZ, Operand, P


@rule
def move(binder: Binder) -> Evaluate:
    """The value of the source, of 32 or 64 bits."""
    if binder.step.has("64"):
        operand = binder.wide(0)
        return lambda r, lanes: halves(operand(r))
    operand = binder.word(0)
    return lambda r, lanes: (operand(r),)


@rule
def select(binder: Binder) -> Evaluate:
    """The first source where the predicate holds, else the second."""
    condition = binder.truth(0)
    if binder.step.has("64"):
        left, right = binder.wide(0), binder.wide(1)
        return lambda r, lanes: halves(np.where(condition(r), left(r), right(r)))
    left, right = binder.words(2)
    return lambda r, lanes: (np.where(condition(r), left(r), right(r)),)


@rule
def select_real(binder: Binder) -> Evaluate:
    """The same of floats, whose sign and magnitude may be taken on the way."""
    condition, left, right = binder.truth(0), binder.real(0), binder.real(1)
    return lambda r, lanes: (np.where(condition(r), left(r), right(r)).view(U32),)


@rule
def special(binder: Binder) -> Evaluate:
    """S2R: a special register, such as the number of the thread."""
    slot = _special_slot(binder)
    return lambda r, lanes: (r[slot],)


@rule
def special_pair(binder: Binder) -> Evaluate:
    """CS2R: a special register and zero above it; .32: the register alone."""
    if binder.step.has("32"):
        return special(binder)
    slot = _special_slot(binder)
    return lambda r, lanes: (r[slot], r[RZ])


def _special_slot(binder: Binder) -> int:
    name = binder.values[0].text
    if name == "SRZ":  # always zero
        return RZ
    slot = binder.slot_of("special", name)
    binder.reads.add(slot)
    return slot


@rule
def load_constant(binder: Binder) -> Evaluate:
    """LDC: words of a constant bank, at an address that is written in the instruction or in a register."""
    operand = binder.values[0]
    if operand.kind == "constant" and operand.slot >= 0 and operand.slot != RZ and binder.step.bytes % 4 == 0:
        return _indexed_constant(binder, operand)
    if operand.kind != "constant" or binder.step.bytes % 4 or operand.offset % 4:
        raise Unsupported("a constant that is no whole word")
    slots = [
        binder.slot_of("constant", (operand.bank, operand.offset + 4 * word))
        for word in range(binder.step.bytes // 4)
    ]
    binder.reads.update(slots)
    return lambda r, lanes: tuple(r[slot] for slot in slots)


def _indexed_constant(binder: Binder, operand: Operand) -> Evaluate:
    table = binder.slot_of("bank", operand.bank)
    binder.reads.add(table)
    words = range(binder.step.bytes // 4)

    def evaluate(r: Registers, lanes: Lanes) -> Values:
        bank = r[table][0]
        place = (r[operand.slot].astype(np.int64) + operand.offset) >> 2
        return tuple(bank[np.minimum(place + word, len(bank) - 1)] for word in words)

    return evaluate


@rule
def predicates_to_register(binder: Binder) -> Evaluate:
    """P2R: predicates that a mask picks become bits of a register."""
    mask, kept = binder.number(-1), binder.word(1)
    if binder.values[0].text != "PR" or any(value.part for value in binder.values):
        raise Unsupported("part of a register")
    predicates = [(P + bit, U32(bit)) for bit in range(7) if mask >> bit & 1]

    def evaluate(r: Registers, lanes: Lanes) -> Values:
        value = kept(r) & U32(~mask & 0xFFFFFFFF)
        for slot, bit in predicates:
            value = value | (r[slot].astype(U32) << bit)
        return (value,)

    return evaluate


@rule
def register_to_predicates(binder: Binder) -> Evaluate:
    """R2P: bits of a register that a mask picks become predicates."""
    mask, operand = binder.number(-1), binder.word(1)
    bits = [U32(1 << bit) for bit in range(7) if mask >> bit & 1]
    return lambda r, lanes: tuple((operand(r) & bit) != 0 for bit in bits)
