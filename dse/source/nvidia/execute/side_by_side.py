"""Run trips of a loop side by side, as if they were blocks, if data affect addresses but not branches.

This is not proven before but checked afterwards. Several trips begin with the registers that they have if
each trip changes them as the last one did. If each trip goes the same way, and ends with the registers that
the next one began with, the result is that of consecutive trips.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np

from dse.errors import DseError
from dse.source.machine.alike import Apart
from dse.source.machine.liveness import Purpose
from dse.source.machine.recorded import Stream
from dse.source.machine.thread_set import Lanes, LaneSets
from dse.source.nvidia.execute.induction import Examination
from dse.source.nvidia.execute.loop_skipping import LoopSkipper, Path
from dse.source.nvidia.execute.register_changes import changes_since
from dse.source.nvidia.execute.tiling import Tiling
from dse.source.nvidia.machine.state import Machine, Taint
from dse.source.nvidia.sass.operands import SLOTS

_FIRST = 8  # trips to run side by side in a first attempt
_MOST = 2**16  # threads of all of them
_FAILURES = 4  # after which a loop's trips are run one after another

# Runs a machine of many rows along a path, with examinations; returns which rows follow it: [rows].
Follow = Callable[[Machine, Path, Tiling, Sequence[Examination]], np.ndarray]


@dataclass
class _Trip:
    """The start of a trip."""

    lanes: Lanes
    trace: int  # lengths of the machine's records
    streams: int
    repeats: int
    registers: list[np.ndarray]


class SideBySide:
    """Runs trips of the loops of a machine side by side."""

    def __init__(self, machine: Machine, loops: LoopSkipper, follow: Follow) -> None:
        self.machine, self.loops, self.follow = machine, loops, follow
        self._trips: dict[int, _Trip] = {}  # by the first basic block of a loop
        self._expected: dict[int, int] = {}  # trips, from the previous execution
        self._failures: dict[int, int] = {}
        self._wait: dict[int, int] = {}  # trips to run one after another first

    def enter(self, header: int, lanes: Lanes, others: int, most: int) -> int:
        """Run trips of a loop that threads are about to begin again, if possible.

        `others` is the first block that other threads are to enter. Returns the number of executed basic
        blocks, at most `most`.
        """
        machine, trip, executed = self.machine, self._trips.get(header), 0
        if machine.bound.purpose is not Purpose.ADDRESSES or self._failures.get(header, 0) > _FAILURES:
            return 0
        self._wait[header] = wait = max(self._wait.get(header, 0) - 1, 0)
        if trip is not None and trip.lanes is lanes and trip.repeats == len(machine.repeats) and not wait:
            path = machine.trace[trip.trace :]
            indices = [index for index, _ in path]
            once = indices.count(header) == 1 and max(indices) < others
            if once and all(machine.sets.within(entered, lanes) for _, entered in path):
                executed = self._run(header, trip, path, most)
        self._trips[header] = _Trip(
            lanes, len(machine.trace), len(machine.streams), len(machine.repeats), machine.r[:]
        )
        return executed

    def _run(self, header: int, trip: _Trip, path: Path, most: int) -> int:
        """Run as many trips as possible; return the number of basic blocks."""
        machine, done, known = self.machine, 0, self._expected.get(header, 0)
        streams = machine.streams[trip.streams :]
        changes = changes_since(machine, trip.registers, header, trip.lanes)
        foreseen = changes is not None and len({stream.step for stream in streams}) == len(streams)
        wanted = known or _FIRST
        while foreseen and changes is not None and all(self._alike(index) for index, _ in path):
            trips = min(wanted, _MOST // (machine.shape[0] * machine.shape[1]), most // len(path) - done)
            kept = trips
            while kept > 1 and (good := self._try(header, trip.lanes, path, streams, changes, kept)) < kept:
                kept = good
            if kept <= 1:
                break
            done += kept
            if kept < trips:
                break
            wanted = known - done if done < known else _FIRST if known else 2 * trips
        if done:
            self._expected[header], self._failures[header] = done, 0
        else:
            self._failures[header] = self._failures.get(header, 0) + 1
            self._wait[header] = 2 * _FIRST
        return done * len(path)

    def _alike(self, index: int) -> bool:
        """Return whether a basic block only computes, loads from global memory and branches."""
        return not any(
            step.stores
            or step.atomic
            or step.of_box
            or step.kind == "copy"
            or step.opcode == "BAR"
            or (step.memory and step.needed and step.pipe != "global")
            for step in self.machine.program.blocks[index].steps
        )

    def _try(
        self,
        header: int,
        lanes: Lanes,
        path: Path,
        streams: Sequence[Stream],
        changes: dict[int, np.ndarray],
        trips: int,
    ) -> int:
        """Run this many trips. Keep their results if all are as expected, else return how many are."""
        machine = self.machine
        tiling = Tiling(trips, machine.shape[0])
        wide = _tiled(machine, tiling, changes)
        start = wide.r[:]
        outer = self.loops.examined
        examined = [examination.tiled(wide, tiling) for examination in outer]
        try:
            good = self.follow(wide, path, tiling, examined)
        except (DseError, Apart):  # perhaps in trips beyond the last
            return 0
        live, mask = machine.bound.live[header], tiling.of(lanes.mask)
        for slot in range(SLOTS):
            if wide.r[slot] is start[slot] or not live >> slot & 1:
                continue
            expected = start[slot]
            if slot in changes:
                expected = tiling.advanced(machine.r[slot], changes[slot], start=1)
            good &= ~(mask & (wide.r[slot] != expected)).any(axis=1)
            if (mask & (_tiled_taint(machine.taint[slot], tiling) != wide.taint[slot])).any():
                return 0
        if good.all() and len(streams) == len(wide.streams):
            for before, after in zip(streams, wide.streams, strict=True):
                good &= ~(tiling.of(before.lanes.mask) != after.lanes.mask).any(axis=1)
        good = good.reshape(trips, -1).all(axis=1)
        if not good.all():
            return int(np.argmin(good))
        pairs = list(zip(outer, examined, strict=True))
        if len(streams) != len(wide.streams) or not all(
            before.registers.same(after.registers, tiling, lanes, live) for before, after in pairs
        ):
            return 0
        for before, after in pairs:
            before.take(after, tiling)
        self._keep(wide, start, tiling, path, streams)
        return trips

    def _keep(
        self,
        wide: Machine,
        start: Sequence[np.ndarray],
        tiling: Tiling,
        path: Path,
        streams: Sequence[Stream],
    ) -> None:
        """Add the results of the trips to the machine."""
        machine = self.machine
        for slot, value in enumerate(wide.r):
            if value is not start[slot]:
                machine.r[slot] = tiling.last(value, machine.r[slot])
                taint = wide.taint[slot]
                machine.taint[slot] = taint if isinstance(taint, int) else tiling.by_trip(taint)[-1]
        machine.counts = machine.counts + wide.counts.reshape(len(wide.counts), tiling.trips, -1).sum(axis=1)
        machine.unknown, machine.missed_stores = wide.unknown, wide.missed_stores
        machine.trace += path * tiling.trips
        moved = [
            _by_trip(machine, before, after, tiling)
            for before, after in zip(streams, wide.streams, strict=True)
        ]
        machine.streams += [stream for of_trip in zip(*moved, strict=True) for stream in of_trip]


def _tiled_taint(taint: Taint, tiling: Tiling) -> Taint:
    return taint if isinstance(taint, int) else tiling.of(taint)


def _tiled(machine: Machine, tiling: Tiling, changes: Mapping[int, np.ndarray]) -> Machine:
    """Make a machine whose rows are trips of a loop."""
    wide = copy(machine)
    wide.shape = (tiling.trips * machine.shape[0], machine.shape[1])
    wide.sets = LaneSets(wide.shape)
    wide.r = [
        tiling.advanced(value, changes[slot]) if slot in changes else tiling.of(value)
        for slot, value in enumerate(machine.r)
    ]
    wide.taint = [_tiled_taint(taint, tiling) for taint in machine.taint]
    wide.live_mask, wide.live = tiling.of(machine.live_mask), tiling.trips * machine.live
    wide.counts = np.zeros((len(machine.counts), wide.shape[0]))
    wide.phase = np.tile(machine.phase, tiling.trips)
    wide.streams, wide.trace, wide.unknown = [], [], dict(machine.unknown)
    wide.bases, wide.followed, wide.guards = {}, {}, {}
    return wide


def _by_trip(machine: Machine, before: Stream, after: Stream, tiling: Tiling) -> list[Stream]:
    """Return the addresses of each trip; while all have the same stride, they share one base."""
    known = before.base
    bases = tiling.by_trip(after.base)[:, : len(known)]
    shape = np.broadcast_shapes(known.shape, bases.shape[1:])
    bases = np.broadcast_to(bases, (tiling.trips, *shape))
    apart = np.diff(bases, axis=0, prepend=np.broadcast_to(known, (1, *shape)))
    even = (apart == apart[:, :1, :1]).all(axis=(1, 2))
    distance = np.cumsum(np.where(even, apart[:, 0, 0], 0))
    made, ahead = [], 0
    for base, moved, far in zip(bases, even.tolist(), distance.tolist(), strict=True):
        if not moved:
            known, ahead = base, far
        offset = after.offset + far - ahead
        made.append(Stream(before.step, before.phase, before.lanes, known, offset, before.size))
    machine.followed[before.step] = before.lanes, known
    return made
