"""Operands: functions of the machine that read and write values of some kind."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from dse.errors import DseError
from dse.source.amd.execute import lanes
from dse.source.amd.execute.contents import MemoryMachine
from dse.source.amd.execute.opcodes import OpcodeRow
from dse.source.amd.execute.semantics import pair_of
from dse.source.amd.execute.slots import (
    CONSTANTS,
    NULL,
    SCC,
    VCC,
    AmdOperand,
    ConstantOperand,
    Register,
    Symbol,
    V,
    operand,
)
from dse.source.amd.execute.state import U32, joined
from dse.source.amd.text import Instruction, Listing

U64 = np.uint64
Reader = Callable[[MemoryMachine], Any]
Writer = Callable[[MemoryMachine, Any], None]
KindOfOperand = tuple[str, AmdOperand]  # the kind as in `opcodes`

_VIEWS = {"i": np.int32, "f": np.float32, "I": np.int64, "D": np.float64}
_MOVED = ("quad_perm", "row_", "wave_", "dpp8")

# The low words of their results depend only on the low words of their operands; the compiler may leave
# the high words undefined.
LOW_FROM_LOW = (
    "v_mad_u64_u32", "v_mad_i64_i32", "v_mad_co_u64_u32", "v_mad_co_i64_i32", "v_lshlrev_b64",
    "v_lshl_add_u64", "v_add_u64", "v_sub_u64", "s_lshl_b64", "s_add_nc_u64", "s_sub_nc_u64", "s_mul_u64",
)  # fmt: skip


@lru_cache(maxsize=10_000)  # asked for in each execution that is followed
def by_kind(texts: tuple[str, ...], row: OpcodeRow) -> tuple[list[KindOfOperand], list[KindOfOperand]]:
    """Return the results and the sources of an instruction, of which SCC and VCC may be implied.

    The condition as a result is left out, and the mask of lanes, into which `v_cmpx` writes.

    **Raises:** DseError for another number of operands.
    """
    results, _, kinds = row.form.partition("=")
    operands, sources = [operand(text) for text in texts], []
    explicit = [kind for kind in results if kind != "c"]
    stated = sum(kind not in "cd" for kind in kinds)
    if row.special == "cmpx" and len(operands) == stated:
        explicit = []
    if len(operands) == len(explicit) + stated - 1 and kinds.endswith("m"):
        operands.append(AmdOperand(Register(VCC, 1)))
    if len(operands) != len(explicit) + stated:
        raise DseError(f"found {len(operands)} operands, expected {len(explicit) + stated}")
    reading = iter(operands[len(explicit) :])
    for kind in kinds:
        if kind == "d":
            sources.append((results[0], operands[0]))
        else:
            sources.append((kind, AmdOperand(Register(SCC, 1)) if kind == "c" else next(reading)))
    return list(zip(explicit, operands, strict=False)), sources


class OperandReaders:
    """Makes readers and writers of operands, and collects the constants of a listing."""

    def __init__(self, listing: Listing) -> None:
        self.listing = listing
        self.wide = listing.wave_size == 64
        self.constants: list[np.ndarray] = []  # in slots after those of registers
        self.needed: set[int] | None = None  # instructions to execute; None: all
        self.unread = set[int]()  # of these, those whose results nothing depends on
        self.spilled = set[int]()  # vector registers of which single lanes are written, active or not
        self._actions: dict[tuple[int, bool], list[Callable[[MemoryMachine], None]]] = {}
        self._places: dict[int, int] = {}
        self._readers: dict[tuple[AmdOperand, str], Reader] = {}
        self._writers: dict[tuple[int, str], Writer] = {}

    def error(self, step: Instruction, found: str) -> DseError:
        """Return an error that names the instruction."""
        return DseError(f"{self.listing.name} ({self.listing.target}): {step}: {found}")

    def place(self, bits: int) -> int:
        """Return the slot of a constant."""
        bits &= 0xFFFFFFFF
        if bits not in self._places:
            self._places[bits] = CONSTANTS + len(self.constants)
            self.constants.append(np.full((1, 1, 1), bits, U32))
        return self._places[bits]

    def words(self, text: str) -> Reader:
        """Read an operand of one word."""
        return self.reader(operand(text), "u")

    def registers(self, text: str) -> Register:
        """Return the registers of an operand."""
        place = operand(text).place
        if not isinstance(place, Register):
            raise DseError(f"found operand {text!r}, expected registers")
        return place

    def slots(self, source: AmdOperand, kind: str) -> tuple[int, int]:
        """Return the slots of an operand's words; the second counts only if it has two."""
        place = source.place
        if isinstance(place, Register):
            return place.slot, place.slot + 1
        assert isinstance(place, ConstantOperand)
        if kind in "jk":
            signed = (place.bits & 0xFFFF ^ 0x8000) - 0x8000
            return self.place(signed if kind == "j" else place.bits & 0xFFFF), 0
        if kind == "D":
            return self.place(place.double), self.place(place.double >> 32)
        if kind in "UIP":
            return self.place(place.wide), self.place(place.bits if kind == "P" else place.wide >> 32)
        if kind == "h" and place.half:
            return self.place(place.half), 0
        return self.place(place.bits), 0

    def reader(
        self, source: AmdOperand, kind: str, step: Instruction | None = None, number: int = 0
    ) -> Reader:
        """Return a function that reads an operand as values of a kind, None if they are unknown."""
        if isinstance(source.place, Symbol):
            assert step is not None
            return self.symbol(source.place, step)
        if (
            step is not None
            and step.modifiers
            and (between_lanes(step) or f"src{number}_sel" in step.modifiers or "op_sel" in step.modifiers)
        ):
            return self._made_reader(source, kind, step, number)
        known = self._readers.get((source, kind))
        if known is None:
            known = self._readers[source, kind] = self._made_reader(source, kind, None, 0)
        return known

    def _made_reader(self, source: AmdOperand, kind: str, step: Instruction | None, number: int) -> Reader:
        slot, high = self.slots(source, kind)
        if kind == "m":
            return lambda machine: machine.mask(slot)
        if kind == "c":
            return lambda machine: machine.condition()
        word = word_of(slot)
        if step is not None and number == 0 and between_lanes(step):
            word = lanes.moved(step, word, self.listing.wave_size)
        elif step is not None and f"src{number}_sel" in step.modifiers:
            word = lanes.selected(step, word, number, source.signed)
        if kind in "UIDP":
            return _modified(_wide_of(word, word_of(high), kind), source)
        if kind in "wsh":
            upper = isinstance(source.place, Register) and source.place.half == "h"
            upper |= step is not None and listed(step, "op_sel", number, 0) == 1
            return _modified(_half_of(word, kind, upper), source)
        if kind in "uk":
            return word
        view = np.int32 if kind in "ij" else np.float32

        def read(machine: MemoryMachine) -> Any:
            value = word(machine)
            return None if value is None else value.view(view)

        return _modified(read, source)

    def symbol(self, symbol: Symbol, step: Instruction) -> Reader:
        """Read the distance of a variable from the program counter, which is 0 where it was read.

        Literals are relative to their own address: after the instructions since then, of 4 bytes, or 8 with
        a literal.
        """
        at, shift = 4, 32 if symbol.part == "hi" else 0
        for before in reversed(self.listing.instructions[: step.index]):
            if before.opcode in ("s_getpc_b64", "s_get_pc_i64"):
                break
            at += 8 if any("@rel32" in text for text in before.operands) else 4
        offset = symbol.offset - at

        def read(machine: MemoryMachine) -> Any:
            if symbol.name not in machine.symbols:
                raise DseError(f"found the variable {symbol.name}, expected one in this file")
            return np.full((1, 1, 1), (machine.symbols[symbol.name] + offset >> shift) & 0xFFFFFFFF, U32)

        return read

    def writer(self, target: AmdOperand, kind: str, step: Instruction) -> Writer:
        """Return a function that writes values of a kind, or None for unknown ones."""
        place = target.place
        if not isinstance(place, Register):
            raise self.error(step, "found no register to write to, expected one")
        slot = place.slot
        if kind in "wsh":
            return self._made_writer(place, kind, step)
        known = self._writers.get((slot, kind))
        if known is None:
            known = self._writers[slot, kind] = self._made_writer(place, kind, step)
        return known

    def _made_writer(self, place: Register, kind: str, step: Instruction) -> Writer:
        slot = place.slot
        if slot == NULL:
            return lambda machine, value: None
        if kind in "mM":

            def write_mask(machine: MemoryMachine, value: Any) -> None:
                machine.write_mask(slot, None if value is None else value & machine.lanes())

            return write_mask
        write = MemoryMachine.write_vector if slot >= V else MemoryMachine.write_scalar
        if kind in "UIDP":

            def write_two(machine: MemoryMachine, value: Any) -> None:
                if value is None:
                    write(machine, slot, None)
                    write(machine, slot + 1, None)
                    return
                bits = value.view(U64)
                words = np.ascontiguousarray(bits).view(U32).reshape(*bits.shape, 2)
                write(machine, slot, words[..., 0].copy())
                write(machine, slot + 1, words[..., 1].copy())

            return write_two
        if kind in "wsh":
            chosen = step.modifiers.get("op_sel", "").strip("[]").split(",")
            upper = place.half == "h" or (len(chosen) == len(step.operands) and chosen[-1] == "1")
            upper |= "_mixhi_" in step.opcode
            keep = bool(place.half) or upper or "_mixlo_" in step.opcode

            def write_half(machine: MemoryMachine, value: Any) -> None:
                if value is None:
                    write(machine, slot, None)
                    return
                bits = value.view(np.uint16).astype(U32) if kind == "h" else value.view(U32) & U32(0xFFFF)
                if keep:
                    old = machine.words(slot)
                    if old is None:
                        old = np.zeros((1, 1, 1), U32)
                    bits = old & U32(0xFFFF) | bits << U32(16) if upper else old & U32(0xFFFF0000) | bits
                write(machine, slot, bits)

            return write_half
        if kind in "WSH":
            return lambda machine, value: write(machine, slot, value and pair_of(value.low, value.high))
        if kind == "u":
            return lambda machine, value: write(machine, slot, value)
        return lambda machine, value: write(machine, slot, None if value is None else value.view(U32))

    def packed(self, source: AmdOperand, kind: str, number: int, step: Instruction) -> Reader:
        """Read two numbers: each from the register, or the half of one, that `op_sel` chooses."""
        low, high = listed(step, "op_sel", number, 0), listed(step, "op_sel_hi", number, 1)
        negative = listed(step, "neg_lo", number, 0), listed(step, "neg_hi", number, 0)
        slots = self.slots(source, kind.lower() if kind != "P" else kind)
        first, second = (
            word_of(slots[at]) if kind == "P" else _half_of(word_of(slots[0]), kind.lower(), bool(at))
            for at in (low, high)
        )

        def read(machine: MemoryMachine) -> Any:
            a, b = first(machine), second(machine)
            if a is None or b is None:
                return None
            a, b = np.broadcast_arrays(*((a.view(np.float32), b.view(np.float32)) if kind == "P" else (a, b)))
            return Pair(-a if negative[0] else a, -b if negative[1] else b)

        return read

    def mixed(self, source: AmdOperand, number: int, step: Instruction) -> Reader:
        """Read a number of single precision, or a half that `op_sel` chooses as such."""
        if not listed(step, "op_sel_hi", number, 0):
            return self.reader(source, "f")
        upper = bool(listed(step, "op_sel", number, 0))
        half = _modified(_half_of(word_of(self.slots(source, "h")[0]), "h", upper), source)

        def read(machine: MemoryMachine) -> Any:
            value = half(machine)
            return None if value is None else value.astype(np.float32)

        return read


class Pair:
    """Two arrays, to which functions are applied separately."""

    __slots__ = ("high", "low")

    def __init__(self, low: np.ndarray, high: np.ndarray) -> None:
        self.low, self.high = low, high

    def view(self, kind: Any) -> np.ndarray:
        """Return both joined to words of 64 bits."""
        return joined(self.low.view(U32), self.high.view(U32)).view(kind)


def word_of(slot: int) -> Reader:
    """Read one word; scalar registers may hold masks."""
    if slot >= V:

        def read(machine: MemoryMachine) -> Any:
            value = machine.r[slot]
            return value if value.__class__ is np.ndarray else machine.known(slot, value)

        return read
    return lambda machine: machine.words(slot)


def _wide_of(low: Reader, high: Reader, kind: str) -> Reader:
    view = _VIEWS.get(kind)

    def read(machine: MemoryMachine) -> Any:
        first = low(machine)
        if first is None:
            return None
        second = high(machine)
        if second is None:
            return None
        value = joined(first, second)
        return value if view is None else value.view(view)

    return read


def _half_of(word: Reader, kind: str, upper: bool) -> Reader:
    def read(machine: MemoryMachine) -> Any:
        value = word(machine)
        if value is None:
            return None
        half = value >> U32(16) if upper else value & U32(0xFFFF)
        if kind == "h":
            return half.astype(np.uint16).view(np.float16)
        return half if kind == "w" else (half.view(np.int32) << 16) >> 16

    return read


def between_lanes(step: Instruction) -> bool:
    """Return whether the first operand comes from other lanes."""
    return any(name.startswith(_MOVED) for name in step.modifiers)


def listed(step: Instruction, name: str, number: int, default: int) -> int:
    """Return a number of a list among the modifiers."""
    listed = step.modifiers.get(name)
    return default if listed is None else int(listed.strip("[]").split(",")[number])


def _modified(read: Reader, source: AmdOperand) -> Reader:
    """Read the absolute or negated value of an operand, by its modifiers."""
    if not (source.negated or source.absolute):
        return read

    def change(machine: MemoryMachine) -> Any:
        value = read(machine)
        if value is None:
            return None
        value = np.abs(value) if source.absolute else value
        return -value if source.negated else value

    return change
