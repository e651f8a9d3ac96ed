"""Record the repetition of a machine's work: counts, order of execution and addresses.

The records between two marks are those of one trip of a loop, or of a whole period.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from dse.hardware.coalescing import LINE
from dse.source.machine.recorded import PhaseSpan, Stream, distance
from dse.source.machine.sampling import Repetition
from dse.source.machine.trips import Irregular
from dse.source.nvidia.machine.state import Machine

_MOST = 500_000  # phases, basic blocks or addresses that may be recorded one by one


@dataclass(frozen=True)
class Mark:
    """Lengths of a machine's records at some time."""

    trace: int  # lengths
    repeats: int
    streams: int
    phases: int
    phase: np.ndarray  # of each block
    counts: np.ndarray

    @staticmethod
    def now(machine: Machine) -> "Mark":
        """Mark the present state."""
        return Mark(
            trace=len(machine.trace),
            repeats=len(machine.repeats),
            streams=len(machine.streams),
            phases=len(machine.phases),
            phase=machine.phase,
            counts=machine.counts.copy(),
        )

    def closed_phases(self, machine: Machine) -> list[int]:
        """List the phases that have ended since then."""
        numbers = {*self.phase.tolist(), *range(self.phases, len(machine.phases))}
        return [number for number in sorted(numbers) if machine.phase_counts[number] is not None]

    def instructions(self, machine: Machine) -> int:
        """Count the instructions of the basic blocks executed since then."""
        blocks = machine.program.blocks
        return sum(len(blocks[index].steps) for index, _ in machine.trace[self.trace :])

    def counted(self, machine: Machine, rows: np.ndarray) -> float:
        """Sum up some rows of the counters since then."""
        total = (machine.counts - self.counts)[rows].sum()
        for number in self.closed_phases(machine):
            counts = machine.phase_counts[number]
            assert counts is not None
            total += counts[rows].sum()
        return float(total)


def check_size(machine: Machine, since: Mark, times: int) -> None:
    """Check the size of the records that must be repeated one by one.

    **Raises:** Irregular if it is too large.
    """
    entries = len(since.closed_phases(machine))
    if len(machine.repeats) > since.repeats:
        entries += len(machine.trace) - since.trace + len(machine.streams) - since.streams
    if times * entries > _MOST:
        raise Irregular("it makes too many trips with barriers or loops in them")


def move_on(machine: Machine, changes: Mapping[int, np.ndarray], trips: int) -> None:
    """Advance the registers by a number of trips. `changes` are of one trip, by slot."""
    for slot, change in changes.items():
        machine.r[slot] = machine.r[slot] + (trips * change).astype(np.uint64).astype(np.uint32)


def forget(machine: Machine, first: Mark, last: Mark) -> None:
    """Drop what was recorded between two marks, unless threads met at barriers or trips were skipped."""
    if first.closed_phases(machine) or len(machine.repeats) > first.repeats:
        return
    del machine.trace[first.trace : last.trace], machine.streams[first.streams : last.streams]
    machine.counts = machine.counts - (last.counts - first.counts)


# Counts and phases


def repeat_counts(machine: Machine, since: Mark, times: int) -> None:
    """Repeat the counts since a mark.

    **Raises:** Irregular if its phase and the present one began at different barriers.
    """
    closed = since.closed_phases(machine)
    if not closed:
        machine.counts = machine.counts + times * (machine.counts - since.counts)
        return
    before, now = (
        [machine.phases[number].opened for number in phase.tolist()] for phase in (since.phase, machine.phase)
    )
    if before != now:
        raise Irregular("its phases are not alike")
    for _ in range(times):
        for number in closed:
            span = machine.phases[number]
            machine.phases.append(PhaseSpan(span.opened, span.closed))
            machine.phase_counts.append(machine.phase_counts[number])


# Order of execution


def repeat_trace(machine: Machine, marks: Sequence[Mark], times: int) -> None:
    """Repeat the basic blocks between successive marks, in order.

    Those of an inner loop that was skipped are recorded every time.
    """
    trace, repeats = machine.trace, machine.repeats
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
            offset = len(trace)
            trace += blocks
            repeats += [(offset + start, offset + end, more) for start, end, more in inner]


# Addresses


def repeat_streams(
    machine: Machine,
    marks: Sequence[Mark],
    repetition: Repetition,
    strides: Mapping[int, int | None],
    before: tuple[Iterable[Stream], int],
) -> None:
    """Repeat the addresses between the marks.

    `strides` are bytes per trip, by memory instruction. If None, the mean from one part to the next is taken,
    or since the trip `before`, so many before the first part; requests whose threads move differently are
    left out.
    """
    streams = machine.streams
    parts = [streams[mark.streams : after.streams] for mark, after in pairwise(marks)]
    del streams[marks[0].streams :]
    times, earlier = repetition.times, repetition.earlier
    for number, part in enumerate(parts):
        drift: dict[int, float] = {}
        if any(strides[stream.step] is None for stream in part):
            if number + 1 < len(parts):
                drift = _drift(part, parts[number + 1], times + 1)
            elif number:
                drift = _drift(parts[number - 1], part, times + 1)
            else:
                drift = _drift(before[0], part, before[1])
        moving: list[tuple[Stream, float]] = []
        for stream in part:
            stride = strides[stream.step]
            if stride is not None:
                moving.append((stream, stride * repetition.trips))
            elif stream.step in drift:
                moving.append((stream, drift[stream.step]))
        streams += _moved(moving, range(-earlier, 0))
        streams += part
        streams += _moved(moving, range(1, times - earlier + 1))


def _moved(streams: Sequence[tuple[Stream, float]], times: range) -> Iterator[Stream]:
    """Repeat these streams, each time moved by their bytes, which are exact if whole."""
    if all(stream.repeats == 1 for stream, _ in streams):
        if times:
            yield from (replace(stream, trips=times, stride=stride) for stream, stride in streams)
        return
    distances = [distance(np.array(times), stride).tolist() for _, stride in streams]
    for of_streams in zip(*distances, strict=True):
        for (stream, _), moved in zip(streams, of_streams, strict=True):
            yield replace(stream, offset=stream.offset + moved)


def _drift(before: Iterable[Stream], after: Iterable[Stream], trips: int) -> dict[int, float]:
    """Return the mean stride per trip of each memory instruction whose threads have the same, in bytes."""
    drift: dict[int, float] = {}
    earlier, later = _ends(before), _ends(after)
    for step in earlier.keys() & later.keys():
        means = []
        for old, new in zip(earlier[step], later[step], strict=True):
            if old.lanes is not new.lanes:
                break
            drifts = new.lanes.of(_last_address(new) - _last_address(old))
            mean = float(drifts.mean())
            if np.ptp(drifts) > max(LINE, abs(mean) / 4):
                break
            means.append(mean)
        if len(means) == 2:
            drift[step] = sum(means) / 2 / trips
    return drift


def _ends(streams: Iterable[Stream]) -> dict[int, tuple[Stream, Stream]]:
    """Return the first and the last execution of each memory instruction."""
    ends: dict[int, tuple[Stream, Stream]] = {}
    for stream in streams:
        first = ends[stream.step][0] if stream.step in ends else stream
        ends[stream.step] = (first, stream)
    return ends


def _last_address(stream: Stream) -> np.ndarray:
    return stream.base + stream.offsets()[-1]
