"""Actions: a function of the machine for each instruction that computes or accesses memory."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from dse.amd.execute import access, lanes, semantics
from dse.amd.execute.contents import MemoryMachine
from dse.amd.execute.memory_names import memory_access
from dse.amd.execute.opcodes import Opcode, opcode
from dse.amd.execute.slots import (
    CONSTANTS,
    EXEC,
    NULL,
    SCC,
    VCC,
    Constant,
    Operand,
    Register,
    Symbol,
    V,
    operand,
)
from dse.amd.execute.state import U32, NeedsData
from dse.amd.text import Instruction, Listing
from dse.errors import DseError

U64 = np.uint64
Action = Callable[[MemoryMachine], None]
Reader = Callable[[MemoryMachine], Any]

_VIEWS = {"i": np.int32, "f": np.float32, "I": np.int64, "D": np.float64}
_MASK_LOGIC: dict[str, Callable[..., Any]] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "nand": lambda a, b: ~(a & b),
    "nor": lambda a, b: ~(a | b),
    "xnor": lambda a, b: ~(a ^ b),
    "andn2": lambda a, b: a & ~b,
    "orn2": lambda a, b: a | ~b,
    "andn1": lambda a, b: ~a & b,
    "orn1": lambda a, b: ~a | b,
    "not": np.invert,
    "wqm": lambda a: a,
}


class Binder:
    """Makes the actions of a listing's instructions, and gathers the constants that they read."""

    def __init__(self, listing: Listing) -> None:
        self.listing = listing
        self.wide = listing.wave_size == 64
        self.constants: list[np.ndarray] = []  # in places behind those of registers
        self._places: dict[int, int] = {}
        self._readers: dict[tuple[Operand, str], Reader] = {}
        self._writers: dict[tuple[int, str], Callable[[MemoryMachine, Any], None]] = {}

    def error(self, step: Instruction, found: str) -> DseError:
        """An error that names the instruction."""
        return DseError(f"{self.listing.name} ({self.listing.target}): {step}: {found}")

    def check(self, step: Instruction) -> None:
        """Refuse an opcode that is not known.

        **Raises:** DseError if it is not.
        """
        for one in (step, step.second):
            if one is not None and not _is_known(one.opcode):
                raise self.error(step, "unknown opcode, expected one of dse/amd/execute/opcodes.py")

    def actions(self, step: Instruction) -> list[Action]:
        """What to do for an instruction; mostly one thing.

        **Raises:** DseError if the instruction, or a form of it, is not known.
        """
        try:
            if step.second is not None:
                return self._together(step, step.second)
            return self._of_one(step)
        except DseError as problem:
            if str(problem).startswith(self.listing.name):
                raise
            raise self.error(step, str(problem)) from None

    def _together(self, first: Instruction, second: Instruction) -> list[Action]:
        """Two instructions that are issued together: both read before either writes."""
        one, other = self._of_one(first), self._of_one(second)
        if not one or not other:
            return one + other
        written = operand(first.operands[0]).place
        reads = {name for name in second.operands[1:] if name == first.operands[0]}
        if not reads or not isinstance(written, Register):
            return one + other
        slot = written.slot
        if first.operands[0] not in second.operands[1:] or second.operands[0] not in first.operands[1:]:
            return other + one

        def both(machine: MemoryMachine) -> None:
            before = machine.r[slot]
            for action in one:
                action(machine)
            after = machine.r[slot]
            machine.r[slot] = before
            for action in other:
                action(machine)
            machine.r[slot] = after

        return [both]

    def _of_one(self, step: Instruction) -> list[Action]:
        row = opcode(step.opcode)
        if row is None:
            accessed = memory_access(step.opcode)
            if accessed is not None:
                return [access.bind(self, step, accessed)]
            return [lanes.LANE_MOVES[step.opcode](self, step)]
        if row.special:
            return [self._special(step, row)]
        if not row.form:
            return []
        return [self._compute(step, row)]

    # Operands

    def place(self, bits: int) -> int:
        """Find the slot of a constant."""
        bits &= 0xFFFFFFFF
        if bits not in self._places:
            self._places[bits] = CONSTANTS + len(self.constants)
            self.constants.append(np.full((1, 1, 1), bits, U32))
        return self._places[bits]

    def words(self, text: str) -> Reader:
        """Read an operand of one word."""
        return self._reader(operand(text), "u")

    def address(self, text: str) -> Reader:
        """Read an operand of two words."""
        return self._reader(operand(text), "U")

    def registers(self, text: str) -> Register:
        """The registers that an operand names."""
        place = operand(text).place
        if not isinstance(place, Register):
            raise DseError(f"found operand {text!r}, expected registers")
        return place

    def _slots(self, given: Operand, kind: str) -> tuple[int, int]:
        """The slots of the words of an operand; the second only counts if it has two."""
        place = given.place
        if isinstance(place, Register):
            return place.slot, place.slot + 1
        assert isinstance(place, Constant)
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

    def _reader(self, given: Operand, kind: str, step: Instruction | None = None, number: int = 0) -> Reader:
        """A function that reads an operand as values of a kind; it gives None where they are not known."""
        if isinstance(given.place, Symbol):
            assert step is not None
            return self._symbol(given.place, step)
        if (
            step is not None
            and step.modifiers
            and (_between_lanes(step) or f"src{number}_sel" in step.modifiers)
        ):
            return self._made_reader(given, kind, step, number)
        known = self._readers.get((given, kind))
        if known is None:
            known = self._readers[given, kind] = self._made_reader(given, kind, None, 0)
        return known

    def _made_reader(self, given: Operand, kind: str, step: Instruction | None, number: int) -> Reader:
        slot, high = self._slots(given, kind)
        if kind == "m":
            return lambda machine: machine.mask(slot)
        if kind == "c":
            return lambda machine: machine.condition()
        word = _word_of(slot)
        if step is not None and number == 0 and _between_lanes(step):
            word = lanes.moved(step, word, self.listing.wave_size)
        elif step is not None and f"src{number}_sel" in step.modifiers:
            word = lanes.selected(step, word, number)
        if kind in "UIDP":
            return _modified(_wide_of(word, _word_of(high), kind), given)
        if kind in "wsh":
            return _modified(_half_of(word, kind, _takes_upper(given)), given)
        if kind in "uk":
            return word
        view = np.int32 if kind in "ij" else np.float32

        def read(machine: MemoryMachine) -> Any:
            value = word(machine)
            return None if value is None else value.view(view)

        return _modified(read, given)

    def _symbol(self, symbol: Symbol, step: Instruction) -> Reader:
        """Read the distance to a variable from the program counter, which is 0 where it was read.

        What is written counts from the literal itself: behind the instructions of 4 bytes, or 8 with a
        literal, since then.
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

    # What is computed

    def _compute(self, step: Instruction, row: Opcode) -> Action:
        """Read operands, compute, write."""
        results, _, sources = row.form.partition("=")
        given = [operand(text) for text in step.operands]
        explicit = sum(kind in "uifUIDwshPmM" for kind in results)
        wanted = explicit + sum(kind not in "cd" for kind in sources)
        if len(given) != wanted:
            if len(given) == wanted - 1 and sources.endswith("m"):
                given.append(Operand(Register(VCC, 1)))
            else:
                raise self.error(step, f"found {len(given)} operands, expected {wanted}")
        targets = given[:explicit]
        reading = iter(given[explicit:])
        readers: list[Reader] = []
        for kind in sources:
            if kind == "d":
                readers.append(self._reader(targets[0], results[0], None))
            elif kind == "c":
                readers.append(lambda machine: machine.condition())
            else:
                one = next(reading)
                if kind == "P":
                    readers.append(self._packed(one, len(readers), step))
                else:
                    readers.append(self._reader(one, kind, step, len(readers)))
        writers = [self._writer(target, kind, step) for target, kind in zip(targets, results, strict=False)]
        writers += [lambda machine, value: machine.write_scalar(SCC, value)] * results.count("c")
        function = row.function
        finish = _finisher(step, results[0])
        if function is None:

            def forget(machine: MemoryMachine) -> None:
                for write in writers:
                    write(machine, None)

            return forget
        if "clamp" in step.modifiers and results[0] in "uU":
            function = _CLAMPED.get(function)
            if function is None:
                raise self.error(step, "unknown form, expected no clamp but of a sum or a difference")
        elif finish is not None:
            function = _then(function, finish, len(writers) > 1)
        action = (
            _one_result(function, readers, writers[0])
            if len(writers) == 1
            else _results(function, readers, writers)
        )
        if step.opcode in _LOW_FROM_LOW:
            lows = [
                self._reader(one, "u", step) if kind in "UI" else read
                for one, kind, read in zip(given[explicit:], sources, readers, strict=True)
            ]
            action = _or_low_word(action, function, readers, lows, writers, targets[0].place)
        if not step.modifiers:
            return action
        kept = lanes.without_source(step, self.listing.wave_size) if _between_lanes(step) else None
        return action if kept is None else _without_lanes(action, kept)

    def _writer(self, target: Operand, kind: str, step: Instruction) -> Callable[[MemoryMachine, Any], None]:
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

    def _made_writer(
        self, place: Register, kind: str, step: Instruction
    ) -> Callable[[MemoryMachine, Any], None]:
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
                write(machine, slot, bits.astype(U32))
                write(machine, slot + 1, (bits >> U64(32)).astype(U32))

            return write_two
        if kind in "wsh":
            upper = place.half == "h" or _sel_of(step, -1)
            keep = bool(place.half) or upper

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
        if kind == "u":
            return lambda machine, value: write(machine, slot, value)
        return lambda machine, value: write(machine, slot, None if value is None else value.view(U32))

    # Two numbers in two registers

    def _packed(self, given: Operand, number: int, step: Instruction) -> Reader:
        """Read two numbers of single precision, each from the register that `op_sel` chooses."""
        low = _listed(step, "op_sel", number, 0)
        high = _listed(step, "op_sel_hi", number, 1)
        negative = _listed(step, "neg_lo", number, 0), _listed(step, "neg_hi", number, 0)
        slots = self._slots(given, "P")
        first, second = _word_of(slots[low]), _word_of(slots[high])

        def read(machine: MemoryMachine) -> Any:
            a, b = first(machine), second(machine)
            if a is None or b is None:
                return None
            a, b = np.broadcast_arrays(a.view(np.float32), b.view(np.float32))
            return _Pair(-a if negative[0] else a, -b if negative[1] else b)

        return read

    # What is no function of words

    def _special(self, step: Instruction, row: Opcode) -> Action:
        if row.special == "matrix":
            target = self.registers(step.operands[0])

            def multiply(machine: MemoryMachine) -> None:
                for slot in range(target.slot, target.slot + target.count):
                    machine.write_vector(slot, None)

            return multiply
        if row.special == "cmpx":
            return self._compare_into_exec(step, row)
        if row.special == "pk_mov":
            return self._packed_move(step)
        if row.special in _LOGIC:
            return getattr(self, f"_{row.special}")(step)
        return lanes.SPECIAL[row.special](self, step)

    def _compare_into_exec(self, step: Instruction, row: Opcode) -> Action:
        """Compare, and let only those lanes go on for which it holds."""
        kinds = row.form.partition("=")[2]
        given = [operand(text) for text in step.operands]
        target = given.pop(0).place if len(given) > len(kinds) else None
        readers = [self._reader(one, kind, step) for one, kind in zip(given, kinds, strict=True)]
        function = row.function
        assert function is not None

        def compare(machine: MemoryMachine) -> None:
            values = [read(machine) for read in readers]
            if any(value is None for value in values):
                raise NeedsData(step, "mask of lanes")
            mask = function(*values) & machine.lanes()
            if isinstance(target, Register) and target.slot != EXEC:
                machine.write_mask(target.slot, mask)
            machine.write_mask(EXEC, mask)

        return compare

    def _packed_move(self, step: Instruction) -> Action:
        target = self.registers(step.operands[0]).slot
        slots = [self._slots(operand(text), "P") for text in step.operands[1:]]
        low = _word_of(slots[0][_listed(step, "op_sel", 0, 0)])
        high = _word_of(slots[1][_listed(step, "op_sel", 1, 0)])

        def move(machine: MemoryMachine) -> None:
            first, second = low(machine), high(machine)
            machine.write_vector(target, first)
            machine.write_vector(target + 1, second)

        return move

    def _is_mask(self, step: Instruction) -> bool:
        """Whether an instruction's operands are as long as a mask of lanes."""
        return step.opcode.endswith("64" if self.wide else "32")

    def _move(self, step: Instruction) -> Action:
        target, source = self.registers(step.operands[0]).slot, operand(step.operands[1])
        of_mask = self._is_mask(step)
        if isinstance(source.place, Symbol):
            read = self._symbol(source.place, step)
            return lambda machine: machine.write_scalar(target, read(machine))
        slot, high = self._slots(source, "U" if step.opcode.endswith("64") else "u")
        two = step.opcode.endswith("64")

        def move(machine: MemoryMachine) -> None:
            value = machine.r[slot]
            if target == EXEC or (
                of_mask and value.__class__ is np.ndarray and value.dtype == bool and slot != SCC
            ):
                mask = machine.mask(slot) if slot < CONSTANTS or not two else _mask_of(machine, slot, high)
                if target == EXEC and mask is None:
                    raise NeedsData(step, "mask of lanes")
                machine.write_mask(target, mask)
                return
            first = machine.words(slot)
            second = machine.words(high) if two else None
            machine.write_scalar(target, first)
            if two:
                machine.write_scalar(target + 1, second)

        return move

    def _select(self, step: Instruction) -> Action:
        target = self.registers(step.operands[0]).slot
        two = step.opcode.endswith("64")
        sources = [self._slots(operand(text), "U" if two else "u") for text in step.operands[1:]]

        def select(machine: MemoryMachine) -> None:
            condition = machine.condition()
            if target == EXEC:
                if condition is None:
                    raise NeedsData(step, "mask of lanes")
                first, second = (_mask_of(machine, low, high) for low, high in sources)
                if first is None or second is None:
                    raise NeedsData(step, "mask of lanes")
                machine.write_mask(target, np.where(condition, first, second))
                return
            for word in range(2 if two else 1):
                a, b = (machine.words(slots[word]) for slots in sources)
                chosen = None
                if condition is not None and a is not None and b is not None:
                    chosen = np.where(condition, a, b)
                machine.write_scalar(target + word, chosen)

        return select

    def _logic(self, step: Instruction) -> Action:
        """Logic of scalars, by bits: of masks of lanes where it is one."""
        function = _MASK_LOGIC[
            step.opcode[2:].rpartition("_b")[0].replace("_not1", "n2").replace("_not0", "n1")
        ]
        target = self.registers(step.operands[0]).slot
        two = step.opcode.endswith("64")
        sources = [self._slots(operand(text), "U" if two else "u") for text in step.operands[1:]]
        of_mask = self._is_mask(step)

        def compute(machine: MemoryMachine) -> None:
            values = [machine.r[low] for low, _ in sources]
            if target == EXEC or (
                of_mask and any(v.__class__ is np.ndarray and v.dtype == bool for v in values)
            ):
                masks = [_mask_of(machine, low, high) for low, high in sources]
                known = all(mask is not None for mask in masks)
                if not known and target == EXEC:
                    raise NeedsData(step, "mask of lanes")
                mask = function(*masks) if known else None
                machine.write_mask(target, mask)
                machine.set_condition_to_any(mask)
                return
            some: Any = False
            results = []
            for word in range(2 if two else 1):
                words = [machine.words(slots[word]) for slots in sources]
                result = None if any(value is None for value in words) else function(*words)
                results.append(result)
                some = None if result is None or some is None else some | (result != 0)
            for word, result in enumerate(results):
                machine.write_scalar(target + word, result)
            machine.write_scalar(SCC, some)

        return compute

    def _saveexec(self, step: Instruction) -> Action:
        """Change the mask of lanes, and keep it as it was; of `wrexec` as it then is."""
        keeps_new = "_wrexec" in step.opcode
        name = step.opcode[2:].partition("_wrexec" if keeps_new else "_saveexec")[0]
        function = _MASK_LOGIC[name.replace("_not1", "n2").replace("_not0", "n1")]
        target = self.registers(step.operands[0]).slot
        low, high = self._slots(operand(step.operands[1]), "U" if self.wide else "u")

        def change(machine: MemoryMachine) -> None:
            before, other = machine.mask(EXEC), _mask_of(machine, low, high)
            if other is None or before is None:
                raise NeedsData(step, "mask of lanes")
            after = function(other, before)
            machine.write_mask(target, after if keeps_new else before)
            machine.write_mask(EXEC, after)
            machine.set_condition_to_any(after)

        return change

    _wrexec = _saveexec


@cache
def _is_known(name: str) -> bool:
    return opcode(name) is not None or memory_access(name) is not None or name in lanes.LANE_MOVES


# The low words of their results need no more than the low words of their operands: the compiler may leave
# anything in the others.
_LOW_FROM_LOW = (
    "v_mad_u64_u32", "v_mad_i64_i32", "v_mad_co_u64_u32", "v_mad_co_i64_i32", "v_lshlrev_b64",
    "v_lshl_add_u64", "v_add_u64", "v_sub_u64", "s_lshl_b64", "s_add_nc_u64", "s_sub_nc_u64", "s_mul_u64",
)  # fmt: skip
_CLAMPED: dict[Any, Callable[..., Any]] = {np.add: semantics.clamped_add, np.subtract: semantics.clamped_sub}
_LOGIC = ("move", "select", "logic", "saveexec", "wrexec")
_MOVED = ("quad_perm", "row_", "wave_", "dpp8")


class _Pair:
    """Two arrays on which a function of numbers acts one by one."""

    __slots__ = ("high", "low")

    def __init__(self, low: np.ndarray, high: np.ndarray) -> None:
        self.low, self.high = low, high

    def view(self, kind: Any) -> np.ndarray:
        """The two as words of 64 bits."""
        low, high = np.broadcast_arrays(self.low, self.high)
        return low.view(U32).astype(kind) | high.view(U32).astype(kind) << U64(32)


def _word_of(slot: int) -> Reader:
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
        value = first.astype(U64) | second.astype(U64) << U64(32)
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


def _takes_upper(given: Operand) -> bool:
    if isinstance(given.place, Register) and given.place.half:
        return given.place.half == "h"
    return False


def _sel_of(step: Instruction, number: int) -> bool:
    listed = step.modifiers.get("op_sel", "")
    return bool(listed) and listed.strip("[]").split(",")[number] == "1" and len(listed.split(",")) > 2


def _between_lanes(step: Instruction) -> bool:
    return any(name.startswith(_MOVED) for name in step.modifiers)


def _without_lanes(action: Action, kept: np.ndarray) -> Action:
    """The same, but for some lanes, which stay as they are."""

    def act(machine: MemoryMachine) -> None:
        before = machine.active
        machine.active = machine.lanes() & ~kept
        action(machine)
        machine.active = before

    return act


def _listed(step: Instruction, name: str, number: int, default: int) -> int:
    """A number of a list among the modifiers."""
    listed = step.modifiers.get(name)
    return default if listed is None else int(listed.strip("[]").split(",")[number])


def _modified(read: Reader, given: Operand) -> Reader:
    """Take the absolute value, or the negative one."""
    if not (given.negated or given.absolute):
        return read

    def change(machine: MemoryMachine) -> Any:
        value = read(machine)
        if value is None:
            return None
        value = np.abs(value) if given.absolute else value
        return -value if given.negated else value

    return change


def _mask_of(machine: MemoryMachine, low: int, high: int) -> np.ndarray | None:
    """A mask of lanes that may be a constant."""
    if low < CONSTANTS:
        return machine.mask(low)
    first = machine.r[low]
    alike = machine.shape[2] == 32 or machine.r[high].flat[0] == first.flat[0]
    if alike and first.flat[0] in (0, 0xFFFFFFFF):
        return first != 0
    words = [first] if machine.shape[2] == 32 else [first, machine.r[high]]
    bits = [(word >> np.arange(32, dtype=U32) & U32(1)).astype(bool) for word in words]
    return np.concatenate(bits, axis=-1)


def _finisher(step: Instruction, kind: str) -> Callable[[Any], Any] | None:
    """What output modifiers do to a result."""
    if kind not in "fDh" or not step.modifiers:
        return None
    factor = {"2": 2, "4": 4}.get(step.modifiers.get("mul", ""), 1)
    factor = 0.5 if step.modifiers.get("div") == "2" else factor
    clamp = "clamp" in step.modifiers
    if factor == 1 and not clamp:
        return None

    def finish(value: Any) -> Any:
        value = value * value.dtype.type(factor)
        return np.clip(value, 0, 1) if clamp else value

    return finish


def _then(function: Callable[..., Any], finish: Callable[[Any], Any], several: bool) -> Callable[..., Any]:
    if not several:
        return lambda *values: finish(function(*values))

    def both(*values: Any) -> Any:
        first, *rest = function(*values)
        return (finish(first), *rest)

    return both


def _one_result(function: Callable[..., Any], readers: list[Reader], write: Any) -> Action:
    if len(readers) == 1:
        (read,) = readers

        def of_one(machine: MemoryMachine) -> None:
            value = read(machine)
            write(machine, None if value is None else function(value))

        return of_one
    if len(readers) == 2:
        first, second = readers

        def of_two(machine: MemoryMachine) -> None:
            a = first(machine)
            if a is None:
                write(machine, None)
                return
            b = second(machine)
            write(machine, None if b is None else _applied(function, a, b))

        return of_two

    def of_many(machine: MemoryMachine) -> None:
        values = []
        for read in readers:
            value = read(machine)
            if value is None:
                write(machine, None)
                return
            values.append(value)
        write(machine, _applied(function, *values))

    return of_many


def _applied(function: Callable[..., Any], *values: Any) -> Any:
    if values and values[0].__class__ is _Pair:
        return _Pair(function(*(v.low for v in values)), function(*(v.high for v in values)))
    return function(*values)


def _or_low_word(
    action: Action,
    function: Callable[..., Any],
    readers: list[Reader],
    lows: list[Reader],
    writers: list[Any],
    target: Any,
) -> Action:
    """The same; but where only high words are not known, the low word of the result is."""

    def act(machine: MemoryMachine) -> None:
        values = [read(machine) for read in readers]
        if all(value is not None for value in values):
            action(machine)
            return
        words = [read(machine) for read in lows]
        if any(word is None for word in words):
            action(machine)
            return
        result = function(
            *(
                word if value is not None and low is read else word.astype(U64)
                for word, value, low, read in zip(words, values, lows, readers, strict=True)
            )
        )
        result = result[0] if isinstance(result, tuple) else result
        for write in writers:
            write(machine, None)
        write_word = MemoryMachine.write_vector if target.slot >= V else MemoryMachine.write_scalar
        write_word(machine, target.slot, result.view(U64).astype(U32))

    return act


def _results(function: Callable[..., Any], readers: list[Reader], writers: list[Any]) -> Action:
    def compute(machine: MemoryMachine) -> None:
        values = []
        for read in readers:
            value = read(machine)
            if value is None:
                for write in writers:
                    write(machine, None)
                return
            values.append(value)
        for write, result in zip(writers, function(*values), strict=True):
            write(machine, result)

    return compute
