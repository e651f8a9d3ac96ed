"""Changes of registers from one trip of a loop to the next, propagated through the instructions of a trip.

A register that is `moving` changes by the same in every trip. It is proven for each instruction whether its
result is moving too, whether a test has the same result for a number of trips, or else it is `NON_LINEAR`.
Where results move, it is executed with the registers of the next trip too: the difference is their change.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from dse.source.amd.execute.access import operands_of, stores_unread
from dse.source.amd.execute.contents import PerformedAccess
from dse.source.amd.execute.even import EVEN, EVERYWHERE, I64, NON_LINEAR, WIDE, LinearRules, number
from dse.source.amd.execute.memory_names import MemoryAccess, memory_access
from dse.source.amd.execute.opcodes import OpcodeRow, opcode
from dse.source.amd.execute.operands import between_lanes, by_kind
from dse.source.amd.execute.results import Action
from dse.source.amd.execute.slots import (
    EXEC,
    NULL,
    SCC,
    ConstantOperand,
    Register,
    V,
    operand,
    registers_of,
    slots_of,
)
from dse.source.amd.execute.state import MaskedWords
from dse.source.amd.text import Instruction
from dse.source.machine.memory import regions_of
from dse.source.machine.trips import UINT32, Irregular, signed, uniform

Results = list[tuple[Any, Any]]  # (slot, change)


class ChangeRules(LinearRules):
    """The changes of one trip, followed through its instructions."""

    own_lds = False  # whether each has an LDS of its own, as blocks have

    def why_uneven(self, changed: dict[Any, Any]) -> str:
        """Return, after the trip, why the next one may differ; empty if it cannot.

        What the trip reads must have changed in it as in the one before, and change so in the next one.
        """
        for slot in self.exposed:
            if not (self.alike(slot, self.went_in.get(slot)) and self.alike(slot, changed.get(slot))):
                return f"what is in {_named(slot)} does not change evenly"
        return ""

    def since(self, before: dict[Any, Any]) -> dict[Any, Any]:
        """Return the changes of registers and words of scratch, by slot."""
        now, changes = self.machine.held(), dict[Any, Any]()
        for slot in {*before, *now} - {NULL}:
            old, new = before.get(slot), now.get(slot)
            if old is not new and (change := _change_between(old, new, self.everyone(slot))) is not None:
                changes[slot] = change
        return changes

    def alike(self, slot: Any, change: Any) -> bool:
        """Return whether a slot has this change, too."""
        moving = self.moving.get(slot)
        if isinstance(moving, str) or isinstance(change, str):
            return False
        if moving is None and change is None:
            return True
        return not ((number(moving) - number(change) & 0xFFFFFFFF != 0) & self.everyone(slot)).any()

    def follow(self, step: Instruction, action: Action) -> Iterator[None]:
        """Follow the changes of an instruction's results, which is executed at the `yield`.

        **Raises:** Irregular if the next trips may go another way.
        """
        machine, first, accessed = self.machine, len(self.machine.accesses), memory_access(step.opcode)
        if accessed is not None:
            total = self._address(step, operands_of(step, accessed)[2])
            stored = self._stored(step, accessed, total is not None)
            yield
            results = self._accessed(step, accessed, first, total, stored)
        else:
            results, after = self._computed(step, action)
            yield
            # moves between lanes through the LDS, without address
            self.strides += [0] * (len(machine.accesses) - first)
            results = [
                (slot, self._apart(slot, after[slot], change) if change is EVEN or change is WIDE else change)
                for slot, change in results
            ]
        for slot, change in results:
            self.write(slot, change)

    def _computed(self, step: Instruction, action: Action) -> tuple[Results, list[Any]]:
        """Return the changes of what an instruction computes, and, if need be, the next trip's registers."""
        steps, after = [step] if step.second is None else [step, step.second], list[Any]()
        results = [result for half in steps for result in self._results(half)]
        if any(slot == EXEC and change is not None for slot, change in results):
            raise Irregular("the mask of its lanes changes")
        if any(change is EVEN or change is WIDE for _, change in results):
            after = self._in_next_trip([slot for half in steps for slot in slots_of(half.operands)], action)
        return results, after

    def _in_next_trip(self, slots: list[int], action: Action) -> list[Any]:
        """Return the registers after an action in the next trip; these slots are read."""
        machine, here = self.machine, self.machine.r
        machine.r = here[:]
        try:
            for slot in slots:
                machine.r[slot] = moved(here[slot], self.moving.get(slot), 1)
            action(machine)
            return machine.r
        finally:
            machine.r = here

    def _apart(self, slot: int, after: Any, kind: str) -> Any:
        """Return the change of a computed slot, whose contents in the next trip are `after`."""
        change = _change_between(self.machine.r[slot], after, EVERYWHERE)
        low = self.machine.words(slot) if kind is WIDE and isinstance(change, np.ndarray) else None
        if low is not None:
            self.limit(low, change, UINT32)
        return change

    def _results(self, step: Instruction) -> Results:
        """Return how the results of an instruction change, before it is executed."""
        row = opcode(step.opcode)
        if row is None:
            return self._plain(step)
        if row.special and row.special != "cmpx":
            return self._special(step, row)
        return self._of_form(step, row) if row.form else []

    def _any_moves(self, slots: list[int]) -> bool:
        """Return whether any of these slots changes, all of which are read."""
        return bool([slot for slot in slots if self.read(slot) is not None])

    def _plain(self, step: Instruction) -> Results:
        """Return changes of results: none if no source changes, else unknown."""
        change = NON_LINEAR if self._any_moves(slots_of(step.operands[1:])) else None
        return [(slot, change) for slot in slots_of(step.operands[:1])]

    def _special(self, step: Instruction, row: OpcodeRow) -> Results:
        written, read = slots_of(step.operands[:1]), slots_of(step.operands[1:])
        if row.special in ("saveexec", "wrexec", "logic"):
            if row.special != "logic":
                written, read = [*written, EXEC], [*read, EXEC]
            moves = self._any_moves(read)
            result = None if not moves else NON_LINEAR if len(written) > 1 else self._bits(step)
            known = result is None or (self.limits_bits and not isinstance(result, str))
            return [*((slot, result) for slot in written), (SCC, None if known else NON_LINEAR)]
        if row.special in ("readlane", "writelane"):
            return self._of_lane(step, written[0])
        if row.special in ("swap", "row_swap", "movreld"):
            read = [*read, *written]
            written = written if row.special == "movreld" else read
        elif row.special not in ("move", "pk_mov", "select", "readfirstlane"):
            return self._plain(step)
        lost = row.special == "select" and self.read(SCC) is not None
        moves = self._any_moves(read) or lost
        even = not lost and row.special not in ("row_swap", "movreld")
        return [(slot, None if not moves else EVEN if even else NON_LINEAR) for slot in written]

    def _of_lane(self, step: Instruction, target: int) -> Results:
        """Follow the move of a word from or to one lane of a vector register, which may be inactive."""
        source, place = (operand(text).place for text in step.operands[1:])
        if not isinstance(place, ConstantOperand):
            return [(target, NON_LINEAR if self._any_moves(slots_of(step.operands)) else None)]
        number, lanes = place.bits % self.machine.shape[2], np.arange(self.machine.shape[2])
        if step.opcode.startswith("v_readlane"):
            assert isinstance(source, Register)
            change = self.read(source.slot, lanes == number)
            if isinstance(change, np.ndarray):
                change = change[..., number : number + 1] if change.shape[-1] > 1 else change
                change = change if change.any() else None
            return [(target, change)]
        change, before = self._change("u", source), self.moving.get(target)
        if isinstance(source, Register) and self.machine.is_unknown(source.slot):
            change = None
        self.read(target)
        if change is not None or before is not None:
            change = self._merged((lanes == number) & self.machine.running.mask, change, before)
        self._set(target, change)
        return []

    def _of_form(self, step: Instruction, row: OpcodeRow) -> Results:
        results = row.form.partition("=")[0]
        targets, sources = by_kind(step.operands, row)
        written, kept = list[tuple[int, str]](), False
        for kind, target in targets:
            place = target.place
            assert isinstance(place, Register)
            written.append((place.slot, kind))
            half = place.half or kind in "wsh"
            if half:
                self.read(place.slot)  # the other half is kept, or some lanes are
            kept |= bool(half or between_lanes(step)) and place.slot in self.moving
        if row.special == "cmpx":
            written.append((EXEC, "M"))
        changes = [self._change(kind, source.place) for kind, source in sources]
        if not kept and all(change is None for change in changes):
            outcome = [None] * len(results)
        elif kept or step.modifiers or not all(self._has_rule(step, sources[0][0], x) for x in changes):
            outcome = [NON_LINEAR] * len(results)
        else:
            outcome = self._evenly(step, row, sources, changes)
        outputs = [
            (slot + word, EVEN if word and change is WIDE else change)
            for (slot, kind), change in zip(written, outcome * 2, strict=False)
            for word in range(self._words(kind))
        ]
        return [*outputs, (SCC, outcome[-1])] if "c" in results else outputs

    # Memory

    def _stored(self, step: Instruction, accessed: MemoryAccess, moves: bool) -> bool:
        """Return whether any word that is stored is known.

        **Raises:** Irregular if contents of memory that are followed may change.
        """
        data = slots_of(operands_of(step, accessed)[1])
        known = any(self.machine.words(slot) is not None for slot in data)
        if accessed.space == "scratch" or stores_unread(self.binder, step, accessed):
            return known
        moves = self._any_moves(data) or moves
        if accessed.space == "lds" or accessed.to_lds:
            changes = moves or not self.own_lds
        else:
            changes = self.machine.stated and accessed.space != "smem" and known
        if changes and (accessed.kind != "load" or accessed.to_lds):
            raise Irregular("it changes memory whose contents matter")
        return known

    def _accessed(
        self, step: Instruction, accessed: MemoryAccess, first: int, total: Any, stored: bool
    ) -> Results:
        """Record the strides of accesses, moved by `total` in a trip; return the changes of their results."""
        targets, data, _ = operands_of(step, accessed)
        lost, performed = isinstance(total, str), self.machine.accesses[first:]
        self.strides += [
            0 if total is None else None if lost else uniform(total, access.lanes) for access in performed
        ]
        if stores_unread(self.binder, step, accessed):
            return []
        if accessed.space == "scratch":
            return self._scratch(slots_of([*targets, *data]), accessed.kind == "load", total is not None)
        slots, change = slots_of(targets), None
        known = stored or any(self.machine.words(slot) is not None for slot in slots)
        kept = bool(accessed.half) and not self.moving.keys().isdisjoint(slots)  # the other half
        others = not self.own_lds if accessed.space == "lds" else accessed.kind != "load"
        if known and (kept or others):  # others store what is loaded
            change = NON_LINEAR
        elif known and total is not None and (evenly := self._of_evenly_filled(accessed, performed)):
            return [(slot, x if x.any() else None) for slot, x in zip(slots, evenly, strict=True)]
        elif known and total is not None:
            change = NON_LINEAR
        return [(slot, change) for slot in slots]

    def _of_evenly_filled(
        self, accessed: MemoryAccess, performed: list[PerformedAccess]
    ) -> list[np.ndarray] | None:
        """Return the changes of words loaded from moving addresses, if the words differ evenly."""
        (access, *others), stride = performed, self.strides[-1]
        if stride is None or others or accessed.bytes % 4 or accessed.space not in ("vmem", "smem"):
            return None
        address = access.base + access.offset
        shape = np.broadcast_shapes(address.shape, access.lanes.shape)
        regions = regions_of(np.broadcast_to(address, shape)[np.broadcast_to(access.lanes, shape)])
        return self.machine.memory.change(address, regions, stride, self, accessed.bytes)

    def _address(self, step: Instruction, where: list[str]) -> Any:
        """Return the change of an address: the sum of those of its operands."""
        total: Any = None
        if step.opcode.startswith("buffer") and "offen" in step.modifiers:
            self._stay_in_buffer(step)
        for place in registers_of(where):
            change = self._change("U" if place.count == 2 else "u", place)
            if isinstance(change, str):
                return NON_LINEAR
            if change is None:
                continue
            low = self.machine.words(place.slot)
            if low is not None:
                self.limit(low, signed(change), UINT32)
            total = change if total is None else total + change
        return total

    def _stay_in_buffer(self, step: Instruction) -> None:
        """Limit the trips to those in which lanes stay within a buffer's bounds, or out of them."""
        place, descriptor = (operand(text).place for text in step.operands[-3:-1])
        assert isinstance(place, Register)
        assert isinstance(descriptor, Register)
        slots = (place.slot, descriptor.slot + 2)
        within, most = (self.machine.words(slot) for slot in slots)
        changes = [self._change("u", Register(slot, 1)) for slot in slots]
        if within is None or most is None or NON_LINEAR in [x for x in changes if isinstance(x, str)]:
            return  # trips of such an access are estimated
        values = [within.astype(I64) + int(step.modifiers.get("offset", "0"), 0), most.astype(I64)]
        self._compared("u", values, changes)

    def _scratch(self, slots: list[int], load: bool, moves: bool) -> list[tuple[Any, Any]]:
        """Follow words of scratch like registers, by address."""
        address = self.machine.accesses[-1].base + self.machine.accesses[-1].offset
        if address.size != 1 or moves:
            if load:
                known = any(self.machine.r[slot] is not None for slot in slots)
                return [(slot, NON_LINEAR if known else None) for slot in slots]
            for slot in slots:
                self.read(slot)
            raise Irregular("it stores to places in scratch that differ")
        at = int(address.flat[0])
        if load:
            return [(slot, self.read(("scratch", at + 4 * word & ~3))) for word, slot in enumerate(slots)]
        return [(("scratch", at + 4 * word & ~3), self.read(slot)) for word, slot in enumerate(slots)]


def _named(slot: Any) -> str:
    if isinstance(slot, tuple):
        return f"scratch at {slot[1]}"
    return f"v{slot - V}" if slot >= V else f"s{slot}"


def _change_between(before: Any, after: Any, lanes: np.ndarray) -> Any:
    """Return the change of a register: None for none, NON_LINEAR if it is no number."""
    if before is None and after is None:
        return None
    if before.__class__ is not after.__class__ or before.__class__ is tuple:
        return NON_LINEAR
    if isinstance(before, MaskedWords):
        if not np.array_equal(before.unknown, after.unknown):
            return NON_LINEAR
        lanes = lanes & ~after.unknown
        before, after = before.value, after.value
    if before is None or after is None or before.dtype != after.dtype:
        return NON_LINEAR
    if after.dtype == bool:
        return NON_LINEAR if ((before != after) & lanes).any() else None
    change = np.where(lanes, (after - before).view(np.int32), 0).astype(np.int64)
    return change if change.any() else None


def moved(value: Any, change: Any, trips: int) -> Any:
    """Return the contents of a register after some trips; None if they are unknown."""
    if value is None or change is None:
        return value
    if isinstance(change, str):
        return None
    if value.__class__ is MaskedWords:
        return MaskedWords(moved(value.value, change, trips), value.unknown)
    if value.__class__ is not np.ndarray or value.dtype == bool:
        return value
    return value + (trips * change & 0xFFFFFFFF).astype(np.uint32)
