"""Changes of registers from one trip of a loop to the next, and the number of trips with the same changes.

After n trips a register holds its value plus n times its change. Registers that change otherwise are erratic.
"""

from collections.abc import Iterable
from copy import copy

import numpy as np

from dse.source.machine.thread_set import Lanes
from dse.source.machine.trips import BITS_32, FOR_EVER, INT32, UINT32, Change, Irregular, TripLimits, signed
from dse.source.nvidia.execute.tiling import Tiling
from dse.source.nvidia.machine.state import Machine
from dse.source.nvidia.sass.operands import RZ, SLOTS, URZ, Operand, P


def plus(a: Change, b: Change) -> Change:
    """Add two changes."""
    return b if a is None else a if b is None else a + b


def times(a: Change, factor: "int | np.ndarray") -> Change:
    """Multiply a change by a constant."""
    return None if a is None else a * factor


def or_zero(change: Change) -> np.ndarray:
    """Return a change as an array: zero if there is none."""
    return np.zeros((1, 1), np.int64) if change is None else change


def slot_of(operand: Operand) -> int:
    """Return the slot of a register; -1 for numbers, constants and zero registers, which do not change."""
    return operand.slot if operand.kind == "register" and operand.slot not in (RZ, URZ) else -1


def changes_since(
    machine: Machine, before: list[np.ndarray], header: int, lanes: Lanes
) -> dict[int, np.ndarray] | None:
    """Return the changes of the slots live at a loop's header; None if predicates are among them."""
    live, changes = machine.bound.live[header], dict[int, np.ndarray]()
    for slot in range(SLOTS):
        old, new = before[slot], machine.r[slot]
        if old is new or not live >> slot & 1:
            continue
        if slot >= P:
            if (lanes.mask & (old != new)).any():
                return None
            continue
        change = (new - old).view(np.int32).astype(np.int64)
        if lanes.total < machine.shape[0] * machine.shape[1]:
            change = np.where(lanes.mask, change, 0)
        if change.any():
            changes[slot] = change
    return changes


class RegisterChanges(TripLimits):
    """The change of every register from trip to trip, at the present point of a followed trip.

    A slot that is neither in `by_slot` nor in `erratic` is the same in every trip.
    """

    def __init__(self, machine: Machine, by_slot: dict[int, np.ndarray]) -> None:
        self.machine = machine
        self.by_slot = by_slot  # int64
        self.erratic: dict[int, tuple[str, np.ndarray]] = {}  # slot → why, in which threads
        self.lanes = machine.sets.of(machine.live_mask)  # that execute the present step
        self.inner: list[RegisterChanges] = []  # of inner loops under examination

    # Trips of an inner loop that are run side by side

    def tiled(self, wide: Machine, tiling: Tiling) -> "RegisterChanges":
        """Return the changes for a machine whose rows are those trips."""
        made = copy(self)
        made.machine, made.inner = wide, []
        made.by_slot = {slot: tiling.of(change) for slot, change in self.by_slot.items()}
        made.erratic = {slot: (why, tiling.of(mask)) for slot, (why, mask) in self.erratic.items()}
        return made

    def same(self, wide: "RegisterChanges", tiling: Tiling, lanes: Lanes, live: int) -> bool:
        """Return whether all those trips leave the changes of live slots as they were."""
        start, mask = self.tiled(wide.machine, tiling), tiling.of(lanes.mask)
        nowhere = "", np.zeros((1, 1), bool)
        for slot in {*start.by_slot, *wide.by_slot, *start.erratic, *wide.erratic}:
            if slot < SLOTS and live >> slot & 1:
                apart = or_zero(start.by_slot.get(slot)) != or_zero(wide.by_slot.get(slot))
                apart = apart | (start.erratic.get(slot, nowhere)[1] != wide.erratic.get(slot, nowhere)[1])
                if (mask & apart).any():
                    return False
        return True

    def take(self, wide: "RegisterChanges", tiling: Tiling) -> None:
        """Take over the results of those trips."""
        self.trips = wide.trips
        self.by_slot = {
            slot: tiling.last(change, self.by_slot.get(slot, change)) for slot, change in wide.by_slot.items()
        }
        self.erratic = {slot: (why, tiling.by_trip(mask)[-1]) for slot, (why, mask) in wide.erratic.items()}

    # Reading

    @property
    def slots(self) -> set[int]:
        """The slots that change, regularly or not."""
        return self.by_slot.keys() | self.erratic.keys() if self.erratic else {*self.by_slot}

    def change(self, operand: Operand) -> Change:
        """Return the change of a 32-bit source, with its sign.

        **Raises:** Irregular if only a part of a changing register is read.
        """
        change = self.by_slot.get(slot_of(operand))
        if change is None:
            return None
        if operand.absolute or (operand.part and operand.part not in ("64", "U32", "S32")):
            raise Irregular("part of a register changes")
        return -change if operand.negate or operand.invert else change

    def pair_change(self, operand: Operand) -> Change:
        """Return the change of a 64-bit source."""
        slot = slot_of(operand)
        if slot < 0:
            return None
        total = self.change_of_slots(slot)
        return times(total, -1) if operand.negate or operand.invert else total

    def change_of_slots(self, slot: int) -> Change:
        """Return the change of the 64 bits in a slot and the next."""
        return plus(self.by_slot.get(slot), times(self.by_slot.get(slot + 1), BITS_32))

    def any_changes(self, slots: Iterable[int]) -> bool:
        """Return whether any of these slots changes."""
        return any(slot in self.by_slot for slot in slots)

    def value(self, operand: Operand, integers: range) -> np.ndarray:
        """Return a 32-bit source in this trip, as one of `INT32` or `UINT32`: int64."""
        if operand.kind == "number":
            raw = np.full((1, 1), int(operand.text, 0) & 0xFFFFFFFF, np.uint32)
        elif operand.kind == "constant":
            raw = self.machine.r[self.machine.bound.slots["constant", (operand.bank, operand.offset)]]
        else:
            raw = self.machine.r[operand.slot]
        raw = np.negative(raw) if operand.negate else ~raw if operand.invert else raw
        return raw.view(np.int32).astype(np.int64) if integers is INT32 else raw.astype(np.int64)

    def why_erratic(self, slots: Iterable[int], lanes: Lanes) -> str:
        """Return why one of these slots is erratic in some of these threads; empty if none is."""
        for slot in slots:
            if slot in self.erratic:
                why, mask = self.erratic[slot]
                if mask is lanes.mask or (mask & lanes.mask).any():
                    return why
        return ""

    def change_inside(self, *operands: Operand) -> bool:
        """Return whether an inner loop changes one of these too."""
        slots = [slot for slot in map(slot_of, operands) if slot >= 0]
        return any(slot in loop.by_slot or slot in loop.erratic for loop in self.inner for slot in slots)

    def differs(self, slot: int, change: Change, lanes: Lanes) -> bool:
        """Return whether a slot has another change in one of these threads."""
        return bool((lanes.mask & (or_zero(change) != or_zero(self.by_slot.get(slot)))).any())

    # Writing

    def set(self, slot: int, change: Change, lanes: Lanes | None = None) -> None:
        """Set the change of a 32-bit destination in these threads, or in those that execute the step."""
        lanes = self.lanes if lanes is None else lanes
        if slot in (RZ, URZ):
            return
        if change is not None:
            change = signed(change)
            change = change if change.any() else None
        if lanes.total != self.machine.live:
            before = self.by_slot.get(slot)
            if before is not None or change is not None:
                change = np.where(lanes.mask, or_zero(change), or_zero(before))
        if change is None:
            self.by_slot.pop(slot, None)
        else:
            self.by_slot[slot] = change

    def set_pair(self, slot: int, change: Change, low: np.ndarray) -> None:
        """Set the change of a 64-bit destination while its low word does not overflow."""
        low_change = high_change = None
        if change is not None and slot not in (RZ, URZ):
            low_change = signed(change)
            high_change = (change - low_change) >> 32
            self.limit(low, low_change, UINT32)
        self.set(slot, low_change)
        self.set(slot + 1, high_change)

    def set_same(self, slots: Iterable[int], lanes: Lanes) -> None:
        """Mark these slots as the same in every trip."""
        for slot in slots:
            self.set(slot, None, lanes)
            self.no_longer_erratic(slot, lanes)

    def set_erratic(self, slots: Iterable[int], lanes: Lanes, why: str) -> None:
        """Mark these slots as erratic."""
        for slot in slots:
            self.set(slot, None, lanes)
            mask = self.erratic[slot][1] | lanes.mask if slot in self.erratic else lanes.mask
            self.erratic[slot] = why, mask

    def no_longer_erratic(self, slot: int, lanes: Lanes) -> None:
        """Unmark a slot that is overwritten in these threads."""
        if slot in self.erratic:
            why, mask = self.erratic[slot]
            left = mask & ~lanes.mask
            if left.any():
                self.erratic[slot] = why, left
            else:
                del self.erratic[slot]

    def limit_trips(self, trips: np.ndarray) -> None:
        """Limit the proven trips to the minimum over lanes."""
        least = int(np.where(self.lanes.mask, trips, FOR_EVER).min())
        self.trips = min(self.trips, max(least, 0))
