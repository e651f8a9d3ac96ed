"""Changes of registers and scratch in a trip of a loop, and the number of trips with these changes."""

from typing import Any

import numpy as np

from dse.source.amd.execute.contents import MemoryMachine
from dse.source.amd.execute.slots import CONSTANTS, ConstantOperand, Register, V
from dse.source.amd.execute.state import U32
from dse.source.machine.trips import FOR_EVER, INT32, PAIRS, UINT32, signed, trips_of_result, trips_within

I64, U64 = np.int64, np.uint64
NON_LINEAR = "lost"  # a change that is not constant
RANGES = {"u": UINT32, "i": INT32, "w": range(1 << 16), "s": range(-(1 << 15), 1 << 15)}


class TripState:
    """The changes of one trip, from the loop's first instruction on."""

    def __init__(self, machine: MemoryMachine, moving: dict[Any, Any]) -> None:
        self.machine = machine
        self.moving = dict(moving)  # slot, or ("scratch", address) → change in a trip
        self.lanes = machine.lanes()  # of the loop; others do not matter
        self.waves = machine.running.mask
        self.exposed: set[Any] = set()  # slots read before they are written
        self.written: set[Any] = set()
        self.trips = FOR_EVER  # further ones that go the same way
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
        self.trips = min(self.trips, int(np.where(lanes, trips, FOR_EVER).min()))

    def limit_to_range(self, value: np.ndarray, change: Any, within: range) -> None:
        """Limit the proven trips to those in which the value stays in a range."""
        if change is not None:
            self.limit_trips(trips_within(value, change, within))

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

    def _number_of(self, kind: str, place: Any) -> np.ndarray | None:
        """Return the value of an operand as an integer of 64 bits."""
        if kind == "c":
            condition = self.machine.condition()
            return None if condition is None else condition.astype(I64)
        if kind in "mM":
            mask = self.machine.mask(place.slot)
            return None if mask is None else mask.astype(I64)
        if isinstance(place, ConstantOperand):
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
                # if the high word is unknown, the low word of the result may still be known
                return low.astype(I64) if high is None else low.astype(I64) | high.astype(I64) << 32
            value = low
        else:
            return None
        return value.view(np.int32).astype(I64) if kind == "i" else value.astype(I64)

    def _compared(self, kind: str, values: list[Any], changes: list[Any]) -> None:
        """Limit the trips to those with the same result of a test: the sign of the operands' difference."""
        if kind in RANGES:
            for value, change in zip(values, changes, strict=True):
                self.limit_to_range(value, change, RANGES[kind])
        elif kind in "UI":
            for value, change in zip(values, changes, strict=True):
                if change is not None:
                    self.limit_to_range(value & 0xFFFFFFFF, signed(change), UINT32)
                    self.limit_to_range(value, change, PAIRS if kind == "I" else range(PAIRS.stop))
        apart, change = values[0] - values[1], np.asarray(number(changes[0]) - number(changes[1]))
        for test in ("LT", "EQ"):
            self.limit_trips(trips_of_result(test, apart, change))


def number(change: Any) -> Any:
    """Return a change as a number: 0 for no change."""
    return 0 if change is None else change
