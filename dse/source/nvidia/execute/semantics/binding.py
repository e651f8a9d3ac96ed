"""Rules: what an instruction computes, given its operands as functions of the registers.

Registers hold uint32 arrays, predicates bool arrays, each of a shape that broadcasts to [blocks, threads]:
what is the same for all threads, or for all blocks, is computed once. A 64-bit value takes two registers.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from dse.source.machine.thread_set import Lanes
from dse.source.nvidia.sass.operands import RZ, Operand
from dse.source.nvidia.sass.program import Step

Registers = list[np.ndarray]
Values = tuple[np.ndarray, ...]
Evaluate = Callable[[Registers, Lanes], Values]  # one value for each register and predicate written, in order
Reader = Callable[[Registers], np.ndarray]

U32, I32, U64, I64 = np.uint32, np.int32, np.uint64, np.int64
F32, F64 = np.float32, np.float64
HIGH, ONE = U64(32), U64(1)


Rule = Callable[["Binder"], Evaluate]
RULES: dict[str, Rule] = {}  # by name, which rows of the table of opcodes give


def rule(function: Rule) -> Rule:
    """Make a function a rule, under its own name."""
    RULES[function.__name__] = function
    return function


class Unsupported(Exception):
    """There is no rule for an opcode, or for this form of it; says which."""


class Binder:
    """Hands a rule the operands of one instruction as functions of the registers."""

    def __init__(self, step: Step, slot_of: Callable[[str, Any], int]) -> None:
        self.step = step
        self.slot_of = slot_of  # (kind, key) → slot of a constant, a number or a special register
        self.values = [operand for operand in step.sources if operand.kind != "predicate"]
        self.conditions = [operand for operand in step.sources if operand.kind == "predicate"]
        self.reads = set(step.reads)  # constants too

    def slot(self, operand: Operand, words: int = 1, real: bool = False) -> int:
        """The first slot of an operand. Numbers have the type that the instruction works on."""
        if operand.kind == "register":
            return operand.slot
        if operand.kind == "constant":
            if operand.slot >= 0 and operand.slot != RZ:
                raise Unsupported("an indexed constant as operand")
            slots = [
                self.slot_of("constant", (operand.bank, operand.offset + 4 * word)) for word in range(words)
            ]
            if words == 2 and slots[1] != slots[0] + 1:
                slots = [self.slot_of("pair", (operand.bank, operand.offset))]
        elif operand.kind == "number":
            slots = [self.slot_of("number", (_bits(operand.text, words, real), words))]
        else:
            raise Unsupported(f"operand {operand.text}")
        self.reads.update(range(slots[0], slots[0] + words))
        return slots[0]

    def word(self, index: int) -> Reader:
        """A 32-bit integer source."""
        operand = self.values[index]
        slot = self.slot(operand)
        part = operand.part
        if part and part not in ("64", "U32", "S32", "F32"):
            return _part(slot, part, operand)
        if operand.absolute:
            return lambda r: np.abs(r[slot].view(I32)).view(U32)
        if operand.negate:
            return lambda r: np.negative(r[slot])
        if operand.invert:
            return lambda r: ~r[slot]
        return lambda r: r[slot]

    def words(self, count: int) -> list[Reader]:
        """Return the first `count` 32-bit integer sources."""
        return [self.word(index) for index in range(count)]

    def wide(self, index: int) -> Reader:
        """A 64-bit integer source."""
        operand = self.values[index]
        slot = self.slot(operand, 2)
        if operand.negate:
            return lambda r: np.negative(joined(r[slot], r[slot + 1]))
        if operand.invert:
            return lambda r: ~joined(r[slot], r[slot + 1])
        return lambda r: joined(r[slot], r[slot + 1])

    def real(self, index: int) -> Reader:
        """A 32-bit float source."""
        operand = self.values[index]
        slot = self.slot(operand, real=True)
        flush = self.step.has("FTZ")

        def read(r: Registers) -> np.ndarray:
            value = r[slot].view(F32)
            value = np.abs(value) if operand.absolute else value
            value = np.negative(value) if operand.negate else value
            return flushed(value) if flush else value

        return read

    def double(self, index: int) -> Reader:
        """A 64-bit float source."""
        operand = self.values[index]
        slot = self.slot(operand, 2, real=True)

        def read(r: Registers) -> np.ndarray:
            value = joined(r[slot], r[slot + 1]).view(F64)
            value = np.abs(value) if operand.absolute else value
            return np.negative(value) if operand.negate else value

        return read

    def truth(self, index: int, default: bool = True) -> Reader:
        """Return a predicate source, or `default` where there are fewer."""
        if index >= len(self.conditions):
            constant = np.full((1, 1), default)
            return lambda r: constant
        operand = self.conditions[index]
        slot = operand.slot
        self.reads.add(slot)
        return (lambda r: ~r[slot]) if operand.negate else (lambda r: r[slot])

    def number(self, index: int) -> int:
        """A source that can only be a number."""
        return int(self.values[index].text, 0)


def _bits(text: str, words: int, real: bool) -> int:
    """The bits of a number as printed. Floats are printed in decimal, integers in hexadecimal."""
    if not real or "0x" in text:
        return int(text, 0) & (0xFFFFFFFF if words == 1 else 0xFFFFFFFFFFFFFFFF)
    value = float(text.upper().replace("QNAN", "NAN").replace("SNAN", "NAN"))
    return int(np.array(value, F32).view(U32)) if words == 1 else int(np.array(value, F64).view(U64))


def _part(slot: int, part: str, operand: Operand) -> Reader:
    """A byte (B0 to B3) or a half (H0, H1) of a register."""
    if operand.negate or operand.invert or part[:1] not in "BH" or not part[1:2].isdigit():
        raise Unsupported(f"operand {operand.text}")
    bits = 8 if part[0] == "B" else 16
    shift, mask = U32(int(part[1]) * bits), U32((1 << bits) - 1)
    return lambda r: (r[slot] >> shift) & mask


def joined(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The 64-bit value that two registers hold."""
    return low.astype(U64) | (high.astype(U64) << HIGH)


def halves(value: np.ndarray) -> Values:
    """A 64-bit value as the two registers that hold it."""
    value = value.view(U64)
    return value.astype(U32), (value >> HIGH).astype(U32)


def flushed(value: np.ndarray) -> np.ndarray:
    """Floats with zeros, of the same sign, in place of subnormal ones."""
    return np.where(np.abs(value) < np.finfo(F32).tiny, np.copysign(F32(0), value), value)
