"""Skip the trips of a loop that are known to do the same again, and count them as executed.

One trip is executed together with the change of every register (`dse.source.amd.execute.changes`), which
yields the number of trips in which all branches go the same way and all strides are constant. If addresses
move by less than a cache line, a whole period of trips is executed and then repeated. If addresses, but no
branches, depend on data, some trips are executed, spread over the loop, and each represents those around it:
instructions are then exact, and addresses estimated. A loop around a skipped one is run.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from math import gcd, lcm, nan
from typing import Any

import numpy as np

from dse.errors import DseError
from dse.hardware.coalescing import LINE
from dse.source.amd.execute.changes import ChangeRules, moved
from dse.source.amd.execute.code import Code, Stretch
from dse.source.amd.execute.contents import MemoryMachine, PerformedAccess
from dse.source.amd.execute.memory_names import memory_access
from dse.source.amd.execute.slots import EXEC, SCC, VCC
from dse.source.amd.execute.state import Waves
from dse.source.amd.text import Instruction
from dse.source.machine.alike import Apart
from dse.source.machine.recorded import Estimated
from dse.source.machine.sampling import SAMPLES, Plan, Repetition
from dse.source.machine.trips import FOR_EVER, Irregular

_FIRST_TRY = 2  # trips before one is examined
_MOST_TRIES = 5
_MOST_ROUNDS = 4  # of a loop that count as one trip: the buffers of software pipelines
_LONGEST = 20_000  # stretches of a trip that may be skipped
_SHORT = 40  # trips
_FEW = 128  # trips that are run where none may be estimated; more take seconds and gigabytes
_WORTH = 300  # instructions that must be saved


@dataclass(frozen=True)
class _Mark:
    """Lengths of a machine's records at some time."""

    trace: int
    accesses: int
    repeats: int

    @staticmethod
    def now(machine: MemoryMachine) -> "_Mark":
        return _Mark(len(machine.trace), len(machine.accesses), len(machine.repeats))


@dataclass
class _Loop:
    """A watched loop, by the first stretch of its trips."""

    header: int
    waves: Waves
    since: _Mark  # start of this trip
    registers: dict[Any, Any] | None = None  # at that time, see `MemoryMachine.held`
    rounds: int = 1  # of the loop that count as one trip
    round: int = 0
    trips: int = 0
    made: int = 0  # trips, including skipped ones
    next_try: int = _FIRST_TRY
    tries: int = 0
    examined: ChangeRules | None = None
    began: dict[Any, Any] = field(default_factory=dict)  # registers at the start of the examined trip
    proof: ChangeRules | None = None  # of an examined trip
    of_blocks: list[dict[Any, Any]] = field(default_factory=list)  # changes from block to block then
    plan: Plan | None = None


class WaveLoopSkipper:
    """Watches the loops of a running machine, and skips trips."""

    def __init__(self, machine: MemoryMachine, code: Code, endless: Callable[[int], DseError]) -> None:
        self.machine, self.code, self.endless = machine, code, endless
        self.examined: _Loop | None = None
        self.blocks: list[ChangeRules] = []  # the changes from block to block, along dimensions of the grid
        self._loops: dict[int, _Loop] = {}
        self._short: set[int] = set()  # loops with few trips that are repeated: a loop around them is skipped

    # Events from the scheduler

    def trip(self, index: int, waves: Waves, others: Collection[int]) -> None:
        """Note that waves are about to enter a stretch that is not after the one executed before.

        `others` are the stretches that other waves are to enter.
        """
        machine = self.machine
        if index in machine.irregular:
            return
        loop = self._loops.get(index)
        if loop is None or loop.waves is not waves:
            self._begin(index, waves)
            return
        if any(at < index for at, _, _ in machine.trace[loop.since.trace :]):  # left and entered again
            (self._short.add if loop.made <= _SHORT else self._short.discard)(index)
            self._begin(index, waves, loop.tries)
            return
        loop.round, loop.made = loop.round + 1, loop.made + 1
        if loop.round < loop.rounds:
            return
        loop.round, loop.trips = 0, loop.trips + 1
        unwatched = loop.plan is None and loop.examined is None and loop.registers is None
        if (index in self._short and loop.made <= _SHORT) or (unwatched and loop.trips < loop.next_try - 1):
            loop.since = _Mark.now(machine)
            return
        if not self._alone(loop, others):
            self._begin(index, waves, loop.tries + 1)
            return
        try:
            self._trip_is_over(loop)
        except Irregular as reason:
            self._put_off(loop, str(reason))
        loop.since = _Mark.now(machine)

    def _alone(self, loop: _Loop, others: Collection[int]) -> bool:
        """Return whether the last trip had all waves of the loop, and no others wait inside it."""
        path = self.machine.trace[loop.since.trace :]
        if len(path) > _LONGEST:
            loop.tries += _MOST_TRIES
            return False
        strangers = {id(waves): waves for _, waves, _ in path if waves is not loop.waves}.values()
        last = max(at for at, _, _ in path)
        inside = any(loop.header <= at <= last for at in others)
        return not inside and not any((waves.mask & ~loop.waves.mask).any() for waves in strangers)

    @property
    def followed(self) -> list[ChangeRules]:
        """The changes that are followed through each instruction."""
        loop = self.examined
        return self.blocks if loop is None or loop.examined is None else [*self.blocks, loop.examined]

    def follow(self, stretch: Stretch) -> None:
        """Execute a stretch together with the changes of registers."""
        for step, action in stretch.actions:
            following = [
                (changes, changes.follow(step, action)) for changes in self.followed if changes.concerns(step)
            ]
            self._each(following)
            action(self.machine)
            self._each(following)

    def _each(self, following: list[tuple[ChangeRules, Iterator[None]]]) -> None:
        """Follow an instruction up to its execution, or from there on."""
        for changes, part in following:
            try:
                next(part, None)
            except Irregular as reason:
                self._not_even(changes, str(reason))

    def _not_even(self, changes: ChangeRules, why: str) -> None:
        if self.examined is None or self.examined.examined is not changes:
            raise Apart(why)
        self._put_off(self.examined, why)

    def branch(self, step: Instruction, name: str) -> None:
        """Examine the condition of a branch."""
        slots = {"scc": (SCC,), "vcc": (VCC, VCC + 1), "exe": (EXEC,)}[name[:3]]
        for changes in self.followed:
            if [slot for slot in slots if changes.read(slot) is not None]:
                self._not_even(changes, f"{step} depends on what does not change evenly")

    # Whether a loop is watched, and how

    def _begin(self, header: int, waves: Waves, tries: int = 0) -> None:
        old = self._loops.get(header)
        if old is not None and self.examined is old:
            self.examined = None
        if tries > _MOST_TRIES * 4:
            self.machine.irregular[header] = "others join it"
            return
        self._loops[header] = _Loop(header, waves, _Mark.now(self.machine), tries=tries)

    def _put_off(self, loop: _Loop, why: str) -> None:
        """Examine a loop again after some more trips, or not at all."""
        if self.examined is loop:
            self.examined = None
        loop.examined = loop.plan = loop.registers = None
        loop.round = 0
        if self._with_more_rounds(loop):
            return
        loop.tries += 1
        loop.next_try = 2 * loop.trips + 2
        if loop.tries >= _MOST_TRIES:
            self.machine.irregular[loop.header] = why

    def _with_more_rounds(self, loop: _Loop) -> bool:
        """Add a round to a trip and examine it next; return to one round after the maximum."""
        loop.rounds = loop.rounds % _MOST_ROUNDS + 1
        loop.next_try = loop.trips + 2
        return loop.rounds > 1

    # Trips

    def _trip_is_over(self, loop: _Loop) -> None:
        machine = self.machine
        if loop.plan is not None and loop.proof is not None:
            self._go_on(loop, loop.proof, loop.plan)
        elif loop.examined is not None:
            self._conclude(loop, loop.examined)
        elif loop.registers is not None:
            self._examine(loop)
        elif loop.trips >= loop.next_try - 1:
            loop.registers = machine.held()

    def _examine(self, loop: _Loop) -> None:
        """Compute the change of each register in a trip, and propagate it through the next one."""
        machine = self.machine
        if len(machine.repeats) > loop.since.repeats:
            raise Irregular("a loop inside is skipped")
        if self.examined is not None:
            self._put_off(self.examined, "a loop inside is examined")
        assert loop.registers is not None
        changes = loop.examined = ChangeRules(machine, self.code.binder, {}, self._lanes(loop))
        changes.went_in = changes.since(loop.registers)
        changes.moving |= changes.went_in
        self.examined, loop.registers, loop.began = loop, None, machine.held()
        loop.of_blocks = [dict(changes.moving) for changes in self.blocks]

    def _lanes(self, loop: _Loop) -> np.ndarray:
        """Return the lanes that took part in the last trip; where it begins, others may be active."""
        path = self.machine.trace[loop.since.trace :]
        masks = {(id(waves), id(lanes)): lanes & waves.mask for _, waves, lanes in path}
        return reduce(np.bitwise_or, masks.values())

    def _conclude(self, loop: _Loop, changes: ChangeRules) -> None:
        """After an examined trip: if each change ended as it began, the next trips are known."""
        machine = self.machine
        self.examined, loop.examined = None, None
        if len(machine.repeats) > loop.since.repeats:
            raise Irregular("a loop inside is skipped")
        if (self._lanes(loop) & ~changes.lanes).any():
            raise Irregular("other lanes take part")
        if why := changes.why_uneven(changes.since(loop.began)):
            raise Irregular(why)
        if changes.trips >= FOR_EVER:
            raise self.endless(loop.header)
        if self.blocks and changes.trips:
            changes.trips -= 1  # the last steady trip is executed, see _check_blocks
        trips, strides, loop.proof = changes.trips, changes.strides, changes
        length = sum(len(self.code.stretches[at].steps) for at, _, _ in machine.trace[loop.since.trace :])
        worth = trips * length >= _WORTH
        if not worth and self._with_more_rounds(loop):
            return
        accesses = zip(machine.accesses[loop.since.accesses :], strides, strict=True)
        period = lcm(
            *(LINE // gcd(stride, LINE) for access, stride in accesses if stride and self._in_lines(access))
        )
        if not worth or trips < (2 * SAMPLES[0] if None in strides else 1 if period == 1 else 3 * period):
            loop.next_try = loop.trips + trips + 2
        elif None in strides:
            if machine.exact and trips > _FEW:
                raise DseError(f"{self.code.listing.name}: {trips} trips of a loop would be estimated")
            if machine.exact:
                raise Irregular("its trips would be estimated")
            loop.plan = Plan.of_samples(trips)
            self._move(changes.moving, loop.plan.earlier)
        elif period == 1:
            self._repeat(loop, changes, [loop.since], Repetition(trips))
        else:
            loop.plan = Plan(period)

    def _in_lines(self, access: PerformedAccess) -> bool:
        """Return whether an access is to memory that is cached by lines."""
        accessed = memory_access(self.code.listing.instructions[access.index].opcode)
        return accessed is not None and accessed.space in ("vmem", "flat", "smem") and access.space != "lds"

    def _go_on(self, loop: _Loop, proof: ChangeRules, plan: Plan) -> None:
        """After a planned trip: skip the others, or those up to the next planned one."""
        machine = self.machine
        if len(machine.accesses) - loop.since.accesses != len(proof.strides):
            raise Irregular("trips are not alike")
        ahead = plan.next(loop.since, proof.trips)
        if not isinstance(ahead, Repetition):
            self._move(proof.moving, ahead)
            return
        self._repeat(loop, proof, plan.starts, ahead)
        if plan.stretch:
            before = machine.estimated[loop.header].trips if loop.header in machine.estimated else 0
            machine.estimated[loop.header] = Estimated(before + plan.parts * ahead.times, nan)
        loop.plan, loop.next_try = None, loop.trips + _FIRST_TRY

    def _move(self, changes: dict[Any, Any], trips: int) -> None:
        """Advance the registers by a number of trips."""
        machine = self.machine
        if not trips:
            return
        for slot, change in changes.items():
            machine.hold(slot, moved(machine.register(slot), change, trips))

    def _repeat(self, loop: _Loop, proof: ChangeRules, starts: list[_Mark], repetition: Repetition) -> None:
        """Let the work since each of these marks stand for its repetitions too."""
        machine, marks = self.machine, [*starts, _Mark.now(self.machine)]
        times, trips, earlier = repetition.times, repetition.trips, repetition.earlier
        self._move(proof.moving, times * trips - earlier)
        loop.made += len(starts) * times * trips
        for changes, before in zip(self.blocks, loop.of_blocks, strict=True):
            self._check_blocks(changes, before)
        for number, (mark, after) in enumerate(pairwise(marks)):
            machine.repeats.append((mark.trace, after.trace, times))
            for place, stride in enumerate(proof.strides * trips):
                drift = self._drift(marks, number, place, times + 1) if stride is None else stride * trips
                access = machine.accesses[mark.accesses + place]
                machine.accesses[mark.accesses + place] = access._replace(
                    trips=range(-earlier, times + 1 - earlier), stride=drift
                )

    def _check_blocks(self, changes: ChangeRules, before: dict[Any, Any]) -> None:
        """Check that the changes from block to block are the same before and after the skipped trips.

        Since no rule lets both change the same product or the bits that are shifted out, they then are the
        same in all trips; and tests with equal results in the first and last trip have them in between.

        **Raises:** Apart
        """
        for slot in {*changes.moving, *before}:
            if not isinstance(changes.moving.get(slot), str) and not changes.alike(slot, before.get(slot)):
                raise Apart("a loop does not change evenly from block to block")

    def _drift(self, marks: list[_Mark], number: int, place: int, stretch: int) -> float:
        """Return the mean stride of an access per trip between executed trips, in bytes."""
        other = number + 1 if number + 2 < len(marks) else number - 1
        if other < 0:
            return 0.0
        here, there = (self.machine.accesses[marks[n].accesses + place] for n in (number, other))
        if here.lanes is not there.lanes and not np.array_equal(here.lanes, there.lanes):
            return 0.0
        shape = np.broadcast_shapes(here.base.shape, there.base.shape, here.lanes.shape)
        apart = np.broadcast_to(there.base - here.base, shape)[np.broadcast_to(here.lanes, shape)]
        return float(apart.mean()) / (stretch * (other - number)) if apart.size else 0.0
