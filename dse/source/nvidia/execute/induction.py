"""Follow one trip of a loop, and prove for how many further trips all changes are constant.

The change of every register is propagated through the trip, instruction by instruction. If each register ends
with the change that it began with, the next trips are known as well: their branches, and the strides of all
addresses. Values without a rule, such as loaded data, are erratic: then the next trips are unknown, unless
they may be estimated. In that case erratic values may be addresses, but no branch, no guard, and no value
that is live in the next trip may depend on them.
"""

from copy import copy
from math import gcd, lcm

import numpy as np

from dse.hardware.coalescing import LINE, SECTOR
from dse.source.machine.launch import REGION_BITS
from dse.source.machine.thread_set import Lanes
from dse.source.machine.trips import Change, Irregular, uniform
from dse.source.nvidia.execute.boxes import box_stride
from dse.source.nvidia.execute.change_rules import RULES
from dse.source.nvidia.execute.load_store import leaves_memory
from dse.source.nvidia.execute.register_changes import RegisterChanges, plus, times
from dse.source.nvidia.execute.tiling import Tiling
from dse.source.nvidia.machine.state import Machine
from dse.source.nvidia.sass.operands import PT, RZ, SLOTS, UPT, URZ, Operand, P
from dse.source.nvidia.sass.program import Step, descriptor_slot

BARRIER_MOVES = ("BSSY", "BREAK", "BMOV")


class Examination:
    """One trip of a loop, followed during its execution: its changes, and whether they are constant."""

    def __init__(
        self,
        machine: Machine,
        header: int,
        last: int,
        lanes: Lanes,
        went_in: dict[int, np.ndarray],
        may_estimate: bool,
    ) -> None:
        """Examine a trip that is about to begin.

        `went_in` has the changes of slots in the previous trip; `header` and `last` are the first and the
        last basic block of the loop.
        """
        self.machine, self.header, self.last, self.lanes = machine, header, last, lanes
        self.went_in, self.may_estimate = went_in, may_estimate
        self.registers = RegisterChanges(machine, dict(went_in))
        self.period = 1  # trips after which addresses have the same offsets within a line
        self.strides: dict[int, int | None] = {}  # by memory instruction; None: they differ among threads
        self.moved: set[int] = set()  # steps whose places in shared memory differ from trip to trip
        self.why_estimated = ""  # why counts differ among trips; empty if they do not
        self._stores = False  # whether it stores values that are loaded again
        self._stored_before = _stored(machine)

    def tiled(self, wide: Machine, tiling: Tiling) -> "Examination":
        """Return the examination for an inner loop's trips that are run side by side."""
        made = copy(self)
        made.machine, made.strides = wide, dict(self.strides)
        made.lanes = wide.sets.of(tiling.of(self.lanes.mask))
        made.registers = self.registers.tiled(wide, tiling)
        return made

    def take(self, wide: "Examination", tiling: Tiling) -> None:
        """Take over the results of those trips."""
        self.strides, self.period, self.why_estimated = wide.strides, wide.period, wide.why_estimated
        self.registers.take(wide.registers, tiling)

    def follow(self, step: Step, lanes: Lanes) -> None:
        """Compute the changes of the results of `step`, before it is executed.

        **Raises:** Irregular
        """
        registers = self.registers
        if step.guard in registers.erratic and (why := registers.why_erratic([step.guard], lanes)):
            if self._steered_by(step):
                raise Irregular(why)
            registers.set_erratic(step.writes, lanes, why)
            return
        guarded = self.machine.under_guard(step, lanes)
        if guarded is None:
            return
        registers.lanes = guarded
        if step.memory and (step.addressed or step.needed):
            self._address(step, guarded)
        if step.kind == "copy":
            conditions = [operand.slot for operand in step.sources if operand.kind == "predicate"]
            if why := registers.why_erratic(conditions, guarded):
                raise Irregular(why)
        described = (descriptor_slot(step),)
        if registers.any_changes(described) or registers.why_erratic(described, guarded):
            raise Irregular("an instruction descriptor changes")
        if step.opcode in BARRIER_MOVES:
            self.end(step, guarded)
        if not step.needed or step.of_box:
            return
        if step.given:
            registers.set_same(step.writes, guarded)
            return
        why = registers.why_erratic(step.reads, guarded)
        changing = registers.any_changes(step.reads)
        if step.stores or step.atomic or step.kind == "copy":
            self._store(step, guarded, bool(why) or changing)
        elif why:
            registers.set_erratic(step.writes, self._written(step, guarded), why)
        elif not changing:
            registers.set_same(step.writes, self._written(step, guarded))
        elif step.memory:
            self._load(step, guarded)
        else:
            self._compute(step, guarded)

    def end(self, step: Step, lanes: Lanes) -> None:
        """Check that the branch `step`, which ends a basic block, goes the same way in every trip.

        **Raises:** Irregular
        """
        slots = [operand.slot for operand in step.sources if operand.slot not in (PT, UPT, RZ, URZ)]
        if why := self.registers.why_erratic((*slots, step.guard), lanes):
            raise Irregular(why)
        if self.registers.any_changes(slots):
            raise Irregular(f"0x{step.address:x} goes to different places")

    def why_uneven(self, changed: dict[int, np.ndarray] | None) -> str:
        """Return, after the trip, why the next one may differ; empty if it cannot.

        The slots must have `changed` in it as in the one before, and change so in the next one.
        """
        registers, live = self.registers, self.machine.bound.live[self.header]
        if changed is None:
            return "predicates change"
        for slot in {*registers.by_slot, *registers.erratic, *self.went_in, *changed}:
            if slot >= SLOTS or not live >> slot & 1:
                continue
            if why := registers.why_erratic([slot], self.lanes):
                return why
            if any(registers.differs(slot, of.get(slot), self.lanes) for of in (self.went_in, changed)):
                return f"register slot {slot} does not change evenly"
        if self._stores:
            before, now = self._stored_before, _stored(self.machine)
            if len(now) != len(before) or not all(map(np.array_equal, now, before)):
                return "what it stores differs from trip to trip"
        return ""

    # Instructions

    def _steered_by(self, step: Step) -> bool:
        """Return whether more than the results of a step depends on its guard."""
        return bool(step.memory) or not step.needed or step.opcode in BARRIER_MOVES

    def _compute(self, step: Step, lanes: Lanes) -> None:
        """Compute the change of a result."""
        rule = RULES.get(step.opcode)
        if rule is None:
            self._lose(step, lanes, f"{step.opcode} of what changes")
            return
        try:
            rule(self.registers, step)
        except (Irregular, KeyError) as reason:
            self._lose(step, lanes, f"{step.opcode}: {reason}")
            return
        for slot in step.writes:
            self.registers.no_longer_erratic(slot, self._written(step, lanes))

    def _written(self, step: Step, lanes: Lanes) -> Lanes:
        """Return the threads whose registers are written: R2UR writes for whole warps."""
        return self.machine.sets.whole_warps(lanes) if step.opcode == "R2UR" else lanes

    def _lose(self, step: Step, lanes: Lanes, why: str) -> None:
        """Mark the results of `step` as erratic."""
        why = f"0x{step.address:x} {why}"
        if not self.may_estimate:
            raise Irregular(why)
        self.registers.set_erratic(step.writes, lanes, why)

    def _address(self, step: Step, lanes: Lanes) -> None:
        """Check that all addresses of a memory instruction have the same stride."""
        if (
            step.shared
            and self.machine.bound.notes_touches
            and self._stride(step, step.shared, lanes)[0] != 0
        ):
            self.moved.add(step.index)
        if step.of_box:
            self._box(step, lanes)
            return
        grain = LINE if step.pipe == "global" else 4
        stride: int | None = 0
        why = ""
        for address in step.memory:
            stride, why = self._stride(step, address, lanes)
            if stride is None:
                break
            self.period = lcm(self.period, grain // gcd(grain, stride))
        if stride is not None and self.strides.get(step.index, stride) != stride:
            stride, why = None, _moves_differently(step)
        if stride is None:
            if not self.may_estimate:
                raise Irregular(why)
            self.why_estimated = self.why_estimated or why
        self.strides[step.index] = stride

    def _box(self, step: Step, lanes: Lanes) -> None:
        """Check that a tensor's box has a constant stride inside the tensor."""
        if self.registers.any_changes(read.slot for read in step.sources if read.kind == "register"):
            raise Irregular(f"0x{step.address:x} copies other numbers of bytes")
        if step.opcode.startswith("UBLK"):
            stride, why = self._stride(step, step.memory[-1], lanes)
            if stride is None:
                raise Irregular(why)
        else:
            stride = box_stride(self.registers, self.machine, step, lanes)
        if self.strides.setdefault(step.index, stride) != stride:
            raise Irregular(_moves_differently(step))
        self.period = lcm(self.period, SECTOR // gcd(SECTOR, stride))

    def _stride(self, step: Step, address: Operand, lanes: Lanes) -> tuple[int | None, str]:
        """Return (stride of an address in bytes, why it is unknown)."""
        registers = self.registers
        total: Change = None
        wide = step.pipe == "global" and address is step.memory[-1]
        for slot, factor, narrow in address.bases:
            pair = wide and not narrow
            if why := registers.why_erratic((slot, slot + 1) if pair else (slot,), lanes):
                return None, why
            change = registers.change_of_slots(slot) if pair else registers.by_slot.get(slot)
            total = plus(total, times(change, factor))
        if total is None:
            return 0, ""
        stride = uniform(total, lanes.mask)
        return stride, _moves_differently(step) if stride is None else ""

    def _load(self, step: Step, lanes: Lanes) -> None:
        """Compute the change of a load from moving addresses. Unknown contents are the same everywhere."""
        empty = step.pipe == "shared" and not self.machine.shared.any()
        if empty or (step.pipe == "global" and self._same_everywhere(step, lanes)):
            self.registers.set_same(step.writes, lanes)
        elif (changes := self._of_evenly_filled(step, lanes)) is not None:
            for slot, change in zip(step.writes, changes, strict=True):
                self.registers.set(slot, change if change.any() else None)
                self.registers.no_longer_erratic(slot, lanes)
        else:
            self._lose(step, lanes, "loads from different places")

    def _same_everywhere(self, step: Step, lanes: Lanes) -> bool:
        """Return whether the contents of memory, or of all arguments accessed here, are unknown."""
        regions = self.machine.memory.regions
        if all(contents is None for contents in regions.values()):
            return True
        stride = self.strides.get(step.index)
        if stride is None:
            return False
        address, touched = self._touched(step, lanes)
        if any(regions.get(number) is not None for number in touched):
            return False
        region = range(1 << REGION_BITS)
        self.registers.limit(address & (len(region) - 1), np.full((1, 1), stride), region)
        return True

    def _touched(self, step: Step, lanes: Lanes) -> tuple[np.ndarray, list[int]]:
        """Return (addresses in global memory, their regions of memory)."""
        address = self.machine.base(step, step.memory[-1], True) + step.memory[-1].offset
        address = np.broadcast_to(address, np.broadcast_shapes(address.shape, lanes.mask.shape))
        regions = np.unique((address >> REGION_BITS)[np.broadcast_to(lanes.mask, address.shape)])
        return address, regions.tolist()

    def _of_evenly_filled(self, step: Step, lanes: Lanes) -> list[np.ndarray] | None:
        """Return the changes of words loaded from an argument with evenly spaced contents."""
        stride, whole = self.strides.get(step.index), step.pipe == "global" and not step.bytes % 4
        if stride is None or not whole or 4 * len(step.writes) != step.bytes:
            return None
        return self.machine.memory.change(*self._touched(step, lanes), stride, self.registers, step.bytes)

    def _store(self, step: Step, lanes: Lanes, changes: bool) -> None:
        """Check that every trip stores the same in the same places, or in memory of unknown contents."""
        registers = self.registers
        in_global = step.pipe == "global" and step.kind != "copy"
        if in_global and not self.machine.bound.global_stores and all(slot >= P for slot in step.writes):
            registers.set_same(step.writes, lanes)  # it is done at any place of an array
            return
        if step.atomic and in_global and not changes and leaves_memory(self.machine, step, lanes):
            registers.set_same(step.writes, lanes)
            return
        if step.atomic or in_global:
            raise Irregular(f"0x{step.address:x} stores what is loaded again")
        self._stores = True
        if not changes:
            return
        if step.kind == "copy" and not registers.why_erratic(step.bases, lanes):
            moved, _ = self._stride(step, step.memory[0], lanes)
            if moved == 0 and self._same_everywhere(step, lanes):
                return
        values = step.reads[: len(step.reads) - len(step.bases)]
        same = not registers.why_erratic(values, lanes) and not any(
            slot in registers.by_slot for slot in values
        )
        zero = not any(self.machine.r[slot].any() for slot in values)
        if not (step.opcode == "STS" and same and zero and not self.machine.shared.any()):
            raise Irregular(f"0x{step.address:x} stores what is loaded again")


def _moves_differently(step: Step) -> str:
    """Say that the strides of a memory instruction differ among threads."""
    return f"0x{step.address:x} moves on by different distances"


def _stored(machine: Machine) -> list[np.ndarray]:
    """Copy the contents of shared and local memory."""
    local = machine.local.words
    return [*machine.shared.copied(), *(local[address] for address in sorted(local))]
