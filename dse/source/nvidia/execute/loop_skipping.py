"""Skip the trips of a loop that are known to do the same again, and count them as executed.

A loop is skipped if its state is affine: each register that is live from trip to trip changes by the same
amount every time. That is not guessed from a few trips but proven: one trip is executed together with the
change of every register (`induction`), which yields the number of trips in which all branches go the same way
and all strides are constant. So counts repeat exactly, with a period (at most 128 trips) if addresses move by
less than a cache line.

A loop is estimated if this holds except for addresses that depend on data: it is still proven that all
branches go the same way, and values live from trip to trip are known. Some trips, spread over the loop, are
executed, and each represents those up to the next. Only the sectors, lines and passes of accesses to such
addresses are estimated; instructions and requests are exact.

Loops may contain barriers, and loops that are skipped themselves.

Where pipeline stages alternate, registers repeat only after several trips. These then count as one trip.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from dse.errors import DseError
from dse.source.machine.launch import OF_BLOCKS
from dse.source.machine.recorded import MEMORY_COUNTS, Estimated, Stream
from dse.source.machine.sampling import SAMPLES, Plan, Repetition
from dse.source.machine.thread_set import Lanes
from dse.source.machine.trips import FOR_EVER, Irregular
from dse.source.nvidia.execute.induction import Examination
from dse.source.nvidia.execute.register_changes import changes_since
from dse.source.nvidia.execute.repetition import (
    Mark,
    check_size,
    forget,
    move_on,
    repeat_counts,
    repeat_streams,
    repeat_trace,
)
from dse.source.nvidia.machine.state import Machine
from dse.source.nvidia.sass.operands import SLOTS, P
from dse.source.nvidia.sass.program import Step

_FIRST_TRY = 6  # trips after which a loop counts as long
_FEW = 16  # trips estimated from one of them
_WORTH = 1000  # instructions that an estimate must save
_LATER_SAMPLES = range(4, 7)  # where the loop was estimated before
_MOST_TURNS = 16  # trips after which the registers of a loop may repeat
_MOST_WAITS = 1000  # for other blocks, in a loop
_MOST_REFUTED = 5  # numbers of turns tried for a loop

Path = list[tuple[int, Lanes]]  # basic blocks in the order of execution


class LoopPolicy(Enum):
    """Which trips of a loop are skipped."""

    RUN = "run"  # none
    SKIP = "skip"  # those known exactly
    ESTIMATE = "estimate"  # also those known except for addresses that depend on data


@dataclass
class _Proof:
    """An examined trip, the data to compare it with and, after it, the result."""

    examination: Examination
    path: Path  # of the previous trip
    streams: list[Stream]  # likewise
    outer: list[tuple[Examination, dict[int, np.ndarray]]]  # of enclosing loops, with their changes then
    trips_left: int = 0  # known ones
    totals: list[float] = field(default_factory=list)  # sectors and passes of single trips, from `path` on


@dataclass
class _Loop:
    """A watched loop. Its header is the first basic block of its trips.

    Trips are first only counted; then one is examined, which gives a `proof`; then, if more trips must be
    executed, there is a `plan`.
    """

    header: int
    lanes: Lanes
    since: Mark  # start of this trip
    begun: Mark  # start of the first trip
    registers: list[np.ndarray] | None  # at that time; None if not needed
    trips: int = 0
    next_try: int = _FIRST_TRY  # trips after which it may be examined
    proof: _Proof | None = None
    plan: Plan | None = None
    turns: int = 1  # trips of the loop that count as one
    turn: int = 0  # finished ones of the present trip
    restarts: bool = False  # when its next trip begins
    history: list[list[np.ndarray]] = field(default_factory=list)  # registers at the start of each turn

    def watch_from(self, next_try: int) -> None:
        """Only count trips up to this number."""
        self.proof = self.plan = None
        self.next_try = next_try


class WaitsForBlocks(Exception):
    """A loop that ends when other blocks store something, and the basic block behind it."""

    def __init__(self, behind: int) -> None:
        self.behind = behind


class LoopSkipper:
    """Watches the loops of a running machine, and skips trips."""

    def __init__(self, machine: Machine, may_estimate: bool, endless: Callable[[int], DseError]) -> None:
        self.machine, self.may_estimate, self.endless = machine, may_estimate, endless
        self.examined: list[Examination] = []  # of trips in execution, outer loops first
        self._loops: dict[int, _Loop] = {}
        self._headers: set[int] = set()  # of all loops
        self._skipped = {*machine.bound.long_loops}  # headers of loops that were long before
        self._turns: dict[int, int] = {}  # of loops that repeat after several trips
        self._refuted: dict[int, set[int]] = {}  # numbers of turns that proved wrong
        self._waits: dict[int, int] = {}  # for other blocks, by header
        self._may_take_turns = any(step.pipe == "tensor" or step.of_box for step in machine.program.steps)
        columns = [MEMORY_COUNTS.index(name) for name in ("sectors", "passes")]
        rows = machine.bound.memory_rows.values()
        # of memory instructions: their sectors and passes
        self._work_rows = np.array([row + column for row in rows for column in columns], int)

    # Events from the scheduler

    def enter_from_above(self, index: int, lanes: Lanes) -> None:
        """Note that threads are about to enter a basic block after the one executed before."""
        self._put_off_those_left(index)
        if index in self._headers and index not in self.machine.irregular:
            self._begin(index, lanes)

    def enter_from_below(self, index: int, lanes: Lanes, others: int) -> None:
        """Note that threads are about to enter a basic block that is not after the one executed before.

        If it begins a loop, a trip has ended, and others may be skipped. `others` is the first block that
        other threads are to enter.

        **Raises:** DseError if the loop provably never ends; WaitsForBlocks if that is up to other blocks.
        """
        self._put_off_those_left(index)
        self._headers.add(index)
        if index in self.machine.irregular:
            return
        loop = self._loops.get(index)
        if loop is None or loop.lanes is not lanes or loop.restarts:
            self._begin(index, lanes)
            return
        loop.turn += 1
        if loop.turns == 1 and self._may_take_turns:
            loop.history = [*loop.history[-2 * _MOST_TURNS :], self.machine.r[:]]
        if loop.turn < loop.turns:
            return
        loop.trips, loop.turn = loop.trips + 1, 0
        try:
            self._trip_is_over(loop, others)
        except Irregular as reason:
            self._give_up(index, str(reason))

    def follow(self, step: Step, lanes: Lanes, ends: bool = False) -> None:
        """Examine a step that threads are about to execute, or that `ends` the basic block executed."""
        for examination in self.examined[:]:
            try:
                (examination.end if ends else examination.follow)(step, lanes)
            except Irregular as reason:
                self._give_up(examination.header, str(reason))

    # Whether a loop is watched, and how

    def _begin(self, header: int, lanes: Lanes) -> None:
        """Watch a loop from here on."""
        self._stop_examining(header)
        now = Mark.now(self.machine)
        loop = self._loops[header] = _Loop(header, lanes, now, now, self.machine.r[:])
        if header in self._turns:
            loop.turns, loop.next_try = self._turns[header], 2

    def _takes_turns(self, loop: _Loop) -> bool:
        """Return whether a loop seems to repeat after several trips; then it will be watched again."""
        live = self.machine.bound.live[loop.header]
        if loop.turns > 1 or not self._may_take_turns:
            return False
        for turns in range(2, (len(loop.history) - 1) // 2 + 1):
            if turns in self._refuted.get(loop.header, ()):
                continue
            if all(_evenly(loop, slot, turns) for slot in range(SLOTS) if live >> slot & 1):
                self._turns[loop.header] = turns
                loop.restarts = True
                self._stop_examining(loop.header)
                loop.watch_from(FOR_EVER)
                return True
        return False

    def _put_off_those_left(self, index: int) -> None:
        """Put off examined loops that threads leave by entering this basic block."""
        for examination in self.examined[:]:
            if not examination.header <= index <= examination.last:
                self._put_off(self._loops[examination.header])

    def _put_off(self, loop: _Loop) -> None:
        """Examine a loop again after some more trips."""
        self._stop_examining(loop.header)
        later = min(2 * loop.trips + 2, loop.trips + _FIRST_TRY) if loop.history else 2 * loop.trips + 2
        loop.watch_from(max(_FIRST_TRY, later))
        loop.registers, loop.since = None, Mark.now(self.machine)

    def _give_up(self, header: int, why: str) -> None:
        """Run all trips of a loop, or try again later, since its first trips may differ from the others."""
        loop = self._loops.get(header)
        if loop is not None and self._takes_turns(loop):
            return
        if loop is not None and loop.turns > 1:
            refuted = self._refuted.setdefault(header, set())
            refuted.add(loop.turns)
            self._turns.pop(header, None)
            if len(refuted) < _MOST_REFUTED:
                loop.restarts = True
                self._stop_examining(header)
                loop.watch_from(FOR_EVER)
                return
        may_show = self._may_take_turns and loop is not None and len(loop.history) <= 2 * _MOST_TURNS
        if loop is None or loop.turns > 1 or (loop.trips >= _FIRST_TRY and not may_show):
            self.machine.irregular[header] = why
            self._loops.pop(header, None)
            self._stop_examining(header)
        else:
            self._put_off(loop)

    def _stop_examining(self, header: int) -> None:
        """Drop the examination of a loop's trip, if there is one."""
        ended = [examination.registers for examination in self.examined if examination.header == header]
        for outer in self.examined if ended else ():
            inner = outer.registers.inner
            outer.registers.inner = [registers for registers in inner if registers not in ended]
        self.examined = [examination for examination in self.examined if examination.header != header]

    # Trips

    def _trip_is_over(self, loop: _Loop, others: int) -> None:
        """Continue with a loop after the execution of a trip."""
        machine = self.machine
        put_off = loop.since.trace == len(machine.trace)  # within this trip
        counted = loop.trips < loop.next_try - 1 and not self._worth_an_early_try(loop)
        if loop.proof is None and (counted or put_off):
            loop.registers, loop.since = None, Mark.now(machine)
            return
        path = machine.trace[loop.since.trace :]
        alone = all(machine.sets.within(lanes, loop.lanes) for lanes in {id(x): x for _, x in path}.values())
        if not alone or max(index for index, _ in path) >= others:
            self._put_off(loop)
            return
        if loop.proof is not None:
            loop.proof.totals.append(loop.since.counted(machine, self._work_rows))
            if loop.plan is None:
                self._conclude(loop, loop.proof, path)
            else:
                self._go_on(loop, loop.proof, loop.plan)
        elif loop.registers is not None:
            self._examine_next(loop, loop.registers, path)
        loop.registers, loop.since = machine.r[:], Mark.now(machine)

    def _worth_an_early_try(self, loop: _Loop) -> bool:
        """Return whether a loop was long before, or has a long body."""
        return loop.next_try == _FIRST_TRY and (
            loop.header in self._skipped or loop.since.instructions(self.machine) > _WORTH // 2
        )

    def _examine_next(self, loop: _Loop, before: list[np.ndarray], path: Path) -> None:
        """Compute the change of each register in a trip, and propagate it through the next one.

        `before` are the registers at the start of that trip, `path` is what it executed.
        """
        machine = self.machine
        went_in = changes_since(machine, before, loop.header, loop.lanes)
        if went_in is None:
            if not self._takes_turns(loop):
                self._put_off(loop)
            return
        last = max(index for index, _ in path)
        examination = Examination(machine, loop.header, last, loop.lanes, went_in, self.may_estimate)
        loop.proof = _Proof(
            examination,
            path,
            streams=machine.streams[loop.since.streams :],
            outer=[(outer, dict(outer.registers.by_slot)) for outer in self.examined],
            totals=[loop.since.counted(machine, self._work_rows)],
        )
        for outer in self.examined:
            outer.registers.inner.append(examination.registers)
        self.examined.append(examination)

    def _conclude(self, loop: _Loop, proof: _Proof, path: Path) -> None:
        """After an examined trip: if each change ended as it began, the next trips are known."""
        examination, machine = proof.examination, self.machine
        self._stop_examining(loop.header)
        assert loop.registers is not None
        why = examination.why_uneven(changes_since(machine, loop.registers, loop.header, loop.lanes))
        if why and path != proof.path:
            if not self._takes_turns(loop):
                self._put_off(loop)
            return
        if why:
            raise Irregular(why)
        trips, machine.moved = examination.registers.trips, machine.moved | examination.moved
        if trips >= FOR_EVER:
            raise self._waiting(loop, {index for index, _ in path})
        # the last steady trip is executed where a loop around this one is examined, see _check_outer
        left = proof.trips_left = trips - bool(self.examined)
        at_once = not loop.since.closed_phases(machine)
        if examination.why_estimated:
            if left * loop.since.instructions(machine) < _WORTH:
                self._run_those_left(loop, left)
            elif at_once and left < _FEW:
                self._repeat(loop, proof, [loop.since], Repetition(left))
            else:
                samples = _LATER_SAMPLES if loop.header in self._skipped else SAMPLES
                loop.plan = Plan.of_samples(left, samples if left >= _FEW else (1,))
                move_on(machine, examination.went_in, loop.plan.earlier)
        elif examination.period == 1 and at_once and left > 1:
            self._repeat(loop, proof, [loop.since], Repetition(left))
        elif left < 3 * examination.period:
            self._run_those_left(loop, left)
        else:
            loop.plan = Plan(examination.period)

    def _waiting(self, loop: _Loop, path: set[int]) -> Exception:
        """Return how a loop of these basic blocks ends that never does so by itself. A few trips count."""
        header, blocks = loop.header, self.machine.program.blocks
        self._waits[header] = self._waits.get(header, 0) + 1
        ends = [(index, behind) for index in path for behind in {*blocks[index].successors} - path]
        asks = any(
            step.pipe == "global" and step.targets and (step.atomic or step.has("STRONG"))
            for index in path
            for step in blocks[index].steps
        )
        if len(ends) != 1 or not asks or self._waits[header] > _MOST_WAITS:
            return self.endless(header)
        [(index, behind)] = ends
        last, lanes = blocks[index].steps[-1], self.machine.sets.of(self.machine.live_mask)
        self.machine.note_unknown(last, "branch", self.machine.source(OF_BLOCKS), lanes)
        forget(self.machine, loop.begun, loop.since)
        self._begin(header, loop.lanes)
        return WaitsForBlocks(behind)

    def _run_those_left(self, loop: _Loop, trips: int) -> None:
        """Run the few remaining trips, and watch the loop again afterwards."""
        if self._takes_turns(loop):
            return
        loop.watch_from(loop.trips + trips + _FIRST_TRY)

    def _go_on(self, loop: _Loop, proof: _Proof, plan: Plan) -> None:
        """After a planned trip: skip the others, or those up to the next planned one."""
        ahead = plan.next(loop.since, proof.trips_left)
        if isinstance(ahead, Repetition):
            self._repeat(loop, proof, plan.starts, ahead)
        elif plan.stretch:
            check_size(self.machine, loop.since, proof.trips_left)
            repeat_counts(self.machine, loop.since, ahead)
            move_on(self.machine, proof.examination.went_in, ahead)

    def _repeat(self, loop: _Loop, proof: _Proof, starts: list[Mark], repetition: Repetition) -> None:
        """Repeat the work since each of these marks. Counts are repeated only for the last."""
        machine, examination = self.machine, proof.examination
        times = repetition.times
        check_size(machine, starts[-1], times)
        parted = starts[-1].closed_phases(machine) and not np.array_equal(starts[-1].counts, machine.counts)
        if parted and not examination.why_estimated:
            raise Irregular("its phases are not alike")
        repeat_counts(machine, starts[-1], times)
        move_on(machine, examination.went_in, times * repetition.trips - repetition.earlier)
        marks = [*starts, Mark.now(machine)]
        before = proof.streams, repetition.earlier + (1 if loop.plan is None else 2)
        repeat_streams(machine, marks, repetition, examination.strides, before)
        repeat_trace(machine, marks, times)
        if examination.why_estimated and times:
            self._note_estimate(loop.header, len(starts) * times, proof.totals)
        for outer, changes in proof.outer:
            self._check_outer(loop, outer, changes)
        self._skipped.add(loop.header)
        loop.watch_from(loop.trips + _FIRST_TRY)

    def _note_estimate(self, header: int, skipped: int, totals: list[float]) -> None:
        """Record that `skipped` trips of a loop are estimated from those with `totals`."""
        known = self.machine.estimated.get(header, Estimated(0, 0.0))
        mean = sum(totals) / len(totals)
        spread = (max(totals) - min(totals)) / mean if mean else 0.0
        self.machine.estimated[header] = Estimated(known.trips + skipped, max(known.spread, spread))

    def _check_outer(self, loop: _Loop, outer: Examination, changes: dict[int, np.ndarray]) -> None:
        """Check that the changes of an outer loop are the same before and after the skipped trips.

        Since no rule lets both loops change the same product or the bits that are shifted out, they then are
        the same in all trips; and tests with equal results in the first and last trip have them in between.
        """
        live = self.machine.bound.live[loop.header]
        registers = outer.registers
        for slot in {*registers.by_slot, *changes}:
            lives = slot < SLOTS and live >> slot & 1 and slot not in registers.erratic
            if lives and registers.differs(slot, changes.get(slot), loop.lanes):
                self._give_up(outer.header, "a loop inside does not change evenly")
                return


def _evenly(loop: _Loop, slot: int, turns: int) -> bool:
    """Return whether a slot changed by the same in the last `turns` turns and in those before."""
    first, middle, last = (loop.history[-1 - back * turns][slot] for back in (2, 1, 0))
    if first is middle is last:
        return True
    if slot >= P:
        return not (loop.lanes.mask & ((first != middle) | (middle != last))).any()
    return not (loop.lanes.mask & (middle - first != last - middle)).any()
