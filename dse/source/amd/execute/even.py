"""Changes of registers and scratch in a trip of a loop, and the number of trips with these changes.

Results of some instructions have constant changes if their operands do.
"""

from typing import Any

import numpy as np

from dse.source.amd.execute.contents import MemoryMachine
from dse.source.amd.execute.opcodes import OpcodeRow, opcode
from dse.source.amd.execute.operands import U64, KindOfOperand, OperandReaders
from dse.source.amd.execute.slots import CONSTANTS, AmdOperand, ConstantOperand, Register, Symbol, V, operand
from dse.source.amd.execute.state import U32
from dse.source.amd.text import Instruction
from dse.source.machine.trips import FOR_EVER, INT32, PAIRS, UINT32, TripLimits, signed, trips_of_result

I64 = np.int64
NON_LINEAR = "lost"  # a change that is not constant
RANGES = {
    "u": UINT32, "i": INT32, "w": range(1 << 16), "s": range(-(1 << 15), 1 << 15), "U": range(PAIRS.stop),
    "I": PAIRS,
}  # fmt: skip

_EVEN = {*map(opcode, (
    "v_mov_b32", "v_mov_b64", "v_add_u32", "v_add_i32", "v_sub_u32", "v_sub_i32", "v_subrev_u32",
    "v_add3_u32", "v_lshl_add_u32", "v_add_lshl_u32", "v_lshlrev_b32", "v_lshlrev_b64", "v_lshl_add_u64",
    "v_mul_lo_u32", "v_mul_lo_i32", "v_cndmask_b32", "v_mad_u64_u32", "v_mad_i64_i32", "v_mul_u32_u24",
    "v_mul_i32_i24", "v_mad_u32_u24", "v_mad_i32_i24", "v_accvgpr_read_b32", "v_accvgpr_write_b32",
    "v_accvgpr_mov_b32", "v_add_u64", "v_add_co_u32", "v_sub_co_u32", "v_subrev_co_u32", "v_addc_co_u32",
    "v_subb_co_u32", "v_subbrev_co_u32", "s_add_u32", "s_addc_u32", "s_sub_u32", "s_subb_u32", "s_add_i32",
    "s_sub_i32", "s_addk_i32", "s_mulk_i32", "s_mul_i32", "s_lshl_b32", "s_lshl_b64", "s_add_nc_u64",
    "s_sub_nc_u64", "s_lshl1_add_u32", "s_lshl2_add_u32", "s_lshl3_add_u32", "s_lshl4_add_u32",
    "s_movk_i32", "v_max_u32", "v_min_u32", "v_max_i32", "v_min_i32",
))}  # fmt: skip
_PRODUCTS = ("mul", "mad")
_CARRIES = ("_co_", "s_add_u32", "s_addc_u32", "s_sub_u32", "s_subb_u32", "_co_ci_")


class LinearRules(TripLimits):
    """The changes of one trip, from the loop's first instruction on, and those of results from operands'."""

    def __init__(self, machine: MemoryMachine, binder: OperandReaders, moving: dict[Any, Any]) -> None:
        self.machine, self.binder = machine, binder
        self.moving = dict(moving)  # slot, or ("scratch", address) → change in a trip
        self.lanes = machine.lanes()  # of the loop; others do not matter
        self.waves = machine.running.mask
        self.exposed: set[Any] = set()  # slots read before they are written
        self.written: set[Any] = set()
        self.strides: list[int | None] = []  # of each access; None: they differ among lanes
        self._full: dict[int, tuple[Any, bool]] = {}

    def read(self, slot: Any) -> Any:
        """Return the change of a slot: None if it does not change."""
        if slot not in self.written and (not isinstance(slot, int) or slot < CONSTANTS):
            self.exposed.add(slot)
        return self.moving.get(slot)

    def write(self, slot: Any, change: Any) -> None:
        """Set the change of a slot that is written."""
        whole = not isinstance(slot, int) or slot < V or self._covers()
        if not whole:
            before = self.read(slot)
            if change is not None or before is not None:
                lost = change is NON_LINEAR or before is NON_LINEAR
                active = self.machine.lanes()
                change = NON_LINEAR if lost else np.where(active, number(change), number(before))
        self.written.add(slot)
        if change is None:
            self.moving.pop(slot, None)
        else:
            self.moving[slot] = change

    def _covers(self) -> bool:
        """Return whether all lanes of the loop are active."""
        active = self.machine.active
        if active is None:
            return True
        known = self._full.get(id(active))
        if known is None or known[0] is not active:
            known = self._full[id(active)] = (active, not (self.lanes & ~active).any())
        return known[1]

    def limit_trips(self, trips: np.ndarray) -> None:
        """Limit the proven trips to the minimum over lanes."""
        scalar = trips.shape[-1] == 1  # or equal in all lanes
        lanes = self.waves if scalar else self.machine.lanes()
        alike = tuple(axis for axis, size in enumerate(trips.shape) if size < lanes.shape[axis])
        lanes = lanes.any(axis=alike, keepdims=True) if alike else lanes
        self.trips = min(self.trips, max(int(np.where(lanes, trips, FOR_EVER).min()), 0))

    def _words(self, kind: str) -> int:
        return 2 if kind in "UIDP" or (kind in "mM" and self.machine.shape[2] == 64) else 1

    def _change(self, kind: str, place: Any) -> Any:
        """Return the change of an operand."""
        if not isinstance(place, Register):
            return None
        if kind in "mM":
            return NON_LINEAR if self.read(place.slot) is not None else None
        low = self.read(place.slot)
        if kind not in "UIDP":
            return low
        high = self.read(place.slot + 1)
        if isinstance(low, str) or isinstance(high, str):
            return NON_LINEAR
        if low is None and high is None:
            return None
        return number(high) * (1 << 32) + number(low)

    def _number_of(self, kind: str, source: AmdOperand) -> np.ndarray | None:
        """Return the value of an operand as an integer of 64 bits."""
        if isinstance(source.place, Symbol):
            return None
        value = self.binder.reader(source, kind)(self.machine)
        if value is None and kind in "UI" and isinstance(source.place, Register):
            value = self.machine.words(source.place.slot)  # the low word of the result may still be known
        if value is None:
            return None
        return value.view(I64) if value.dtype.itemsize == 8 else value.astype(I64)

    def _compared(self, kind: str, values: list[Any], changes: list[Any]) -> None:
        """Limit the trips to those with the same result of a test: the sign of the operands' difference."""
        left, right = zip(values, changes, strict=True)
        for value, change in (left, right) if kind in "UI" else ():
            self.limit(value & 0xFFFFFFFF, None if change is None else signed(change), UINT32)
        for test in ("LT", "EQ"):
            self.keep_order(test, left, right, RANGES[kind])

    def _evenly(
        self,
        step: Instruction,
        row: OpcodeRow,
        results: str,
        sources: list[KindOfOperand],
        changes: list[Any],
    ) -> list[Any]:
        """Return the changes of results; NON_LINEAR unless they are known to be linear in the trip."""
        lost = [NON_LINEAR] * len(results)
        name = step.opcode
        floats = any(kind in "fDhP" or source.negated or source.absolute for kind, source in sources)
        if floats and not name.startswith("v_mov"):
            return lost
        values: list[Any] = [self._number_of(kind, place) for kind, place in sources]
        if any(value is None for value in values):  # the result is unknown too
            return [None] * len(results)
        if results in ("M", "c") and len(sources) == 2 and not name.startswith("s_bitcmp"):
            kind = sources[0][0]
            self._compared(kind, values, changes)
            return [None]
        if name in ("v_or_b32", "v_and_b32", "s_or_b32", "s_and_b32"):
            return [self._bits(step), *[NON_LINEAR] * (len(results) - 1)]
        if name in ("v_ashrrev_i32", "s_ashr_i32"):
            value, by = (1, 0) if name.startswith("v") else (0, 1)
            if changes[by] is None and bool((values[by] == 31).all()):  # only the sign
                self._compared("i", [values[value], np.zeros((1, 1, 1), I64)], [changes[value], None])
                return [None] * len(results)
        if name in ("v_lshrrev_b32", "s_lshr_b32", "v_ashrrev_i32", "s_ashr_i32"):
            return self._shifted_right(name, values, changes, len(results))
        if name == "v_lshl_or_b32" and changes[2] is not None and changes[0] is None and changes[1] is None:
            placed = (values[0] << (values[1] & 31)) & 0xFFFFFFFF
            lowest = _lowest_bit(changes[2])
            return [changes[2]] if bool((placed < lowest).all()) else lost
        if row not in _EVEN:
            return lost
        if any(part in name for part in _PRODUCTS) and changes[0] is not None and changes[1] is not None:
            return lost
        if "lshl" in name and self._shift_moves(name, changes):
            return lost
        if "24" in name:
            for value, change in zip(values[:2], changes[:2], strict=True):
                within = range(1 << 24) if "u24" in name else range(-(1 << 23), 1 << 23)
                self.limit(value, change, within)
        if "min_" in name or "max_" in name:
            self._compared(sources[0][0], values, changes)
        if any(kind in "UI" for kind, _ in sources) or results[0] in "UI":
            return self._wide(row, results, sources, values, changes)
        carries = any(part in step.opcode for part in _CARRIES)
        if carries:
            self._carry(name, values, changes)
        before, after = _twice(row, sources, values, changes)
        change = (after.view(U32) - before.view(U32)).view(np.int32).astype(I64)
        rest = [None if carries else NON_LINEAR] * (len(results) - 1)
        return [change if change.any() else None, *rest]

    def _bits(self, step: Instruction) -> Any:
        """Return the change of `and`, `or` of a moving word with a fixed one, if their bits do not mix."""
        name = step.opcode.split("_")[1]
        if name not in ("and", "or") or len(step.operands) < 3:
            return NON_LINEAR
        places = [operand(text).place for text in step.operands[1:]]
        changes: list[Any] = [
            self.read(place.slot) if isinstance(place, Register) else None for place in places
        ]
        if sum(change is not None for change in changes) != 1 or NON_LINEAR in [
            c for c in changes if isinstance(c, str)
        ]:
            return NON_LINEAR
        moving = 0 if changes[0] is not None else 1
        other = places[1 - moving]
        value = self._value(other)
        if value is None:
            return NON_LINEAR
        change = changes[moving]
        lowest = _lowest_bit(change)
        if name == "or":
            return change if bool((value.astype(I64) < lowest).all()) else NON_LINEAR
        if bool((value.astype(I64) < lowest).all()):
            return None  # the bits kept do not move
        kept = ~value.astype(I64) & 0xFFFFFFFF
        return change if bool((kept < lowest).all()) else NON_LINEAR

    def _shift_moves(self, name: str, changes: list[Any]) -> bool:
        """Return whether the distance of a shift changes."""
        at = 0 if "lshlrev" in name else 2 if "add_lshl" in name else 1
        return not name.startswith(("s_lshl1", "s_lshl2", "s_lshl3", "s_lshl4")) and changes[at] is not None

    def _shifted_right(self, name: str, values: list[Any], changes: list[Any], results: int) -> list[Any]:
        value, by = (1, 0) if name.startswith("v") else (0, 1)
        if changes[by] is not None:
            return [NON_LINEAR] * results
        step = np.left_shift(1, values[by] & 31)
        if bool((changes[value] % step != 0).any()):
            return [NON_LINEAR] * results
        self.limit(values[value], changes[value], RANGES["i" if "ashr" in name else "u"])
        return [changes[value] // step, *[NON_LINEAR] * (results - 1)]

    def _wide(
        self, row: OpcodeRow, results: str, sources: list[KindOfOperand],
        values: list[Any], changes: list[Any],
    ) -> list[Any]:  # fmt: skip
        """Return the changes of results of 64 bits, while their low words do not overflow."""
        for (kind, _), value, change in zip(sources, values, changes, strict=True):
            if change is None:
                continue
            if kind in "UI":
                self.limit(value & 0xFFFFFFFF, signed(change), UINT32)
            elif kind in RANGES:
                self.limit(value, change, RANGES[kind])
        if results[0] not in "UI":
            return [NON_LINEAR] * len(results)
        before, after = (result.view(I64) for result in _twice(row, sources, values, changes))
        change = after - before
        low = signed(change)
        high = (change - low) >> 32
        self.limit(before & 0xFFFFFFFF, low, UINT32)
        halves = (low if low.any() else None, high if high.any() else None)
        return [
            halves if any(half is not None for half in halves) else None,
            *[NON_LINEAR] * (len(results) - 1),
        ]

    def _carry(self, name: str, values: list[Any], changes: list[Any]) -> None:
        """Limit the trips to those with the same carry of a sum, or borrow of a difference."""
        for value, change in zip(values[:2], changes[:2], strict=True):
            self.limit(value & 0xFFFFFFFF, change, UINT32)
        a, b = values[0] & 0xFFFFFFFF, values[1] & 0xFFFFFFFF
        da, db = number(changes[0]), number(changes[1])
        carry = values[2] if len(values) > 2 else 0
        if "sub" in name:
            sign = -1 if "rev" in name else 1
            apart, moved = sign * (a - b) - carry, sign * (da - db)
        else:
            apart, moved = a + b + carry - (1 << 32), da + db
        self.limit_trips(trips_of_result("LT", apart, np.asarray(moved)))

    def _value(self, place: Any) -> np.ndarray | None:
        if isinstance(place, ConstantOperand):
            return np.full((1, 1, 1), place.bits, U32)
        return self.machine.words(place.slot) if isinstance(place, Register) else None


def number(change: Any) -> Any:
    """Return a change as a number: 0 for no change."""
    return 0 if change is None else change


def _lowest_bit(change: np.ndarray) -> np.ndarray:
    """Return the lowest moving bit."""
    return np.where(change == 0, np.int64(FOR_EVER), change & -change)


def _twice(row: OpcodeRow, sources: list[KindOfOperand], values: list[Any], changes: list[Any]) -> list[Any]:
    """Return an instruction's first result in this trip and in the next."""
    function, results = row.function, []
    assert function is not None
    for trip in (0, 1):
        moved = [value + trip * number(change) for value, change in zip(values, changes, strict=True)]
        result = function(*(_typed(kind, value) for (kind, _), value in zip(sources, moved, strict=True)))
        results.append(result[0] if isinstance(result, tuple) else result)
    return results


def _typed(kind: str, value: Any) -> Any:
    """Convert a value for functions of the table."""
    if kind in "mMc":
        return value != 0
    if kind == "U":
        return value.astype(I64).view(U64)
    if kind == "I":
        return value
    bits = (value & 0xFFFFFFFF).astype(U32)
    return bits.view(np.int32) if kind in "ij" else bits
