"""Skips the trips of a loop that are known to do the same again, and counts them as done.

A loop is skipped where its state is affine: each register that lives from one trip to the next changes by the
same amount every time. That is not guessed from a few trips but proven. One trip is executed with the change
of every register carried along; each instruction must turn changes into changes (sums, multiples), or cut
them off (shifts, compares), and says for how many trips more it will do so. Up to the smallest of these
numbers all branches go the same way, and all addresses move on evenly, so counts repeat: exactly, with a
period where addresses move by less than a line of the cache (128 trips at most).

A loop is estimated where the same holds but for addresses that depend on data: it is then still proven that
all branches go the same way, and what lives from trip to trip is known in every one. Some trips, spread over
the loop, are executed, and each stands for those up to the next. What is estimated are the sectors, lines and
passes of accesses to such addresses; instructions and requests are exact.

Loops may hold barriers, and loops that are skipped themselves.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from dse.cuda.execute.induction import FOR_EVER, Changes, Irregular
from dse.cuda.machine.accesses import LINE
from dse.cuda.machine.state import MEMORY_COUNTS, Estimated, Machine, PhaseSpan, Stream, distance
from dse.cuda.machine.thread_set import Lanes
from dse.cuda.sass.operands import SLOTS, P
from dse.cuda.sass.program import Step

_FIRST_TRY = 6  # trips after which a loop counts as long
_FEW = 16  # trips that are estimated from one of them
_MOST = 500_000  # phases, basic blocks or addresses that a skipped loop may take one by one
_WORTH = 1000  # instructions that an estimate must save
_SAMPLES = range(7, 11)  # trips that an estimate is made from
_LATER_SAMPLES = range(4, 7)  # where the loop was estimated before


class Endless(Exception):
    """A loop is proven to go on for ever."""


@dataclass(frozen=True)
class _Mark:
    """What had been counted at some time."""

    trace: int
    repeats: int
    streams: int
    counts: np.ndarray
    phases: int
    phase: np.ndarray  # of each block


@dataclass
class _Loop:
    """What is known of the loop at one header."""

    lanes: Lanes
    since: _Mark  # this trip's start
    registers: list[np.ndarray] | None  # then; None if they are not wanted
    memory: list[np.ndarray]  # what was stored then, likewise
    trips: int = 0
    next_try: int = _FIRST_TRY
    stage: str = ""  # "examine", "record", "sample": what is done in this trip
    path: list[tuple[int, Lanes]] = field(default_factory=list)
    last: int = 0  # basic block of it
    outer: list[tuple[Changes, dict[int, np.ndarray]]] = field(default_factory=list)  # examined when this is
    before: list[Stream] = field(default_factory=list)  # of the trip before the one that is examined
    found: Changes | None = None
    changes: dict[int, np.ndarray] = field(default_factory=dict)
    trips_left: int = 0
    starts: list[_Mark] = field(default_factory=list)  # of trips that are recorded
    samples: int = 1
    stretch: int = 1  # trips that a sampled one stands for
    earlier: int = 0  # of these, those before it
    totals: list[float] = field(default_factory=list)  # sectors and passes of single trips


class Loops:
    """Watches the loops of a machine."""

    def __init__(self, machine: Machine, estimate: bool) -> None:
        self.machine, self.estimate = machine, estimate
        self.loops: dict[int, _Loop] = {}
        self.headers: set[int] = set()
        self.skipped: set[int] = set()  # headers of loops that were long before
        self.irregular: dict[int, str] = machine.bound.irregular
        self.irregular.clear()
        self.examined: list[Changes] = []  # of loops whose state is examined, the outer ones first
        self.inside: dict[tuple[int, int], tuple[Lanes, Lanes, bool]] = {}
        places = [MEMORY_COUNTS.index(name) for name in ("sectors", "passes")]
        rows = machine.bound.memory_rows.values()
        self.asked = np.array([row + place for row in rows for place in places], int)

    def arrive(self, header: int, lanes: Lanes, again: bool, others: int) -> None:
        """These threads are about to enter a basic block, `again` if from further down. `others` is the
        first block that other threads are to enter.

        **Raises:** Endless
        """
        for changes in self.examined[:]:
            if not changes.header <= header <= self.loops[changes.header].last:
                self._later(changes.header, self.loops[changes.header])
        if not again:
            if header in self.headers and header not in self.irregular:
                self._begin(header, lanes)
            return
        self.headers.add(header)
        if header in self.irregular:
            return
        loop = self.loops.get(header)
        if loop is None or loop.lanes is not lanes:
            self._begin(header, lanes)
            return
        loop.trips += 1
        try:
            self._trip(header, loop, others)
        except Irregular as reason:
            self._give_up(header, str(reason))

    def follow(self, step: Step, lanes: Lanes) -> None:
        """Before a step of loops that are being examined."""
        for changes in self.examined[:]:
            try:
                changes.follow(step, lanes)
            except Irregular as reason:
                self._give_up(changes.header, str(reason))

    def end(self, step: Step, lanes: Lanes) -> None:
        """After all steps of a basic block, which is left by the last."""
        for changes in self.examined[:]:
            try:
                changes.end(step, lanes)
            except Irregular as reason:
                self._give_up(changes.header, str(reason))

    def _begin(self, header: int, lanes: Lanes) -> None:
        self._drop(header)
        self.loops[header] = _Loop(lanes, self._mark(), self.machine.r[:], [])

    def _drop(self, header: int) -> None:
        """Do not examine this loop any more."""
        for changes in self.examined:
            if changes.header == header:
                for outer in self.examined:
                    outer.inner = [each for each in outer.inner if each is not changes]
        self.examined = [changes for changes in self.examined if changes.header != header]

    def _give_up(self, header: int, why: str) -> None:
        """The first trips of a loop may be unlike the others."""
        loop = self.loops.get(header)
        if loop is None or loop.trips >= _FIRST_TRY:
            self.irregular[header] = why
            self.loops.pop(header, None)
            self._drop(header)
        else:
            self._later(header, loop)

    def _later(self, header: int, loop: _Loop) -> None:
        self._drop(header)
        loop.stage, loop.registers, loop.next_try = "", None, max(_FIRST_TRY, 2 * loop.trips + 2)
        loop.since = self._mark()

    def _mark(self) -> _Mark:
        machine = self.machine
        return _Mark(
            len(machine.trace),
            len(machine.repeats),
            len(machine.streams),
            machine.counts.copy(),
            len(machine.phases),
            machine.phase,
        )

    def _trip(self, header: int, loop: _Loop, others: int) -> None:
        """A trip is over."""
        machine = self.machine
        first = loop.next_try == _FIRST_TRY
        early = first and (header in self.skipped or self._steps(loop.since) > _WORTH // 2)
        if not loop.stage and loop.trips < loop.next_try - 1 and not early:
            loop.registers, loop.since = None, self._mark()
            return
        path = machine.trace[loop.since.trace :]
        if max(index for index, _ in path) >= others or not self._alone(loop, path):
            self._later(header, loop)
            return
        loop.totals.append(self._total(loop.since))
        match loop.stage:
            case "examine":
                self._conclude(header, loop, path)
            case "record":
                self._record(header, loop)
            case "sample":
                self._sample(header, loop)
            case _ if loop.registers is not None:
                self._compare(header, loop, path)
        if not loop.stage:
            loop.registers = machine.r[:]
        loop.since = self._mark()

    def _alone(self, loop: _Loop, path: list[tuple[int, Lanes]]) -> bool:
        """Whether only threads of the loop were executed."""
        for lanes in {id(lanes): lanes for _, lanes in path}.values():
            key = (id(loop.lanes), id(lanes))
            known = self.inside.get(key)
            if known is None or known[0] is not loop.lanes or known[1] is not lanes:
                inside = not (lanes.mask & ~loop.lanes.mask).any()
                known = self.inside[key] = (loop.lanes, lanes, inside)
            if not known[2]:
                return False
        return True

    def _compare(self, header: int, loop: _Loop, path: list[tuple[int, Lanes]]) -> None:
        """See by how much each register has changed in a trip, and carry that along the next trip."""
        machine = self.machine
        assert loop.registers is not None
        live = machine.bound.live[header]
        loop.changes = {}
        for slot in range(SLOTS):
            before, now = loop.registers[slot], machine.r[slot]
            if before is now or not live >> slot & 1:
                continue
            if slot >= P:
                if (loop.lanes.mask & (before != now)).any():
                    self._later(header, loop)
                    return
                continue
            change = np.where(loop.lanes.mask, (now - before).view(np.int32), 0).astype(np.int64)
            if change.any():
                loop.changes[slot] = change
        loop.path, loop.last, loop.memory = path, max(index for index, _ in path), self._memory()
        loop.totals, loop.outer = loop.totals[-1:], [(each, dict(each.by_slot)) for each in self.examined]
        loop.before = machine.streams[loop.since.streams :]
        loop.found = Changes(machine, header, loop.lanes, dict(loop.changes), self.estimate)
        for outer in self.examined:
            outer.inner.append(loop.found)
        self.examined.append(loop.found)
        loop.stage = "examine"

    def _memory(self) -> list[np.ndarray]:
        local = self.machine.local.words
        return [self.machine.shared.words.copy(), *(local[place] for place in sorted(local))]

    def _conclude(self, header: int, loop: _Loop, path: list[tuple[int, Lanes]]) -> None:
        """The trip with changes is over: if each came out as it went in, the next trips are known."""
        changes = loop.found
        assert changes is not None
        self._drop(header)
        uneven = self._uneven(header, loop, changes)
        if uneven and path != loop.path:
            self._later(header, loop)
            return
        if uneven:
            raise Irregular(uneven)
        if changes.trips >= FOR_EVER:
            raise Endless
        # the last steady trip is executed where a loop around this one is examined, see _check_outer
        left = loop.trips_left = changes.trips - bool(self.examined)
        at_once = not self._closed(loop.since)
        loop.starts = []
        if changes.estimated:
            if left * self._steps(loop.since) < _WORTH:
                self._rest(loop)
            elif at_once and left < _FEW:
                self._repeat_all(header, loop, [loop.since], left)
            else:
                several = _LATER_SAMPLES if header in self.skipped else _SAMPLES
                several = several if left >= _FEW else (1,)
                loop.samples = min(several, key=lambda count: (left % count, -count))
                loop.stretch, loop.stage = left // loop.samples, "sample"
                loop.earlier = (loop.stretch - 1) // 2
                self._move_on(loop, loop.earlier)
        elif changes.period == 1 and at_once and left > 1:
            self._repeat_all(header, loop, [loop.since], left)
        elif left < 3 * changes.period:
            self._rest(loop)
        else:
            loop.stage = "record"

    def _check_size(self, since: _Mark, times: int) -> None:
        """What cannot be written down as a repetition must not be too much."""
        entries = len(self._closed(since))
        if len(self.machine.repeats) > since.repeats:
            entries += len(self.machine.trace) - since.trace + len(self.machine.streams) - since.streams
        if times * entries > _MOST:
            raise Irregular("it makes too many trips with barriers or loops in them")

    def _uneven(self, header: int, loop: _Loop, changes: Changes) -> str:
        """Why the changes of a trip are not those of the next; empty if they are."""
        live = self.machine.bound.live[header]
        for slot in {*changes.by_slot, *changes.erratic, *loop.changes}:
            if slot >= SLOTS or not live >> slot & 1:
                continue
            if why := changes.lost([slot], loop.lanes):
                return why
            went_in, came_out = loop.changes.get(slot), changes.by_slot.get(slot)
            if (loop.lanes.mask & (_or_zero(went_in) != _or_zero(came_out))).any():
                return f"register slot {slot} does not change evenly"
        if changes.stores:
            now = self._memory()
            if len(now) != len(loop.memory) or not all(map(np.array_equal, now, loop.memory)):
                return "what it stores differs from trip to trip"
        return ""

    def _rest(self, loop: _Loop) -> None:
        """Too few trips are left: look again when they are over."""
        loop.stage, loop.next_try = "", loop.trips + loop.trips_left + _FIRST_TRY

    def _record(self, header: int, loop: _Loop) -> None:
        """After a whole period was counted, skip as many periods as are left."""
        assert loop.found is not None
        loop.starts.append(loop.since)
        period = loop.found.period
        if len(loop.starts) == period:
            self._repeat_all(header, loop, loop.starts[:1], (loop.trips_left - period) // period, period)

    def _sample(self, header: int, loop: _Loop) -> None:
        """A trip was executed that stands for those around it too: go on with the next that does."""
        loop.starts.append(loop.since)
        more = loop.stretch - 1
        if len(loop.starts) < loop.samples:
            self._check_size(loop.since, loop.trips_left)
            self._repeat_counts(loop, loop.since, more)
            self._move_on(loop, more)
        else:
            self._repeat_all(header, loop, loop.starts, more, earlier=loop.earlier)

    def _repeat_all(
        self, header: int, loop: _Loop, starts: list[_Mark], times: int, trips: int = 1, earlier: int = 0
    ) -> None:
        """What was done since each of these is done so many times more, some of them earlier; it took so many
        trips. Of all but the last, only the addresses and the order of execution are left to repeat.
        """
        assert loop.found is not None
        self._check_size(starts[-1], times)
        self._repeat_counts(loop, starts[-1], times)
        self._move_on(loop, times * trips - earlier)
        marks = [*starts, self._mark()]
        omitted = self._repeat_streams(loop, marks, times, trips, earlier)
        self._repeat_trace(marks, times)
        if loop.found.estimated:
            known = self.machine.estimated.get(header, Estimated(0, 0.0, 0.0))
            mean = sum(loop.totals) / len(loop.totals)
            spread = (max(loop.totals) - min(loop.totals)) / mean if mean else 0.0
            skipped = len(starts) * times
            self.machine.estimated[header] = Estimated(
                known.trips + skipped,
                max(known.spread, spread),
                (known.trips * known.no_address + skipped * omitted) / (known.trips + skipped),
            )
        for outer, changes in loop.outer:
            self._check_outer(header, loop, outer, changes)
        self.skipped.add(header)
        loop.stage, loop.next_try = "", loop.trips + _FIRST_TRY

    def _check_outer(self, header: int, loop: _Loop, outer: Changes, changes: dict[int, np.ndarray]) -> None:
        """What a loop around this one changes must be the same before and after the trips that are skipped.

        Since no rule lets both loops change the same product or the bits that are shifted out, it then is so
        in all of them; and tests that come out alike in the first and the last trip do so in between.
        """
        live = self.machine.bound.live[header]
        for slot in {*outer.by_slot, *changes}:
            if slot < SLOTS and live >> slot & 1 and slot not in outer.erratic:
                before, now = changes.get(slot), outer.by_slot.get(slot)
                if (loop.lanes.mask & (_or_zero(before) != _or_zero(now))).any():
                    self._give_up(outer.header, "a loop inside does not change evenly")
                    return

    def _move_on(self, loop: _Loop, trips: int) -> None:
        for slot, change in loop.changes.items():
            self.machine.r[slot] = self.machine.r[slot] + (trips * change).astype(np.uint64).astype(np.uint32)

    # Counts and phases

    def _closed(self, since: _Mark) -> list[int]:
        """Phases that are over since then."""
        numbers = {*since.phase.tolist(), *range(since.phases, len(self.machine.phases))}
        return [number for number in sorted(numbers) if self.machine.phase_counts[number] is not None]

    def _steps(self, since: _Mark) -> int:
        """Instructions of the basic blocks that were executed since then."""
        blocks = self.machine.program.blocks
        return sum(len(blocks[index].steps) for index, _ in self.machine.trace[since.trace :])

    def _total(self, since: _Mark) -> float:
        machine = self.machine
        total = (machine.counts - since.counts)[self.asked].sum()
        for number in self._closed(since):
            counts = machine.phase_counts[number]
            assert counts is not None
            total += counts[self.asked].sum()
        return float(total)

    def _repeat_counts(self, loop: _Loop, since: _Mark, times: int) -> None:
        machine = self.machine
        closed = self._closed(since)
        if not closed:
            machine.counts = machine.counts + times * (machine.counts - since.counts)
            return
        assert loop.found is not None
        before, now = (
            [machine.phases[n].opened for n in each.tolist()] for each in (since.phase, machine.phase)
        )
        same = loop.found.estimated or np.array_equal(since.counts, machine.counts)
        if before != now or not same:
            raise Irregular("its phases are not alike")
        for _ in range(times):
            for number in closed:
                phase = machine.phases[number]
                machine.phases.append(PhaseSpan(phase.opened, phase.closed))
                machine.phase_counts.append(machine.phase_counts[number])

    # Order of execution

    def _repeat_trace(self, marks: Sequence[_Mark], times: int) -> None:
        """Basic blocks. Those of a loop inside that was skipped are written down every time."""
        trace, repeats = self.machine.trace, self.machine.repeats
        first, last = marks[0], marks[-1]
        if last.repeats == first.repeats:
            repeats.append((first.trace, last.trace, times))
            return
        parts = [
            (
                trace[mark.trace : after.trace],
                [
                    (start - mark.trace, end - mark.trace, more)
                    for start, end, more in repeats[mark.repeats : after.repeats]
                ],
            )
            for mark, after in pairwise(marks)
        ]
        del trace[first.trace :], repeats[first.repeats :]
        for blocks, inner in parts:
            for _ in range(times + 1):
                place = len(trace)
                trace += blocks
                repeats += [(place + start, place + end, more) for start, end, more in inner]

    # Addresses

    def _repeat_streams(
        self, loop: _Loop, marks: Sequence[_Mark], times: int, trips: int, earlier: int
    ) -> float:
        """The share of the requests whose addresses are not known."""
        assert loop.found is not None
        streams = self.machine.streams
        parts = [streams[mark.streams : after.streams] for mark, after in pairwise(marks)]
        del streams[marks[0].streams :]
        strides = loop.found.strides
        omitted = requests = 0.0
        for place, part in enumerate(parts):
            drift: dict[int, float] = {}
            if any(strides[stream.step] is None for stream in part):
                if place + 1 < len(parts):
                    drift = _drift(part, parts[place + 1], times + 1)
                elif place:
                    drift = _drift(parts[place - 1], part, times + 1)
                else:
                    drift = _drift(loop.before, part, 1)
            moved: list[tuple[Stream, float]] = []
            for stream in part:
                count = float(stream.lanes.warps.sum()) * stream.repeats
                stride = strides[stream.step]
                requests += count
                if stride is not None:
                    moved.append((stream, stride * trips))
                elif stream.step in drift:
                    moved.append((stream, drift[stream.step]))
                else:
                    omitted += count
            streams += _moved(moved, range(-earlier, 0))
            streams += part
            streams += _moved(moved, range(1, times - earlier + 1))
        return omitted / requests if requests else 0.0


def _or_zero(change: np.ndarray | None) -> np.ndarray:
    return np.zeros((1, 1), np.int64) if change is None else change


def _moved(streams: Sequence[tuple[Stream, float]], times: range) -> Iterator[Stream]:
    """These streams again, each time as many bytes on as stand beside them: whole numbers are exact."""
    if all(stream.repeats == 1 for stream, _ in streams):
        if times:
            yield from (replace(stream, trips=times, stride=stride) for stream, stride in streams)
        return
    on = [distance(np.array(times), stride).tolist() for _, stride in streams]
    for every in zip(*on, strict=True):
        for (stream, _), apart in zip(streams, every, strict=True):
            yield replace(stream, offset=stream.offset + apart)


def _drift(before: Iterable[Stream], after: Iterable[Stream], trips: int) -> dict[int, float]:
    """Bytes that each memory instruction moves on by in a trip, on average; those whose threads move on
    together.
    """
    found: dict[int, float] = {}
    earlier, later = _ends(before), _ends(after)
    for step in earlier.keys() & later.keys():
        means = []
        for old, new in zip(earlier[step], later[step], strict=True):
            if old.lanes is not new.lanes:
                break
            apart = _last(new) - _last(old)
            shape = np.broadcast_shapes(apart.shape, new.lanes.mask.shape)
            chosen = np.broadcast_to(apart, shape)[np.broadcast_to(new.lanes.mask, shape)]
            mean = float(chosen.mean())
            if np.ptp(chosen) > max(LINE, abs(mean) / 4):
                break
            means.append(mean)
        if len(means) == 2:
            found[step] = sum(means) / 2 / trips
    return found


def _ends(streams: Iterable[Stream]) -> dict[int, tuple[Stream, Stream]]:
    """The first and the last execution of each memory instruction."""
    found: dict[int, tuple[Stream, Stream]] = {}
    for stream in streams:
        found[stream.step] = (found[stream.step][0] if stream.step in found else stream, stream)
    return found


def _last(stream: Stream) -> np.ndarray:
    return stream.base + stream.offsets()[-1]
