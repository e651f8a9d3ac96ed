"""Moves, selections, constants, special registers."""

import numpy as np

from dse.cuda.execute.semantics.binding import (
    U32,
    Binder,
    Evaluate,
    Registers,
    Unsupported,
    Values,
    halves,
    table_of,
)
from dse.cuda.machine.thread_set import Lanes
from dse.cuda.sass.operands import RZ, P


def move(b: Binder) -> Evaluate:
    if b.step.has("64"):
        source = b.wide(0)
        return lambda r, lanes: halves(source(r))
    source = b.word(0)
    return lambda r, lanes: (source(r),)


def select(b: Binder) -> Evaluate:
    condition = b.truth(0)
    if b.step.has("64"):
        left, right = b.wide(0), b.wide(1)
        return lambda r, lanes: halves(np.where(condition(r), left(r), right(r)))
    left, right = b.words(2)
    return lambda r, lanes: (np.where(condition(r), left(r), right(r)),)


def select_real(b: Binder) -> Evaluate:
    condition, left, right = b.truth(0), b.real(0), b.real(1)
    return lambda r, lanes: (np.where(condition(r), left(r), right(r)).view(U32),)


def special(b: Binder) -> Evaluate:
    name = b.values[0].text
    if name == "SRZ":
        zero = np.zeros((1, 1), U32)
        return lambda r, lanes: (zero, zero)
    slot = b.slot_of("special", name)
    b.reads.add(slot)
    if b.step.opcode == "CS2R" and not b.step.has("32"):
        return lambda r, lanes: (r[slot], r[RZ])
    return lambda r, lanes: (r[slot],)


def load_constant(b: Binder) -> Evaluate:
    source = b.values[0]
    if source.kind != "constant" or b.step.bytes % 4 or source.offset % 4:
        raise Unsupported("a constant that is no whole word")
    slots = [
        b.slot_of("constant", (source.bank, source.offset + 4 * word)) for word in range(b.step.bytes // 4)
    ]
    b.reads.update(slots)
    return lambda r, lanes: tuple(r[slot] for slot in slots)


def predicates_to_register(b: Binder) -> Evaluate:
    mask, kept = b.number(-1), b.word(1)
    if b.values[0].text != "PR" or any(value.part for value in b.values):
        raise Unsupported("part of a register")
    chosen = [(P + bit, U32(bit)) for bit in range(7) if mask >> bit & 1]

    def evaluate(r: Registers, lanes: Lanes) -> Values:
        value = kept(r) & U32(~mask & 0xFFFFFFFF)
        for slot, bit in chosen:
            value = value | (r[slot].astype(U32) << bit)
        return (value,)

    return evaluate


def register_to_predicates(b: Binder) -> Evaluate:
    mask, source = b.number(-1), b.word(1)
    chosen = [U32(1 << bit) for bit in range(7) if mask >> bit & 1]
    return lambda r, lanes: tuple((source(r) & bit) != 0 for bit in chosen)


RULES = table_of(
    {
        move: "MOV MOV32I UMOV R2UR",
        select: "SEL USEL",
        select_real: "FSEL UFSEL",
        special: "S2R S2UR CS2R",
        load_constant: "LDC LDCU ULDC",
        predicates_to_register: "P2R",
        register_to_predicates: "R2P",
    }
)
