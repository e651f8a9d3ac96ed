"""Time one warp alone, which issues its instructions in order, waiting for registers or accesses."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from dse.source.machine.recorded import PIPES
from dse.types import MMA

if TYPE_CHECKING:
    from dse.source.profile.issue import GroupChange, Ways

# Sources of awaited results: a pipe, the kind of a product, or "copy" for asynchronous copies.
SOURCES = (*PIPES, *MMA, "copy")
PLACE_OF = {name: number for number, name in enumerate(SOURCES)}
Phases = dict[tuple[int, int], np.ndarray]


@dataclass(frozen=True)
class Timing:
    """The cycles that instructions take, by pipe."""

    latency: Mapping[str, float]  # until the result can be used, by SOURCES
    interval: Mapping[str, float]  # until the warp's next instruction can enter the same pipe
    # Of a sub-partition for one unit of work, by TENSOR.
    products: Mapping[str, float] = field(default_factory=dict)
    partitions: float = 1.0  # of an SM: warps are spread over them evenly
    barrier: float = 0.0  # from the last warp's arrival until the others continue
    code_line: float = 0.0  # until code that the SM's cache has no room for arrives, a line


@dataclass
class Walk:
    """The walk of one warp between two barriers, one pass or the sum of several."""

    passes: float = 0.0
    cycles: float = 0.0
    insts: float = 0.0
    loads: float = 0.0  # from global memory
    waits: float = 0.0  # for loads, of which those in flight arrive together
    chain: float = 0.0  # length of the longest dependence chain
    # The parts of `cycles`: results awaited one after the other, by SOURCES (each takes its
    # `Timing.latency`), and the rest, in which instructions are fetched, issued or wait for a pipe.
    latencies: np.ndarray = field(default_factory=lambda: np.zeros(len(SOURCES)), compare=False)
    slots: float = 0.0
    copied: float = 0.0  # of `cycles`, those of waits for asynchronous copies

    def __add__(self, other: "Walk") -> "Walk":
        return Walk(*(a + b for a, b in zip(_values(self), _values(other), strict=True)))

    def __mul__(self, factor: float) -> "Walk":
        return Walk(*(factor * a for a in _values(self)))


def _values(walk: Walk) -> Iterable[Any]:
    return (getattr(walk, field.name) for field in fields(walk))


class WalkedStep(NamedTuple):
    """An instruction for the walk. Slots are numbers of registers and other awaited results."""

    needs: Sequence[int]  # slots that it waits for
    writes: Sequence[int]
    source: int  # of its result: an index in SOURCES
    latency: float  # cycles until its result is ready
    pipe: int = 0
    interval: float = 0.0  # cycles until its pipe can be entered again
    cycles: float = 1.0  # until the next instruction
    load: bool = False  # from global memory
    chains: bool = True  # whether it is part of dependence chains
    group: "GroupChange | None" = None
    waits: Sequence[tuple[int, int]] = ()  # (queue, groups that may stay in flight)
    queued: bool = False  # whether it queues for its pipe while the warp continues


@dataclass(frozen=True)
class WalkedCode:
    """Code for the walk: steps of basic blocks."""

    blocks: Sequence[Sequence[WalkedStep]]
    barriers: Sequence[int]  # address of the barrier at the end of each; -1 if there is none
    latency: Mapping[str, float]  # by SOURCES
    ways: "Ways"
    slots: int
    pipes: int
    queues: int
    fetched: Callable[[int], float] = lambda index: 0.0  # cycles of fetching a block's instructions


@runtime_checkable
class Traced(Protocol):
    """A machine that executed code."""

    # Basic blocks in the order of execution, with those who did: [1 or blocks, warps] as `warps_here`.
    trace: Any
    repeats: list[tuple[int, int, int]]  # of the trace: (start, end, more times)


def times_of(machine: Traced) -> np.ndarray:
    """Count the executions of each place of the trace, including all trips of skipped loops."""
    times = np.ones(len(machine.trace))
    for start, end, more in machine.repeats:
        times[start:end] += more
    return times


def longest_warp(machine: Traced, blocks: Sequence[Any], block: int) -> int:
    """Return the warp of a block that executes most instructions; `blocks` are the code's, with `steps`."""
    total: Any = 0.0
    for (index, lanes, *_), times in zip(machine.trace, times_of(machine).tolist(), strict=True):
        warps = lanes.warps_here
        total = total + len(blocks[index].steps) * times * warps[block if len(warps) > 1 else 0]
    return int(np.argmax(total))


def segments(machine: Traced, block: int, warp: int) -> Iterator[tuple[list[int], int]]:
    """Yield (basic blocks of a warp in order, their further repetitions)."""
    trace, repeats = machine.trace, machine.repeats
    bounds = sorted({0, len(trace), *(place for start, end, _ in repeats for place in (start, end))})
    more = {(start, end): times for start, end, times in repeats}
    here: dict[int, bool] = {}
    for start, end in pairwise(bounds):
        indices = []
        for index, lanes, *_ in trace[start:end]:
            there = here.get(id(lanes))
            if there is None:
                row = lanes.warps_here[block if len(lanes.warps_here) > 1 else 0]
                there = here[id(lanes)] = bool(row[warp if len(row) > 1 else 0])
            if there:
                indices.append(index)
        yield indices, more.get((start, end), 0)


def walk(code: WalkedCode, parts: Iterable[tuple[Sequence[int], int]]) -> dict[tuple[int, int], Walk]:
    """Walk one warp through `segments`; phases are by the addresses of their barriers, -1: start, end."""
    walker = _Walker(code)
    for blocks, more in parts:
        before = walker.mark() if more else None
        walker.trip(blocks)
        if before is not None:
            walker.more_trips(blocks, more, before)
    walker.close(-1)
    latency = np.array([code.latency[source] for source in SOURCES])
    return {key: _walk_of(counts, latency) for key, counts in walker.phases.items()}


def _walk_of(counts: np.ndarray, latency: np.ndarray) -> Walk:
    cycles, chain, waits, loads, insts = counts[:5].tolist()
    waited = counts[5:-1]
    slots = cycles - float(waited @ latency)
    copied = float(waited[PLACE_OF["copy"]] * latency[PLACE_OF["copy"]])
    return Walk(float(counts[-1]), cycles, insts, loads, waits, chain, waited, slots, copied)


class _Walker:
    """Walks one warp through basic blocks. Totals are numbers: those of `Standing.now`, instructions, and
    awaited results by SOURCES; of a phase, its passes too.
    """

    def __init__(self, code: WalkedCode) -> None:
        from dse.source.profile.issue import Standing, issue  # imports Numba

        self.of, self.issue = code, issue
        ends = np.cumsum([len(steps) for steps in code.blocks]).tolist()
        self.places = list(pairwise([0, *ends]))  # of each block: its first step, and that after its last
        self.code = _side_by_side([step for steps in code.blocks for step in steps])
        self.position = Standing.at_start(code.slots, code.pipes, len(SOURCES), code.queues)
        self.insts = 0.0
        self.opened, self.since = -1, self.standing()
        self.phases: Phases = {}
        self.last, self.in_a_row, self.settled = -1, 0, self.since

    def standing(self) -> np.ndarray:
        """The totals since the start."""
        return np.array([*self.position.now, self.insts, *self.position.waited])

    def block(self, index: int) -> None:
        """Walk through a basic block."""
        steady, position = self.of.ways.steady, self.position
        self.in_a_row = self.in_a_row + 1 if index == self.last else 0
        self.last = index
        if steady and self.in_a_row > steady and not position.most_in_flight[0]:  # continues as before
            self._advance(self.settled)
        else:
            before = self.standing() if steady and self.in_a_row == steady else None
            first, last = self.places[index]
            self.issue(self.code, self.of.ways, first, last, self.of.fetched(index), position)
            self.insts += last - first
            if before is not None:
                self.settled = self.standing() - before
        if self.of.barriers[index] >= 0:
            self.close(self.of.barriers[index])

    def _advance(self, more: np.ndarray) -> None:
        """Add the totals `more`, and delay all that the warp waits for."""
        self.position.now[:] += more[:4]
        self.position.waited[:] += more[5:]
        self.insts += float(more[4])
        self.position.postpone(more[0], more[5:], more[1])

    def trip(self, blocks: Iterable[int]) -> None:
        """Walk through basic blocks."""
        for index in blocks:
            self.block(index)

    def more_trips(self, blocks: Sequence[int], trips: int, trip: "_Mark") -> None:
        """Let some trips more of a loop be as the one since a mark, or as some that are walked, on average.

        Where groups are in flight, a trip is as the one this many trips before.
        """
        again = float(trips)
        if self.of.ways.settles:
            in_flight = int(self.position.most_in_flight[0])
            warm, period = (2 * in_flight, in_flight + 1) if in_flight else (0, 1)
            if trips <= warm + period:
                self.trip(list(blocks) * trips)
                return
            self.trip(list(blocks) * warm)
            trip = self.mark()
            self.trip(list(blocks) * period)
            again = (trips - warm) / period - 1
        more = (self.standing() - trip.done) * again
        if self.since is not trip.since:  # barriers inside: phases that ended are gone through again
            for key, counts in self.phases.items():
                self.phases[key] = counts + (counts - trip.phases.get(key, 0.0)) * again
            self.since = self.since + more
        self._advance(more)

    def mark(self) -> "_Mark":
        """Note what was done until now."""
        return _Mark(self.standing(), self.since, dict(self.phases))

    def close(self, barrier: int) -> None:
        """End the phase at a barrier."""
        key, done = (self.opened, barrier), self.standing()
        self.phases[key] = self.phases.get(key, 0.0) + np.append(done - self.since, 1.0)
        self.opened, self.since = barrier, done


class _Mark(NamedTuple):
    """What a walk had done at a place."""

    done: np.ndarray
    since: np.ndarray  # when the open phase began
    phases: Phases


def _side_by_side(steps: Sequence[WalkedStep]) -> Any:
    """Put instructions side by side: an IssueCode."""
    from dse.source.profile.issue import GroupChange, IssueCode

    def flat(lists: list[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
        starts = np.zeros(len(lists) + 1, np.int64)
        np.cumsum([len(items) for items in lists], out=starts[1:])
        return np.array([slot for items in lists for slot in items], np.int64), starts

    return IssueCode(
        *flat([step.needs for step in steps]),
        *flat([step.writes for step in steps]),
        *flat([[number for wait in step.waits for number in wait] for step in steps]),
        pipe=np.array([step.pipe for step in steps], np.int64),
        cycles=np.array([step.cycles for step in steps], float),
        latency=np.array([step.latency for step in steps], float),
        interval=np.array([step.interval for step in steps], float),
        source=np.array([step.source for step in steps], np.int64),
        loads=np.array([step.load for step in steps], np.int64),
        chains=np.array([step.chains for step in steps], np.int64),
        group=np.array([step.group or GroupChange() for step in steps], np.int64).reshape(-1, 5),
        queued=np.array([step.queued for step in steps], np.int64),
    )
