"""How registers change from one trip of a loop to the next, carried through the instructions of one trip.

A register that is `moving` changes by the same in every trip. What an instruction makes of it is proven: it
moves on evenly again, or a test of it comes out the same for so many trips more, or it is `LOST`.
"""

from typing import Any

import numpy as np

from dse.amd.execute.actions import Binder
from dse.amd.execute.contents import MemoryMachine
from dse.amd.execute.memory_names import memory_access
from dse.amd.execute.opcodes import Opcode, opcode
from dse.amd.execute.slots import CONSTANTS, EXEC, SCC, VCC, Constant, Register, V, operand
from dse.amd.text import Instruction

FOR_EVER = 1 << 40
LOST = "lost"  # a change that is not even

I64, U64, U32 = np.int64, np.uint64, np.uint32
_RANGES = {"u": (0, 1 << 32), "i": (-(1 << 31), 1 << 31), "w": (0, 1 << 16), "s": (-(1 << 15), 1 << 15)}
_EVEN = (
    "v_mov_b32", "v_mov_b64", "v_add_u32", "v_add_i32", "v_sub_u32", "v_sub_i32", "v_subrev_u32",
    "v_add3_u32", "v_lshl_add_u32", "v_add_lshl_u32", "v_lshlrev_b32", "v_lshlrev_b64", "v_lshl_add_u64",
    "v_mul_lo_u32", "v_mul_lo_i32", "v_cndmask_b32", "v_mad_u64_u32", "v_mad_i64_i32", "v_mul_u32_u24",
    "v_mul_i32_i24", "v_mad_u32_u24", "v_mad_i32_i24", "v_accvgpr_read_b32", "v_accvgpr_write_b32",
    "v_accvgpr_mov_b32", "v_add_u64", "v_add_co_u32", "v_sub_co_u32", "v_subrev_co_u32", "v_addc_co_u32",
    "v_subb_co_u32", "v_subbrev_co_u32", "s_add_u32", "s_addc_u32", "s_sub_u32", "s_subb_u32", "s_add_i32",
    "s_sub_i32", "s_addk_i32", "s_mulk_i32", "s_mul_i32", "s_lshl_b32", "s_lshl_b64", "s_add_nc_u64",
    "s_sub_nc_u64", "s_lshl1_add_u32", "s_lshl2_add_u32", "s_lshl3_add_u32", "s_lshl4_add_u32",
    "s_movk_i32", "v_max_u32", "v_min_u32", "v_max_i32", "v_min_i32",
)  # fmt: skip
_PRODUCTS = ("mul", "mad")
_SHIFTS = ("lshl", "ashr", "lshr")
_CARRIES = ("_co_", "s_add_u32", "s_addc_u32", "s_sub_u32", "s_subb_u32", "_co_ci_")


class Irregular(Exception):
    """A loop whose next trips are not known."""


class Changes:
    """The changes of one trip, from the loop's first instruction on."""

    def __init__(self, machine: MemoryMachine, binder: Binder, moving: dict[Any, Any]) -> None:
        self.machine, self.binder = machine, binder
        self.moving = dict(moving)  # by slot, or ("scratch", address): what it changes by in a trip
        self.lanes = machine.lanes()  # of the loop; others do not matter
        self.waves = machine.running.mask
        self.exposed: set[Any] = set()  # slots that are read before they are written
        self.written: set[Any] = set()
        self.trips = FOR_EVER  # more that go the same way
        self.strides: list[int | None] = []  # of each access; None: lanes do not move on together
        self._full: dict[int, tuple[Any, bool]] = {}

    # Registers

    def read(self, slot: Any) -> Any:
        """The change of a slot: None if it does not change."""
        if slot not in self.written and (not isinstance(slot, int) or slot < CONSTANTS):
            self.exposed.add(slot)
        return self.moving.get(slot)

    def write(self, slot: Any, change: Any) -> None:
        """Note what a slot changes by, now that it is written."""
        whole = not isinstance(slot, int) or slot < V or self._covers()
        if not whole:
            before = self.read(slot)
            if change is not None or before is not None:
                lost = change is LOST or before is LOST
                active = self.machine.lanes()
                change = LOST if lost else np.where(active, _number(change), _number(before))
        self.written.add(slot)
        if change is None:
            self.moving.pop(slot, None)
        else:
            self.moving[slot] = change

    def _covers(self) -> bool:
        """Whether all lanes of the loop execute."""
        active = self.machine.active
        if active is None:
            return True
        known = self._full.get(id(active))
        if known is None or known[0] is not active:
            known = self._full[id(active)] = (active, not (self.lanes & ~active).any())
        return known[1]

    def bound(self, trips: np.ndarray | int, where: np.ndarray | None = None) -> None:
        """So many trips more, at most."""
        if isinstance(trips, np.ndarray):
            scalar = trips.shape[-1] == 1  # or alike in all lanes
            lanes = where if where is not None else self.waves if scalar else self.machine.lanes()
            shape = np.broadcast_shapes(trips.shape, lanes.shape)
            chosen = np.broadcast_to(trips, shape)[np.broadcast_to(lanes, shape)]
            trips = int(chosen.min(initial=FOR_EVER))
        self.trips = min(self.trips, trips)

    def stay_within(self, value: np.ndarray, change: Any, low: int, high: int) -> None:
        """A value has to stay in a range."""
        if change is None:
            return
        room = np.where(
            change > 0, (high - 1 - value) // np.maximum(change, 1), (value - low) // np.maximum(-change, 1)
        )
        self.bound(np.where(change == 0, FOR_EVER, room))

    # Instructions

    def follow(self, step: Instruction) -> list[tuple[Any, Any]]:
        """What an instruction, which is about to be executed, lets its results change by: by slot."""
        if step.second is None:
            return self._of_one(step)
        return self._of_one(step) + self._of_one(step.second)

    def _of_one(self, step: Instruction) -> list[tuple[Any, Any]]:
        row = opcode(step.opcode)
        if row is None:
            if memory_access(step.opcode) is None:
                return self._plain(step)
            return []  # see `access`
        if row.special:
            return self._special(step, row)
        if not row.form:
            return []
        return self._computed(step, row)

    def _slots(self, step: Instruction) -> tuple[list[int], list[int]]:
        """(written, read) slots, as many as the names of registers stand for."""
        places = [operand(text).place for text in step.operands if text != "off"]
        registers = [place for place in places if isinstance(place, Register)]
        if not registers:
            return [], []
        first = registers[0] if isinstance(places[0], Register) else None
        written = [] if first is None else list(range(first.slot, first.slot + first.count))
        read = [slot for one in registers[1:] for slot in range(one.slot, one.slot + one.count)]
        return written, read

    def _plain(self, step: Instruction) -> list[tuple[Any, Any]]:
        """What is even only if nothing moves."""
        written, read = self._slots(step)
        changes = [self.read(slot) for slot in read]
        moves = any(change is not None for change in changes)
        return [(slot, LOST if moves else None) for slot in written]

    def _special(self, step: Instruction, row: Opcode) -> list[tuple[Any, Any]]:
        written, read = self._slots(step)
        if row.special == "cmpx":
            return [*self._computed(step, row, into=EXEC)]
        if row.special in ("saveexec", "wrexec", "logic"):
            read = [*read, EXEC] if row.special != "logic" else read
            changes = [self.read(slot) for slot in read]
            if row.special != "logic" and any(change is not None for change in changes):
                raise Irregular("the mask of its lanes changes")
            result = LOST if any(change is not None for change in changes) else None
            if result is LOST and len(written) == 1:
                result = self._bits(step, row)
            if result is LOST and EXEC in written:
                raise Irregular("the mask of its lanes changes")
            return [*((slot, result) for slot in written), (SCC, LOST if result is not None else None)]
        if row.special == "move":
            source = operand(step.operands[1]).place
            if not isinstance(source, Register):
                return [(slot, None) for slot in written]
            changes = [self.read(source.slot + word) for word in range(len(written))]
            if EXEC in written and any(change is not None for change in changes):
                raise Irregular("the mask of its lanes changes")
            return list(zip(written, changes, strict=True))
        if row.special == "select":
            return self._selected(step, written)
        if row.special == "readfirstlane":
            change = self.read(read[0])
            if change is not None and change is not LOST:
                one = _uniform(change, self.machine.lanes())
                change = LOST if one is None else np.full((1, 1, 1), one, I64)
            return [(written[0], change)]
        if row.special == "writelane":
            changes = [self.read(slot) for slot in [*read, written[0]]]
            moves = any(change is not None for change in changes)
            return [(written[0], LOST if moves else None)]
        if row.special == "swap":
            return [(read[0], self.read(written[0])), (written[0], self.read(read[0]))]
        if row.special == "pk_mov":
            return self._plain(step)
        return self._plain(step)

    def _selected(self, step: Instruction, written: list[int]) -> list[tuple[Any, Any]]:
        condition = self.machine.condition()
        if self.read(SCC) is not None:
            return [(slot, LOST) for slot in written]
        results: list[tuple[Any, Any]] = []
        for word, slot in enumerate(written):
            pair = []
            for text in step.operands[1:]:
                place = operand(text).place
                pair.append(self.read(place.slot + word) if isinstance(place, Register) else None)
            lost = LOST in [change for change in pair if isinstance(change, str)]
            if pair[0] is None and pair[1] is None:
                results.append((slot, None))
            elif lost or condition is None:
                results.append((slot, LOST))
            else:
                results.append((slot, np.where(condition, _number(pair[0]), _number(pair[1]))))
        return results

    def _bits(self, step: Instruction, row: Opcode) -> Any:
        """Logic of a moving word with a fixed one: even where other bits move than those of the fixed one."""
        del row
        name = step.opcode.split("_")[1]
        if name not in ("and", "or") or len(step.operands) < 3:
            return LOST
        places = [operand(text).place for text in step.operands[1:]]
        changes: list[Any] = [
            self.read(place.slot) if isinstance(place, Register) else None for place in places
        ]
        if sum(change is not None for change in changes) != 1 or LOST in [
            c for c in changes if isinstance(c, str)
        ]:
            return LOST
        moving = 0 if changes[0] is not None else 1
        other = places[1 - moving]
        value = self._value(other)
        if value is None:
            return LOST
        change = changes[moving]
        lowest = _lowest_bit(change)
        if name == "or":
            return change if bool((value.astype(I64) < lowest).all()) else LOST
        if bool((value.astype(I64) < lowest).all()):
            return None  # the bits that are kept do not move
        kept = ~value.astype(I64) & 0xFFFFFFFF
        return change if bool((kept < lowest).all()) else LOST

    def _value(self, place: Any) -> np.ndarray | None:
        if isinstance(place, Constant):
            return np.full((1, 1, 1), place.bits, U32)
        return self.machine.words(place.slot) if isinstance(place, Register) else None

    # Rows with a form

    def _computed(self, step: Instruction, row: Opcode, into: int = -1) -> list[tuple[Any, Any]]:
        results, _, kinds = row.form.partition("=")
        given = [operand(text) for text in step.operands]
        explicit = sum(kind != "c" for kind in results)
        if into >= 0 and len(given) == len(kinds):
            targets: list[Any] = []
        else:
            targets, given = given[:explicit], given[explicit:]
        written: list[tuple[int, str]] = []
        for target, kind in zip(targets, results, strict=False):
            place = target.place
            assert isinstance(place, Register)
            written.append((place.slot, kind))
            if place.half or kind in "wsh":
                self.read(place.slot)  # the other half stays
        if into >= 0:
            written.append((into, "M"))
        sources: list[tuple[str, Any]] = []
        reading = iter(given)
        for kind in kinds:
            if kind == "d":
                sources.append((results[0], targets[0].place))
            elif kind == "c":
                sources.append(("c", Register(SCC, 1)))
            else:
                one = next(reading, None)
                sources.append((kind, Register(VCC, 1) if one is None else one.place))
        changes = [self._change(kind, place) for kind, place in sources]
        outputs: list[tuple[Any, Any]] = []
        if all(change is None for change in changes):
            for slot, kind in written:
                outputs += [(slot + word, None) for word in range(self._words(kind))]
            return outputs + [(SCC, None)] * results.count("c")
        lost = any(isinstance(change, str) for change in changes)
        outcome = [LOST] * len(results)
        if not lost and not step.modifiers:
            outcome = self._evenly(step, row, results, sources, changes)
        for (slot, kind), change in zip(written, outcome, strict=False):
            if slot == EXEC and change is not None:
                raise Irregular("the mask of its lanes changes")
            outputs += self._spread(slot, kind, change)
        if "c" in results:
            outputs.append((SCC, outcome[-1]))
        return outputs

    def _words(self, kind: str) -> int:
        return 2 if kind in "UIDP" or (kind in "mM" and self.machine.shape[2] == 64) else 1

    def _spread(self, slot: int, kind: str, change: Any) -> list[tuple[Any, Any]]:
        if kind not in "UIDP" or not isinstance(change, tuple):
            return [(slot + word, change) for word in range(self._words(kind))]
        return [(slot, change[0]), (slot + 1, change[1])]

    def _change(self, kind: str, place: Any) -> Any:
        """The change of an operand."""
        if not isinstance(place, Register):
            return None
        if kind in "mM":
            return LOST if self.read(place.slot) is not None else None
        low = self.read(place.slot)
        if kind not in "UIDP":
            return low
        high = self.read(place.slot + 1)
        if isinstance(low, str) or isinstance(high, str):
            return LOST
        if low is None and high is None:
            return None
        return _number(high) * (1 << 32) + _number(low)

    def _number_of(self, kind: str, place: Any) -> np.ndarray | None:
        """The value of an operand as an integer of 64 bits."""
        if kind == "c":
            condition = self.machine.condition()
            return None if condition is None else condition.astype(I64)
        if kind in "mM":
            mask = self.machine.mask(place.slot)
            return None if mask is None else mask.astype(I64)
        if isinstance(place, Constant):
            if kind in "jk":
                return np.full(
                    (1, 1, 1),
                    (place.bits & 0xFFFF ^ 0x8000) - 0x8000 if kind == "j" else place.bits & 0xFFFF,
                    I64,
                )
            if kind in "UI":
                return np.array(place.wide, U64).view(I64).reshape(1, 1, 1)
            value = np.full((1, 1, 1), place.bits, U32)
        elif isinstance(place, Register):
            low = self.machine.words(place.slot)
            if low is None:
                return None
            if kind in "UI":
                high = self.machine.words(place.slot + 1)
                # where the high word is not known, the low one of the result may be nevertheless
                return low.astype(I64) if high is None else low.astype(I64) | high.astype(I64) << 32
            value = low
        else:
            return None
        return value.view(np.int32).astype(I64) if kind == "i" else value.astype(I64)

    def _evenly(
        self, step: Instruction, row: Opcode, results: str, sources: list[tuple[str, Any]], changes: list[Any]
    ) -> list[Any]:
        """What results change by; LOST where that is not known to be even."""
        lost = [LOST] * len(results)
        name = _renamed(step.opcode)
        if any(kind in "fDhP" for kind, _ in sources) and not name.startswith("v_mov"):
            return lost
        values: list[Any] = [self._number_of(kind, place) for kind, place in sources]
        if any(value is None for value in values):  # the result is not known either
            return [None] * len(results)
        if results in ("M", "c") and len(sources) == 2:
            kind = sources[0][0]
            self._compared(kind, values, changes)
            return [None]
        if name in ("v_or_b32", "v_and_b32", "s_or_b32", "s_and_b32"):
            return [self._bits(step, row), *[LOST] * (len(results) - 1)]
        if name in ("v_ashrrev_i32", "s_ashr_i32"):
            value, by = (1, 0) if name.startswith("v") else (0, 1)
            if changes[by] is None and bool((values[by] == 31).all()):  # the sign alone
                self._compared("i", [values[value], np.zeros((1, 1, 1), I64)], [changes[value], None])
                return [None] * len(results)
        if name in ("v_lshrrev_b32", "s_lshr_b32", "v_ashrrev_i32", "s_ashr_i32"):
            return self._shifted_right(name, values, changes, len(results))
        if name == "v_lshl_or_b32" and changes[2] is not None and changes[0] is None and changes[1] is None:
            placed = (values[0] << (values[1] & 31)) & 0xFFFFFFFF
            lowest = _lowest_bit(changes[2])
            return [changes[2]] if bool((placed < lowest).all()) else lost
        if name not in _EVEN:
            return lost
        if any(part in name for part in _PRODUCTS) and changes[0] is not None and changes[1] is not None:
            return lost
        if "lshl" in name and self._shift_moves(name, changes):
            return lost
        if "24" in name:
            for value, change in zip(values[:2], changes[:2], strict=True):
                limit = (0, 1 << 24) if "u24" in name else (-(1 << 23), 1 << 23)
                self.stay_within(value, change, *limit)
        if "min_" in name or "max_" in name:
            self._compared(sources[0][0], values, changes)
        if any(kind in "UI" for kind, _ in sources) or results[0] in "UI":
            return self._wide(step, row, results, sources, values, changes)
        carries = any(part in step.opcode for part in _CARRIES)
        if carries:
            self._carry(name, values, changes)
        function = row.function
        assert function is not None
        before = _first(
            function(*(_typed(kind, value) for (kind, _), value in zip(sources, values, strict=True)))
        )
        after = _first(
            function(
                *(
                    _typed(kind, value if change is None else value + change)
                    for (kind, _), value, change in zip(sources, values, changes, strict=True)
                )
            )
        )
        change = (after.view(U32) - before.view(U32)).view(np.int32).astype(I64)
        rest = [None if carries else LOST] * (len(results) - 1)
        return [change if change.any() else None, *rest]

    def _shift_moves(self, name: str, changes: list[Any]) -> bool:
        """Whether the distance of a shift changes."""
        at = 0 if "lshlrev" in name else 2 if "add_lshl" in name else 1
        return not name.startswith(("s_lshl1", "s_lshl2", "s_lshl3", "s_lshl4")) and changes[at] is not None

    def _shifted_right(self, name: str, values: list[Any], changes: list[Any], results: int) -> list[Any]:
        value, by = (1, 0) if name.startswith("v") else (0, 1)
        if changes[by] is not None:
            return [LOST] * results
        step = np.left_shift(1, values[by] & 31)
        if bool((changes[value] % step != 0).any()):
            return [LOST] * results
        self.stay_within(values[value], changes[value], *_RANGES["i" if "ashr" in name else "u"])
        return [changes[value] // step, *[LOST] * (results - 1)]

    def _wide(
        self, step: Instruction, row: Opcode, results: str, sources: list[tuple[str, Any]], values: list[Any],
        changes: list[Any],
    ) -> list[Any]:  # fmt: skip
        """Results of 64 bits: their low words must not run over."""
        for (kind, _), value, change in zip(sources, values, changes, strict=True):
            if change is None:
                continue
            if kind in "UI":
                self.stay_within(value & 0xFFFFFFFF, _low_word(change), 0, 1 << 32)
            elif kind in _RANGES:
                self.stay_within(value, change, *_RANGES[kind])
        function = row.function
        assert function is not None
        first, second = (
            _first(
                function(
                    *(
                        _typed(kind, value if change is None else value + moved * change)
                        for (kind, _), value, change in zip(sources, values, changes, strict=True)
                    )
                )
            )
            for moved in (0, 1)
        )
        if results[0] not in "UI":
            return [LOST] * len(results)
        change = second.view(I64) - first.view(I64)
        low = _low_word(change)
        high = (change - low) >> 32
        self.stay_within(first.view(I64) & 0xFFFFFFFF, low, 0, 1 << 32)
        halves = (low if low.any() else None, high if high.any() else None)
        del step
        return [halves if any(half is not None for half in halves) else None, *[LOST] * (len(results) - 1)]

    def _compared(self, kind: str, values: list[Any], changes: list[Any]) -> None:
        """A test has to come out the same: the difference of its operands keeps its sign."""
        if kind in _RANGES:
            for value, change in zip(values, changes, strict=True):
                self.stay_within(value, change, *_RANGES[kind])
        elif kind in "UI":
            for value, change in zip(values, changes, strict=True):
                if change is not None:
                    self.stay_within(value & 0xFFFFFFFF, _low_word(change), 0, 1 << 32)
        apart = values[0] - values[1]
        change = _number(changes[0]) - _number(changes[1])
        self._keeps_sign(apart, change)

    def _keeps_sign(self, value: np.ndarray, change: Any) -> None:
        towards = ((value > 0) & (change < 0)) | ((value < 0) & (change > 0))
        until = (np.abs(value) + np.abs(change) - 1) // np.maximum(np.abs(change), 1) - 1
        trips = np.where(change == 0, FOR_EVER, np.where(value == 0, 0, np.where(towards, until, FOR_EVER)))
        self.bound(trips)

    def _carry(self, name: str, values: list[Any], changes: list[Any]) -> None:
        """The carry of a sum, or the borrow of a difference, has to stay."""
        for value, change in zip(values[:2], changes[:2], strict=True):
            self.stay_within(value & 0xFFFFFFFF, change, 0, 1 << 32)
        a, b = values[0] & 0xFFFFFFFF, values[1] & 0xFFFFFFFF
        da, db = _number(changes[0]), _number(changes[1])
        carry = values[2] if len(values) > 2 else 0
        if "sub" in name:
            sign = -1 if "rev" in name else 1
            apart, moved = sign * (a - b) - carry, sign * (da - db)
        else:
            apart, moved = a + b + carry - (1 << 32), da + db
        self._keeps_sign(2 * apart + 1, 2 * moved)

    # Memory

    def access(self, step: Instruction, performed: range, known: bool) -> list[tuple[Any, Any]]:
        """What an access that was performed moves by, and lets its results change by.

        `performed` are the numbers of its records; `known` says whether it loaded words that are known.
        """
        accessed = memory_access(step.opcode)
        assert accessed is not None
        machine = self.machine
        bases = self._address_slots(step, accessed.space)
        total: Any = None
        for slot, pair in bases:
            change = self._change("U" if pair else "u", Register(slot, 2 if pair else 1))
            if isinstance(change, str):
                total = LOST
                break
            if change is None:
                continue
            low = machine.words(slot)
            if low is not None:
                self.stay_within(low.astype(I64), _low_word(change), 0, 1 << 32)
            total = change if total is None else total + change
        for number in performed:
            lanes = machine.accesses[number].lanes
            stride = 0 if total is None else None if isinstance(total, str) else _uniform(total, lanes)
            self.strides.append(stride)
        moves = total is not None
        loads = accessed.kind == "load" or accessed.returns or "RETURN" in str(step.modifiers)
        if accessed.space == "scratch":
            return self._scratch(step, accessed, moves)
        targets, data = self.data_slots(step)
        for slot in data:
            self.read(slot)
        if not loads:
            follows = machine.follow > 0 and accessed.space == "lds"
            if follows or (machine.stated and accessed.space in ("vmem", "flat") and known):
                raise Irregular("it changes memory whose contents matter")
            return []
        return [(slot, LOST if known and (moves or accessed.space == "lds") else None) for slot in targets]

    def _address_slots(self, step: Instruction, space: str) -> list[tuple[int, bool]]:
        given = list(step.operands)
        if space == "smem":
            texts = given[1:]
        elif step.opcode.startswith("buffer"):
            texts = [given[1]] if "offen" in step.modifiers else []
        elif space == "lds":
            texts = [given[1]] if _loads(step) else [given[0]]
        elif _loads(step):
            texts = given[1:]
        elif "atomic" in step.opcode and len(given) == 4:
            texts = [given[1], given[3]]
        else:
            texts = [given[0], *given[2:]]
        found = []
        for text in texts:
            place = operand(text).place if text != "off" else None
            if isinstance(place, Register):
                found.append((place.slot, place.count == 2))
        return found

    def data_slots(self, step: Instruction) -> tuple[list[int], list[int]]:
        """Return (slots that are loaded into, slots that are stored)"""
        registers = [operand(text).place for text in step.operands if text != "off"]
        of = [list(range(one.slot, one.slot + one.count)) for one in registers if isinstance(one, Register)]
        if _loads(step):
            return of[0], []
        if "atomic" in step.opcode and len(step.operands) == 4:
            return of[0], of[2]
        return [], [slot for slots in of[1:] for slot in slots]

    def _scratch(self, step: Instruction, accessed: Any, moves: bool) -> list[tuple[Any, Any]]:
        """Scratch is followed as registers are, by address."""
        address = self.machine.accesses[-1].base + self.machine.accesses[-1].offset
        load = accessed.kind == "load"
        text = step.operands[0] if load or step.opcode.startswith("buffer") else step.operands[1]
        place = operand(text).place
        assert isinstance(place, Register)
        slots = list(range(place.slot, place.slot + accessed.words))
        if address.size != 1 or moves:
            if load:
                known = any(self.machine.r[slot] is not None for slot in slots)
                return [(slot, LOST if known else None) for slot in slots]
            for slot in slots:
                self.read(slot)
            raise Irregular("it stores to places in scratch that differ")
        at = int(address.flat[0])
        if load:
            return [(slot, self.read(("scratch", at + 4 * word & ~3))) for word, slot in enumerate(slots)]
        return [(("scratch", at + 4 * word & ~3), self.read(slot)) for word, slot in enumerate(slots)]


def _loads(step: Instruction) -> bool:
    return "_load" in step.opcode or "_read" in step.opcode


def _renamed(name: str) -> str:
    """An opcode's name as older targets have it."""
    row = opcode(name)
    if row is not None:
        for known in _EVEN_ROWS:
            if _EVEN_ROWS[known] is row and name != known:
                return known
    return name


_EVEN_ROWS = {name: row for name in _EVEN if (row := opcode(name)) is not None}


def _number(change: Any) -> Any:
    return 0 if change is None else change


def _lowest_bit(change: np.ndarray) -> np.ndarray:
    """The lowest bit that moves."""
    return np.where(change == 0, np.int64(FOR_EVER), change & -change)


def _first(result: Any) -> Any:
    return result[0] if isinstance(result, tuple) else result


def _low_word(change: Any) -> Any:
    """The low word of a change of 64 bits, signed."""
    return ((change & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000


def _typed(kind: str, value: Any) -> Any:
    """A value as functions of the table take it."""
    if kind in "mMc":
        return value != 0
    if kind == "U":
        return value.astype(I64).view(U64)
    if kind == "I":
        return value
    bits = (value & 0xFFFFFFFF).astype(U32)
    return bits.view(np.int32) if kind in "ij" else bits


def _uniform(change: Any, lanes: np.ndarray) -> int | None:
    """The one change that all lanes have; None if they have several."""
    shape = np.broadcast_shapes(change.shape, lanes.shape)
    chosen = np.broadcast_to(change, shape)[np.broadcast_to(lanes, shape)]
    if not chosen.size:
        return 0
    return int(chosen[0]) if (chosen == chosen[0]).all() else None
