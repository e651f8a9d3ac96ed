"""Skips the trips of a loop that are known to do the same again, and counts them as done.

A loop is skipped where its state is affine: each register that lives from one trip to the next changes by the
same amount every time. That is not guessed from a few trips but proven. One trip is executed with the change
of every register carried along; each instruction must turn changes into changes (sums, multiples), or cut
them off (shifts, compares), and says for how many trips more it will do so. Up to the smallest of these
numbers all branches go the same way, and all addresses move on evenly, so counts repeat: exactly, with a
period where addresses move by less than a line of the cache (128 trips at most).
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from dse.cuda.changes import Changes, Irregular
from dse.cuda.lanes import Lanes
from dse.cuda.machine import Machine
from dse.cuda.opcodes import STORES
from dse.cuda.operands import SLOTS, P
from dse.cuda.program import Step

_FIRST_TRY = 6  # trips after which a loop counts as long


@dataclass
class _Loop:
    """What is known of the loop at one header."""

    lanes: Lanes
    trips: int = 0
    next_try: int = _FIRST_TRY
    stage: Callable[["Loops", "_Loop", int], None] | None = None
    position: int = 0  # in the trace, of this trip's start
    path: list[tuple[int, Lanes]] = field(default_factory=list)
    registers: list[np.ndarray] = field(default_factory=list)
    changes: dict[int, np.ndarray] = field(default_factory=dict)
    trips_left: int = 0
    period: int = 1
    recorded: int = 0
    skips: int = 0  # of any loop, until the registers were noted
    counts: np.ndarray | None = None
    streams: int = 0
    strides: dict[int, int] = field(
        default_factory=dict
    )  # bytes that each memory instruction moves on in a trip


class Loops:
    """Watches the loops of a machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.loops: dict[int, _Loop] = {}
        self.irregular: dict[int, str] = machine.compiled.irregular
        self.examined: Changes | None = None  # while the state of a loop is examined

    def arrive(self, header: int, lanes: Lanes, again: bool) -> None:
        """These threads are about to enter a basic block, and no others can go on; `again` if from further
        down.
        """
        loop = self.loops.get(header)
        if not again:
            if loop is not None:
                self._forget(header)
            return
        if header in self.irregular:
            return
        if loop is None or loop.lanes is not lanes:
            self._forget(header)
            self.loops[header] = _Loop(lanes, position=len(self.machine.trace))
            return
        loop.trips += 1
        start, loop.position = loop.position, len(self.machine.trace)
        if loop.stage is not None:
            path = self.machine.trace[start:]
            if path != loop.path:
                self._later(loop)
                return
            try:
                loop.stage(self, loop, header)
            except Irregular as reason:
                self.irregular[header] = str(reason)
                self._forget(header)
        elif loop.trips >= loop.next_try:
            loop.path = self.machine.trace[start:]
            loop.registers = self.machine.r[:]
            loop.skips = len(self.machine.repeats)
            loop.stage = Loops._compare

    def follow(self, step: Step, lanes: Lanes) -> None:
        """Before a step of the loop that is being examined."""
        changes = self.examined
        if changes is None:
            return
        try:
            changes.follow(step, lanes)
        except Irregular as reason:
            self.irregular[changes.header] = str(reason)
            self._forget(changes.header)

    def _forget(self, header: int) -> None:
        self.loops.pop(header, None)
        self.examined = None

    def _later(self, loop: _Loop) -> None:
        self.examined = None
        loop.stage, loop.next_try = None, 2 * loop.trips + _FIRST_TRY

    def _compare(self, loop: _Loop, header: int) -> None:
        """A trip after the registers were noted: see by how much each changed, and carry that along the next
        trip.
        """
        machine, program = self.machine, self.machine.program
        if len(machine.repeats) > loop.skips:
            raise Irregular("it holds a loop that is skipped itself")
        written: set[int] = set()
        for index, _ in loop.path:
            block = program.blocks[index]
            if block.steps[-1].opcode == "BAR":
                raise Irregular("it holds a barrier")
            for step in block.steps:
                if step.needed:
                    written.update(step.writes)
                    if step.opcode in STORES or step.opcode[:4] == "ATOM" or step.opcode == "LDGSTS":
                        raise Irregular(f"0x{step.address:x} stores what is loaded again")
        live = machine.compiled.live[header]
        loop.changes = {}
        for slot in written:
            if slot >= SLOTS or not live >> slot & 1:
                continue
            before, now = loop.registers[slot], machine.r[slot]
            if before is now:
                continue
            if slot >= P:
                if (before != now).any():
                    self._later(loop)
                    return
                continue
            change = (now - before).view(np.int32).astype(np.int64)
            if change.any():
                loop.changes[slot] = change
        self.examined = Changes(machine, header, dict(loop.changes))
        loop.stage = Loops._conclude

    def _conclude(self, loop: _Loop, header: int) -> None:
        """The trip with changes is over: if each came out as it went in, the next trips are known."""
        machine = self.machine
        changes, self.examined = self.examined, None
        assert changes is not None
        live = machine.compiled.live[header]
        for slot in {*changes.by_slot, *loop.changes}:
            if slot >= SLOTS or not live >> slot & 1:
                continue
            went_in, came_out = loop.changes.get(slot), changes.by_slot.get(slot)
            uneven = _or_zero(went_in) != _or_zero(came_out)
            if (loop.lanes.mask & uneven).any():
                raise Irregular(f"register slot {slot} does not change evenly")
        loop.trips_left, loop.period, loop.strides = changes.trips, changes.period, changes.strides
        if loop.trips_left < 3 * loop.period:
            loop.stage, loop.next_try = None, loop.trips + loop.trips_left + _FIRST_TRY
            return
        loop.recorded, loop.counts, loop.streams = 0, machine.counts.copy(), len(machine.streams)
        loop.registers = []
        loop.stage = Loops._record

    def _record(self, loop: _Loop, header: int) -> None:
        """After a whole period was counted, skip as many periods as are left."""
        loop.recorded += 1
        if loop.recorded < loop.period:
            return
        machine = self.machine
        periods = (loop.trips_left - loop.period) // loop.period
        trips = periods * loop.period
        assert loop.counts is not None
        machine.counts = machine.counts + periods * (machine.counts - loop.counts)
        for stream in machine.streams[loop.streams :]:
            stride = loop.strides[stream.step] * loop.period
            machine.streams.append(stream.repeated(periods, stride))
        for slot, change in loop.changes.items():
            machine.r[slot] = machine.r[slot] + (trips * change).astype(np.uint64).astype(np.uint32)
        length = len(loop.path) * loop.period
        machine.repeats.append((len(machine.trace) - length, len(machine.trace), periods))
        loop.stage, loop.next_try = None, loop.trips + _FIRST_TRY
        loop.position = len(machine.trace)


def _or_zero(change: np.ndarray | None) -> np.ndarray:
    return np.zeros((1, 1), np.int64) if change is None else change
