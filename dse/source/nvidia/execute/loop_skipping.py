"""Skips the trips of a loop that are known to do the same again, and counts them as done.

A loop is skipped where its state is affine: each register that lives from one trip to the next changes by the
same amount every time. That is not guessed from a few trips but proven: one trip is executed with the change
of every register carried along (`induction`), which says for how many trips more all branches go the same way
and all addresses move on evenly. So counts repeat: exactly, with a period where addresses move by less than a
line of the cache (128 trips at most).

A loop is estimated where the same holds but for addresses that depend on data: it is then still proven that
all branches go the same way, and what lives from trip to trip is known in every one. Some trips, spread over
the loop, are executed, and each represents those up to the next. Estimated are the sectors, lines and
passes of accesses to such addresses; instructions and requests are exact.

Loops may hold barriers, and loops that are skipped themselves.

Where stages of a pipeline take turns, registers repeat only after several trips. A trip, in all that is said
here, is then the number of trips after which they were seen to repeat.
"""

from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from dse.source.machine.recorded import MEMORY_COUNTS, Estimated, Stream
from dse.source.machine.sampling import SAMPLES, before_middle, stretches
from dse.source.machine.thread_set import Lanes
from dse.source.nvidia.execute.induction import Examination
from dse.source.nvidia.execute.mark import Mark
from dse.source.nvidia.execute.register_changes import FOR_EVER, Irregular
from dse.source.nvidia.execute.repetition import (
    Repetition,
    check_phases_alike,
    check_size,
    move_on,
    repeat_counts,
    repeat_streams,
    repeat_trace,
)
from dse.source.nvidia.machine.state import Machine
from dse.source.nvidia.sass.operands import SLOTS, P
from dse.source.nvidia.sass.program import Step

_FIRST_TRY = 6  # trips after which a loop counts as long
_FEW = 16  # trips that are estimated from one of them
_WORTH = 1000  # instructions that an estimate must save
_LATER_SAMPLES = range(4, 7)  # where the loop was estimated before
_MOST_TURNS = 16  # trips after which the registers of a loop may repeat
_MOST_REFUTED = 5  # numbers of turns that are tried for a loop

Path = list[tuple[int, Lanes]]  # basic blocks in the order of execution


class LoopPolicy(Enum):
    """A choice of the trips of a loop that are skipped."""

    RUN = "run"  # none
    SKIP = "skip"  # those of which all is known before
    ESTIMATE = "estimate"  # also those of which all is known but addresses that depend on data


class Endless(Exception):
    """A loop that provably never ends."""


@dataclass
class _Proof:
    """An examined trip, and what it must be compared with; once it is over, what follows from it."""

    examination: Examination
    path: Path  # of the trip before
    streams: list[Stream]  # likewise
    outer: list[tuple[Examination, dict[int, np.ndarray]]]  # of loops around this one, and their changes then
    trips_left: int = 0  # that are known
    totals: list[float] = field(default_factory=list)  # sectors and passes of single trips, from `path` on


@dataclass
class _Recording:
    """A whole period of trips is executed, after which the next periods are like it."""

    period: int
    starts: list[Mark] = field(default_factory=list)  # of the trips executed so far


@dataclass
class _Sampling:
    """Some of the trips are executed, each in the middle of the stretch of trips that it represents."""

    samples: int
    stretch: int
    starts: list[Mark] = field(default_factory=list)  # of the trips executed so far

    @staticmethod
    def of(trips: int, estimated_before: bool) -> "_Sampling":
        """Cover a loop's trips with the number of samples that leaves fewest trips over."""
        numbers = _LATER_SAMPLES if estimated_before else SAMPLES
        return _Sampling(*stretches(trips, numbers if trips >= _FEW else (1,)))

    @property
    def earlier(self) -> int:
        """Trips of a stretch that come before the one that is executed."""
        return before_middle(self.stretch)


@dataclass
class _Loop:
    """A loop that is watched, by its header: the basic block that its trips begin with.

    Its trips are first only counted; then one is examined, which gives a `proof`; then, if more than that one
    must be executed, there is a `plan` of which.
    """

    header: int
    lanes: Lanes
    since: Mark  # this trip's start
    registers: list[np.ndarray] | None  # then; None if they are not wanted
    trips: int = 0
    next_try: int = _FIRST_TRY  # trips after which it may be examined
    proof: _Proof | None = None
    plan: _Recording | _Sampling | None = None
    turns: int = 1  # trips of the loop that are taken for one
    turn: int = 0  # those of this one that are over
    restarts: bool = False  # where its next trip begins
    history: list[list[np.ndarray]] = field(default_factory=list)  # registers as each turn found them

    def watch_from(self, next_try: int) -> None:
        """Only count trips up to this number."""
        self.proof = self.plan = None
        self.next_try = next_try


class LoopSkipper:
    """Watches the loops of a machine while it runs, and skips trips of theirs."""

    def __init__(self, machine: Machine, may_estimate: bool) -> None:
        self.machine, self.may_estimate = machine, may_estimate
        self.examined: list[Examination] = []  # of trips that are being executed, those of outer loops first
        self._loops: dict[int, _Loop] = {}
        self._headers: set[int] = set()  # of all loops
        self._skipped: set[int] = set()  # headers of loops that were long before
        self._turns: dict[int, int] = {}  # of loops that repeat after several trips
        self._refuted: dict[int, set[int]] = {}  # where they do not, though they seemed to
        self._may_take_turns = any(step.pipe == "tensor" or step.of_box for step in machine.program.steps)
        columns = [MEMORY_COUNTS.index(name) for name in ("sectors", "passes")]
        rows = machine.bound.memory_rows.values()
        self._work_rows = np.array([row + column for row in rows for column in columns], int)

    # What the scheduler tells

    def enter_from_above(self, index: int, lanes: Lanes) -> None:
        """Take note that threads are about to enter a basic block behind the one executed before."""
        self._put_off_those_left(index)
        if index in self._headers and index not in self.machine.irregular:
            self._begin(index, lanes)

    def enter_from_below(self, index: int, lanes: Lanes, others: int) -> None:
        """Take note that threads are about to enter a basic block not behind the one executed before.

        If it begins a loop, a trip of that is over, and others may be skipped.

        `others` is the first block that other threads are to enter.

        **Raises:** Endless
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

    def follow(self, step: Step, lanes: Lanes) -> None:
        """Examine a step that threads are about to execute."""
        for examination in self.examined[:]:
            try:
                examination.follow(step, lanes)
            except Irregular as reason:
                self._give_up(examination.header, str(reason))

    def end(self, step: Step, lanes: Lanes) -> None:
        """Examine the end of a basic block, of which threads have executed all steps."""
        for examination in self.examined[:]:
            try:
                examination.end(step, lanes)
            except Irregular as reason:
                self._give_up(examination.header, str(reason))

    # Whether a loop is watched, and how

    def _begin(self, header: int, lanes: Lanes) -> None:
        """Watch a loop from here on."""
        self._stop_examining(header)
        loop = self._loops[header] = _Loop(header, lanes, Mark.now(self.machine), self.machine.r[:])
        if header in self._turns:
            loop.turns, loop.next_try = self._turns[header], 2

    def _takes_turns(self, loop: _Loop) -> bool:
        """Whether a loop repeats after several trips, as far as is seen; then it will be watched again."""
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
        """Threads that enter this basic block are no more in some of the loops that are examined."""
        for examination in self.examined[:]:
            if not examination.header <= index <= examination.last:
                self._put_off(self._loops[examination.header])

    def _put_off(self, loop: _Loop) -> None:
        """Look at a loop again after some more trips."""
        self._stop_examining(loop.header)
        later = min(2 * loop.trips + 2, loop.trips + _FIRST_TRY) if loop.history else 2 * loop.trips + 2
        loop.watch_from(max(_FIRST_TRY, later))
        loop.registers, loop.since = None, Mark.now(self.machine)

    def _give_up(self, header: int, why: str) -> None:
        """Run all trips of a loop. Its first ones may be unlike the others."""
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
        """Forget the trip of a loop that is being examined, if one is."""
        ended = [examination.registers for examination in self.examined if examination.header == header]
        for outer in self.examined if ended else ():
            inner = outer.registers.inner
            outer.registers.inner = [registers for registers in inner if registers not in ended]
        self.examined = [examination for examination in self.examined if examination.header != header]

    # Trips

    def _trip_is_over(self, loop: _Loop, others: int) -> None:
        """Go on with a loop, one trip of which was executed."""
        machine = self.machine
        if loop.proof is None and loop.trips < loop.next_try - 1 and not self._worth_an_early_try(loop):
            loop.registers, loop.since = None, Mark.now(machine)
            return
        path = machine.trace[loop.since.trace :]
        alone = all(machine.sets.within(lanes, loop.lanes) for lanes in {id(x): x for _, x in path}.values())
        if not alone or max(index for index, _ in path) >= others:
            self._put_off(loop)
            return
        if loop.proof is not None:
            loop.proof.totals.append(self._memory_work(loop.since))
            if loop.plan is None:
                self._conclude(loop, loop.proof, path)
            else:
                self._go_on(loop, loop.proof, loop.plan)
        elif loop.registers is not None:
            self._examine_next(loop, loop.registers, path)
        if loop.proof is None:
            loop.registers = machine.r[:]
        loop.since = Mark.now(machine)

    def _worth_an_early_try(self, loop: _Loop) -> bool:
        """Whether a loop was long before, or has a long body."""
        return loop.next_try == _FIRST_TRY and (
            loop.header in self._skipped or loop.since.instructions(self.machine) > _WORTH // 2
        )

    def _memory_work(self, since: Mark) -> float:
        """Sectors and passes of all memory instructions since then."""
        return since.counted(self.machine, self._work_rows)

    def _examine_next(self, loop: _Loop, before: list[np.ndarray], path: Path) -> None:
        """See by how much each register has changed in a trip, and carry that along the next trip.

        `before` are the registers as that trip found them, `path` is what it executed.
        """
        machine = self.machine
        live = machine.bound.live[loop.header]
        went_in: dict[int, np.ndarray] = {}
        for slot in range(SLOTS):
            old, new = before[slot], machine.r[slot]
            if old is new or not live >> slot & 1:
                continue
            if slot >= P:
                if (loop.lanes.mask & (old != new)).any():
                    if not self._takes_turns(loop):
                        self._put_off(loop)
                    return
                continue
            change = np.where(loop.lanes.mask, (new - old).view(np.int32), 0).astype(np.int64)
            if change.any():
                went_in[slot] = change
        last = max(index for index, _ in path)
        examination = Examination(machine, loop.header, last, loop.lanes, went_in, self.may_estimate)
        loop.proof = _Proof(
            examination,
            path,
            streams=machine.streams[loop.since.streams :],
            outer=[(outer, dict(outer.registers.by_slot)) for outer in self.examined],
            totals=[self._memory_work(loop.since)],
        )
        for outer in self.examined:
            outer.registers.inner.append(examination.registers)
        self.examined.append(examination)

    def _conclude(self, loop: _Loop, proof: _Proof, path: Path) -> None:
        """The examined trip is over: if each change came out as it went in, the next trips are known."""
        examination, machine = proof.examination, self.machine
        self._stop_examining(loop.header)
        why = examination.why_uneven()
        if why and path != proof.path:
            if not self._takes_turns(loop):
                self._put_off(loop)
            return
        if why:
            raise Irregular(why)
        trips = examination.registers.trips
        if trips >= FOR_EVER:
            raise Endless
        # the last steady trip is executed where a loop around this one is examined, see _check_outer
        left = proof.trips_left = trips - bool(self.examined)
        at_once = not loop.since.closed_phases(machine)
        if examination.why_estimated:
            if left * loop.since.instructions(machine) < _WORTH:
                self._run_those_left(loop, left)
            elif at_once and left < _FEW:
                self._repeat(loop, proof, [loop.since], Repetition(left))
            else:
                loop.plan = _Sampling.of(left, estimated_before=loop.header in self._skipped)
                move_on(machine, examination.went_in, loop.plan.earlier)
        elif examination.period == 1 and at_once and left > 1:
            self._repeat(loop, proof, [loop.since], Repetition(left))
        elif left < 3 * examination.period:
            self._run_those_left(loop, left)
        else:
            loop.plan = _Recording(examination.period)

    def _run_those_left(self, loop: _Loop, trips: int) -> None:
        """Too few trips are left: look again when they are over."""
        if self._takes_turns(loop):
            return
        loop.watch_from(loop.trips + trips + _FIRST_TRY)

    def _go_on(self, loop: _Loop, proof: _Proof, plan: _Recording | _Sampling) -> None:
        """A planned trip was executed: skip the others, or those up to the next that is planned."""
        plan.starts.append(loop.since)
        if isinstance(plan, _Recording):
            if len(plan.starts) == plan.period:
                periods = (proof.trips_left - plan.period) // plan.period
                self._repeat(loop, proof, plan.starts[:1], Repetition(periods, trips=plan.period))
            return
        others = plan.stretch - 1
        if len(plan.starts) < plan.samples:
            check_size(self.machine, loop.since, proof.trips_left)
            repeat_counts(self.machine, loop.since, others)
            move_on(self.machine, proof.examination.went_in, others)
        else:
            self._repeat(loop, proof, plan.starts, Repetition(others, earlier=plan.earlier))

    def _repeat(self, loop: _Loop, proof: _Proof, starts: list[Mark], repetition: Repetition) -> None:
        """Repeat what was done since each of these marks. Of all but the last, the counts are repeated
        already.
        """
        machine, examination = self.machine, proof.examination
        times = repetition.times
        check_size(machine, starts[-1], times)
        if not examination.why_estimated:
            check_phases_alike(machine, starts[-1])
        repeat_counts(machine, starts[-1], times)
        move_on(machine, examination.went_in, times * repetition.trips - repetition.earlier)
        marks = [*starts, Mark.now(machine)]
        no_address = repeat_streams(machine, marks, repetition, examination.strides, proof.streams)
        repeat_trace(machine, marks, times)
        if examination.why_estimated and times:
            self._note_estimate(loop.header, len(starts) * times, proof.totals, no_address)
        for outer, changes in proof.outer:
            self._check_outer(loop, outer, changes)
        self._skipped.add(loop.header)
        loop.watch_from(loop.trips + _FIRST_TRY)

    def _note_estimate(self, header: int, skipped: int, totals: list[float], no_address: float) -> None:
        """So many trips of a loop are estimated, by those with `totals`."""
        known = self.machine.estimated.get(header, Estimated(0, 0.0, 0.0))
        mean = sum(totals) / len(totals)
        spread = (max(totals) - min(totals)) / mean if mean else 0.0
        self.machine.estimated[header] = Estimated(
            known.trips + skipped,
            max(known.spread, spread),
            (known.trips * known.no_address + skipped * no_address) / (known.trips + skipped),
        )

    def _check_outer(self, loop: _Loop, outer: Examination, changes: dict[int, np.ndarray]) -> None:
        """Check that the changes of an outer loop are the same before and after the skipped trips.

        Since no rule lets both loops change the same product or the bits that are shifted out, it then is so
        in all of them; and tests that come out alike in the first and the last trip do so in between.
        """
        live = self.machine.bound.live[loop.header]
        registers = outer.registers
        for slot in {*registers.by_slot, *changes}:
            lives = slot < SLOTS and live >> slot & 1 and slot not in registers.erratic
            if lives and registers.differs(slot, changes.get(slot), loop.lanes):
                self._give_up(outer.header, "a loop inside does not change evenly")
                return


def _evenly(loop: _Loop, slot: int, turns: int) -> bool:
    """Whether a slot changed by the same in the last `turns` turns and in as many before them."""
    first, middle, last = (loop.history[-1 - back * turns][slot] for back in (2, 1, 0))
    if first is middle is last:
        return True
    if slot >= P:
        return not (loop.lanes.mask & ((first != middle) | (middle != last))).any()
    return not (loop.lanes.mask & (middle - first != last - middle)).any()
