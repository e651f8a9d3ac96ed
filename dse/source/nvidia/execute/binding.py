"""Bind an instruction to the function of its row in the table of opcodes, with its operands and results.

Registers hold uint32 arrays, predicates bool arrays, each of a shape that broadcasts to [blocks, threads]:
values equal in all threads, or all blocks, are computed once. A 64-bit value takes two registers.
"""

from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from dse.source.machine.thread_set import Lanes
from dse.source.nvidia.sass.opcodes import OPCODES, kinds_of, opcode
from dse.source.nvidia.sass.operands import PT, RZ, UP, UPT, URZ, Operand, P
from dse.source.nvidia.sass.program import Step
from dse.source.nvidia.sass.semantics import (
    COMBINE,
    F32,
    F64,
    I32,
    I64,
    U32,
    U64,
    double_words,
    extended,
    float_bits,
    flushed,
    half_type,
    halves,
    joined,
    pair_bits,
)

Registers = list[np.ndarray]
Reader = Callable[[Registers], Any]
_WORDS = "uifs2FUIDw"  # kinds of results in registers


class Unsupported(Exception):
    """An opcode, or a form of it, that is not computed; the text says why."""


class Bound(NamedTuple):
    """An instruction as a function of registers."""

    evaluate: Callable[[Registers, Lanes], list[np.ndarray]]  # a value per slot of `writes`
    writes: list[int]  # slots
    reads: tuple[int, ...]  # slots, including constants


def bind(step: Step, slot_of: Callable[[str, Any], int]) -> Bound:
    """Bind `step` to its function, results and sources.

    `slot_of` returns the slot of a constant, a number or a special register by kind and key.

    **Raises:** Unsupported if the opcode, or this form of it, has no function.
    """
    tests = [target.slot for target in step.targets if target.kind == "predicate"]
    carries = any(slot not in (PT, UPT) for slot in tests)
    row = opcode(f"{step.instruction.opcode}.CO") if carries else step.row
    if row is None or row.function is None:
        raise Unsupported(f"this {'form of the ' if OPCODES[step.opcode].function else ''}opcode")
    try:
        return _bound(step, row.form, row.function, tests, _Operands(step, slot_of))
    except (ValueError, IndexError, KeyError, TypeError, OverflowError) as error:
        raise Unsupported(f"operands of this form ({error})") from None


def _bound(step: Step, form: str, function: Any, tests: list[int], operands: "_Operands") -> Bound:
    results, kinds = kinds_of(form, step.modifiers)
    other = operands.truth(True) if results == "C" else None
    readers = [*operands.readers(kinds)]
    start = form.partition("=")[2]
    if start[:1] == "m":
        function, start = function(step.modifiers), start[1:]
    of_lanes = start[:1] == "l"

    def compute(r: Registers, lanes: Lanes) -> Any:
        values = [read(r) for read in readers]
        return function(lanes, *values) if of_lanes else function(*values)

    register = next((target.slot for target in step.targets if target.kind == "register"), RZ)
    words = [] if register in (RZ, URZ) else [slot for slot in step.writes if slot < P]
    places = [index for index, slot in enumerate(tests) if slot not in (PT, UPT)]
    writes = [*words, *(tests[index] for index in places)]
    reads = tuple(sorted(operands.slots))
    if results == "B":
        return Bound(lambda r, lanes: [*compute(r, lanes)], list(step.writes), reads)
    if results == "K":

        def add(r: Registers, lanes: Lanes) -> list[np.ndarray]:
            total = compute(r, lanes)
            if not isinstance(total, tuple):
                return [total.astype(U32)] * len(words) + [total >= U64(index + 1 << 32) for index in places]
            word, carries = total
            return [word] * len(words) + [carries(index + 1) for index in places]

        return Bound(add, writes, reads)
    if other is not None:
        combine = next((COMBINE[name] for name in step.modifiers if name in COMBINE), np.logical_and)

        def compare(r: Registers, lanes: Lanes) -> list[np.ndarray]:
            holds, with_ = compute(r, lanes), other(r)
            if combine is np.logical_and and with_.size == 1 and with_[0, 0]:  # mostly: PT
                return [~holds if index else holds for index in places]
            return [combine(~holds if index else holds, with_) for index in places]

        return Bound(compare, writes, reads)
    kind = next((kind for kind in results if kind in _WORDS), "")
    write = _writer(kind, step) if words else lambda value: ()  # discarded
    if set(results).isdisjoint("cPb"):
        if places:
            raise Unsupported("a test beside what it computes")
        return Bound(lambda r, lanes: [*write(compute(r, lanes))], writes, reads)
    first = 1 if kind else 0  # of the tests, which follow the word

    def with_tests(r: Registers, lanes: Lanes) -> list[np.ndarray]:
        computed = compute(r, lanes)
        computed = computed if isinstance(computed, tuple) else (computed,)
        written = write(_wanted(computed[0])) if words else ()
        return [*written, *(_wanted(computed[first + index]) for index in places)]

    return Bound(with_tests, writes, reads)


def _wanted(result: Any) -> Any:
    """Return a result, computed now if it is a function."""
    return result() if callable(result) else result


def _writer(kind: str, step: Step) -> Callable[[Any], Any]:
    """Return the function that converts a result to words."""
    if kind in "UI":
        return halves
    if kind == "D":
        return double_words(step.modifiers)
    if kind == "w":
        return lambda words: words
    if kind == "2":
        packed = pair_bits(step.modifiers)
        return lambda value: (packed(value),)
    if kind in "fF":
        bits = float_bits(step.modifiers)
        return (lambda value: (bits(value),)) if kind == "f" else lambda pair: (*map(bits, pair),)
    return lambda value: (value if value.dtype == U32 else _word(value),)


def _word(value: np.ndarray) -> np.ndarray:
    """Return the lower 32 bits of integers, or the bits of floats."""
    return value.view(U32) if value.dtype in (I32, F32) else value.astype(U32)


class _Operands:
    """Makes the functions that read an instruction's sources, in order."""

    def __init__(self, step: Step, slot_of: Callable[[str, Any], int]) -> None:
        self.step, self.slot_of = step, slot_of
        self.values = [operand for operand in step.sources if operand.kind != "predicate"]
        self.left = iter(self.values)
        self.conditions = iter([operand for operand in step.sources if operand.kind == "predicate"])
        self.slots = set(step.reads)

    def readers(self, kinds: tuple[str, ...]) -> Iterator[Reader]:
        """Yield the functions that read operands of these kinds."""
        for kind in kinds:
            if kind == "p*":
                yield from map(self.predicate, self.conditions)
            elif kind in "pq":
                yield self.truth(kind == "p")
            else:
                for operand in self.left if kind[1:] else [next(self.left, None)]:
                    if operand is None:
                        raise IndexError("too few")
                    reader = self.reader(kind[0], operand)
                    if reader is not None:
                        yield reader

    def reader(self, kind: str, operand: Operand) -> Reader | None:
        """Return the function that reads a source as a kind; None if there is nothing to read."""
        if kind in _MAKERS:
            return _MAKERS[kind](self, operand)
        if kind == ".":
            return None
        if kind == "i":
            read = self.word(operand)
            return lambda r: read(r).view(I32)
        if kind == "I":
            read = self.pair(operand)
            return lambda r: read(r).view(I64)
        if kind == "f":
            read = self.real(operand)
            return lambda r: read(r).astype(F64)
        number = int(operand.text, 0)
        return lambda r: number

    def slot(self, operand: Operand, words: int = 1, real: bool = False) -> int:
        """Return the first slot of an operand. Numbers have the instruction's type."""
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
        self.slots.update(range(slots[0], slots[0] + words))
        return slots[0]

    def word(self, operand: Operand) -> Reader:
        """Read a word, or a byte (B0 to B3) or a half (H0, H1) of one."""
        slot, part = self.slot(operand), operand.part
        if part and part not in ("64", "U32", "S32", "F32"):
            if operand.negate or operand.invert or part[:1] not in "BH" or not part[1:2].isdigit():
                raise Unsupported(f"operand {operand.text}")
            bits = 8 if part[0] == "B" else 16
            shift, mask = U32(int(part[1]) * bits), U32((1 << bits) - 1)
            return lambda r: (r[slot] >> shift) & mask
        if operand.absolute:
            return lambda r: np.abs(r[slot].view(I32)).view(U32)
        if operand.negate:
            return lambda r: np.negative(r[slot])
        if operand.invert:
            return lambda r: ~r[slot]
        return itemgetter(slot)

    def pair(self, operand: Operand) -> Reader:
        """Read an integer of 64 bits."""
        slot = self.slot(operand, 2)
        if operand.negate:
            return lambda r: np.negative(joined(r[slot], r[slot + 1]))
        if operand.invert:
            return lambda r: ~joined(r[slot], r[slot + 1])
        return lambda r: joined(r[slot], r[slot + 1])

    def real(self, operand: Operand) -> Reader:
        """Read a float32."""
        slot, flush = self.slot(operand, real=True), self.step.has("FTZ")

        def read(r: Registers) -> np.ndarray:
            value = r[slot].view(F32)
            value = np.abs(value) if operand.absolute else value
            value = np.negative(value) if operand.negate else value
            return flushed(value) if flush else value

        return read

    def pair_of_reals(self, operand: Operand) -> Reader:
        """Read two float32 of a pair of registers, or one twice: float64, [2, ...]."""
        if operand.kind == "number":
            number = self.real(operand)
            return lambda r: np.stack([number(r)] * 2).astype(F64)
        order = _REALS.get(operand.part)
        if order is None:
            raise Unsupported(f"operand {operand.text}")
        slot, flush = self.slot(operand, 1 + max(order)), self.step.has("FTZ")

        def read(r: Registers) -> np.ndarray:
            words = np.broadcast_arrays(*(r[slot + word] for word in order))
            value = np.stack(words).view(F32)
            value = np.abs(value) if operand.absolute else value
            value = np.negative(value) if operand.negate else value
            return (flushed(value) if flush else value).astype(F64)

        return read

    def double(self, operand: Operand) -> Reader:
        """Read a float64."""
        slot = self.slot(operand, 2, real=True)

        def read(r: Registers) -> np.ndarray:
            value = joined(r[slot], r[slot + 1]).view(F64)
            value = np.abs(value) if operand.absolute else value
            return np.negative(value) if operand.negate else value

        return read

    def halves(self, operand: Operand) -> Reader:
        """Read a register's halves, or one of them twice: float64, [2, ...]. Numbers are two operands."""
        kind = half_type(self.step.modifiers)
        if operand.kind == "number":
            numbers = [float(number.text.replace("QNAN", "NAN")) for number in (next(self.left), operand)]
            constant = np.array(numbers).reshape(2, 1, 1)
            return lambda r: constant
        slot, shifts = self.slot(operand), _HALVES[operand.part]

        def read(r: Registers) -> np.ndarray:
            words = np.stack([r[slot] >> shift for shift in shifts])
            value = words.astype(np.uint16).view(kind).astype(F64)
            value = np.abs(value) if operand.absolute else value
            return np.negative(value) if operand.negate else value

        return read

    def term(self, operand: Operand) -> Reader:
        """Read a term of a sum with carry: negated, its complement, plus one in the low word."""
        read = self.word(operand)
        if operand.negate and operand.slot != RZ:
            carry = U64(not self.step.has("X"))
            return lambda r: (~np.negative(read(r))).astype(U64) + carry
        return read

    def truth(self, default: bool) -> Reader:
        """Read the next predicate; `default` if there is none."""
        operand = next(self.conditions, None)
        constant = np.full((1, 1), default)
        return self.predicate(operand) if operand is not None else lambda r: constant

    def predicate(self, operand: Operand) -> Reader:
        """Read a predicate."""
        slot = operand.slot
        self.slots.add(slot)
        return (lambda r: ~r[slot]) if operand.negate else itemgetter(slot)

    def predicates(self, operand: Operand) -> Reader:
        """Read the predicates that the instruction's mask selects, as bits."""
        if operand.text not in ("PR", "UPR") or any(value.part for value in self.values):
            raise Unsupported("part of a register")
        mask, first = int(self.values[-1].text, 0), P if operand.text == "PR" else UP
        picked = [(first + bit, U32(bit)) for bit in range(7) if mask >> bit & 1]

        def read(r: Registers) -> np.ndarray:
            value = np.zeros((1, 1), U32)
            for slot, bit in picked:
                value = value | (r[slot].astype(U32) << bit)
            return value

        return read

    def special(self, operand: Operand) -> Reader:
        """Read a special register, such as the thread's number; SRZ is always zero."""
        slot = RZ if operand.text == "SRZ" else self.slot_of("special", operand.text)
        self.slots.add(slot)
        return itemgetter(slot)

    def constant(self, operand: Operand) -> Reader:
        """Read words of a constant bank, or part of one, at an address in the code or in a register."""
        size, first, modifiers = self.step.bytes, operand.offset, self.step.modifiers
        if operand.kind != "constant":
            raise Unsupported(f"operand {operand.text}")
        words = range(-(-size // 4))
        if operand.slot >= 0 and operand.slot != RZ:
            table = self.slot_of("bank", operand.bank)
            self.slots.add(table)

            def read(r: Registers) -> tuple[np.ndarray, ...]:
                bank, place = r[table][0], (r[operand.slot] + U32(first)).astype(np.int64)
                loaded = [bank[np.minimum((place >> 2) + word, len(bank) - 1)] for word in words]
                if size < 4:
                    loaded[0] = extended(loaded[0] >> (8 * (place & 3)).astype(U32), modifiers)
                return tuple(loaded)

            return read
        if size < 4:
            slots = [self.slot_of("part", (operand.bank, first, size))]
        else:
            slots = [self.slot_of("constant", (operand.bank, first + 4 * word)) for word in words]
        self.slots.update(slots)
        return lambda r: tuple(extended(r[slot], modifiers) for slot in slots)


_MAKERS: dict[str, Callable[[_Operands, Operand], Reader]] = {
    "u": _Operands.word, "U": _Operands.pair, "s": _Operands.real, "D": _Operands.double,
    "k": _Operands.term, "2": _Operands.halves, "z": _Operands.special, "o": _Operands.constant,
    "B": _Operands.predicates, "F": _Operands.pair_of_reals,
}  # fmt: skip


_REALS = {"": (0, 1), "F32x2.HI_LO": (0, 1), "F32x2.LO_HI": (1, 0), "F32": (0, 0)}
_HALVES = {
    part: (U32(low), U32(high)) for part, low, high in (("", 0, 16), ("H0_H0", 0, 0), ("H1_H1", 16, 16))
}


def _bits(text: str, words: int, real: bool) -> int:
    """Return the bits of a printed number. Floats are printed in decimal, integers in hexadecimal."""
    if not real or "0x" in text:
        return int(text, 0) & (0xFFFFFFFF if words == 1 else 0xFFFFFFFFFFFFFFFF)
    value = float(text.upper().replace("QNAN", "NAN").replace("SNAN", "NAN"))
    return int(np.array(value, F32).view(U32)) if words == 1 else int(np.array(value, F64).view(U64))
