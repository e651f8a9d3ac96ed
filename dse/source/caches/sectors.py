"""List the sectors of global memory that one block touches, and their strides from block to block."""

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from typing import Any

import numpy as np

from dse.hardware.coalescing import LINE, SECTOR
from dse.source.machine.blocks import Sample
from dse.source.machine.recorded import Recorded, Stream

IN_LINE = LINE // SECTOR  # sectors
MOST_ACCESSES = 2**18  # followed accesses of a block
APART = (2**40, 1_779_033_703_913, 2_658_455_991_569)  # bytes: steps that lead to no other block's footprint

_BYPASS_L1 = ("STRONG", "BYPASS")  # modifiers: volatile and atomic loads, asynchronous copies of 16 bytes
_FEWEST_TRIPS = 8
_ONCE = range(1)


@dataclass
class Family:
    """Streams whose addresses differ by a constant: byte runs, and their stride from block to block."""

    start: np.ndarray  # [n] bytes, sorted
    end: np.ndarray
    step: tuple[int, int, int]  # bytes for each dimension of the grid
    span: tuple[int, int]  # lowest and highest address of all executed blocks
    size: int  # sectors of one execution, or slightly more
    stream: Stream  # the first of them
    steps: set[int] = field(default_factory=set)  # their instructions
    offset: list[np.ndarray] = field(default_factory=list)  # of each execution
    tick: list[np.ndarray] = field(default_factory=list)
    turn: list[np.ndarray] = field(default_factory=list)  # round through the code
    # of each stream: executions, phase, whether through the L1, executions that each represents
    streams: list[tuple[int, int, bool, float]] = field(default_factory=list)


@dataclass
class SectorAccesses:
    """The sectors that one block touches, in order, distinct per execution of an instruction: [n]."""

    families: list[Family]
    sector: np.ndarray
    tick: np.ndarray  # executions before this one
    turn: np.ndarray  # rounds through the code before this one
    phase: np.ndarray
    cached: np.ndarray  # whether it goes through the L1
    times: np.ndarray
    family: np.ndarray
    ticks: int
    phases: int  # of the machine
    every: int = 1  # only sectors whose number is a multiple of it

    def of(self, steps: Set[int]) -> np.ndarray:
        """Return which are of families whose instructions are all among these: [n]."""
        return np.isin(self.family, [n for n, member in enumerate(self.families) if member.steps <= steps])


def _executions(
    streams: Sequence[Stream], sizes: Sequence[int | None], most: int
) -> Iterator[tuple[Stream, np.ndarray, np.ndarray, np.ndarray, float]]:
    """Yield (stream, its offsets, its ticks, its turns, executions that each represents). Streams of one
    skipped loop alternate. Those without a size only take time.
    """
    tick, turn, left = 0, 0, most
    for trips, loop in groupby(zip(streams, sizes, strict=True), key=lambda pair: pair[0].trips):
        members = list(loop)
        round_of, rounds = _rounds([stream.step for stream, _ in members])
        if trips == _ONCE:
            for (stream, size), own in zip(members, round_of, strict=True):
                if size is not None:
                    yield stream, np.array([stream.offset]), np.array([tick]), np.array([turn + own]), 1.0
                tick += 1
            turn += rounds
            continue
        whole = sum(size or 0 for _, size in members)
        taken = min(len(trips), max(_FEWEST_TRIPS, left // max(1, whole)))
        left = max(0, left - taken * whole)
        for position, (stream, size) in enumerate(members):
            ticks = tick + np.arange(taken) * len(members) + position
            if size is not None:
                turns = turn + np.arange(taken) * rounds + round_of[position]
                yield stream, stream.offsets(taken), ticks, turns, len(trips) / taken
        tick += len(trips) * len(members)
        turn += len(trips) * rounds


def _rounds(steps: Sequence[int]) -> tuple[list[int], int]:
    """Return each step's round through the code, which begins where a step repeats, and their number."""
    rounds: list[int] = []
    seen: set[int] = set()
    current = 0
    for step in steps:
        if step in seen:
            current, seen = current + 1, set()
        seen.add(step)
        rounds.append(current)
    return rounds, current + 1


def accesses(
    machine: Recorded,
    sample: Sample,
    block: int,
    streams: Sequence[Stream],
    every: int = 1,
    most: int = MOST_ACCESSES,
    steps: Set[int] | None = None,
) -> SectorAccesses:
    """List the sectors that the block with that index in the sample touches in some of the machine's streams.

    Only sectors whose number is a multiple of `every` are listed. If there are more than `most`, the first
    trips of each loop represent all. With `steps`, only accesses of these instructions are listed; the other
    streams take time.
    """
    families: dict[tuple[int, int, int], Family] = {}
    kept: list[Stream] = []
    members: list[Family] = []
    sizes: list[int | None] = []
    there: dict[int, bool] = {}  # whether the block has threads, by the identity of lanes
    cached = [not bypasses_l1(step) for step in machine.program.steps]
    for stream in streams:
        if steps is not None and stream.step not in steps:
            lanes = stream.lanes
            if id(lanes) not in there:
                there[id(lanes)] = bool(np.broadcast_to(lanes.mask, lanes.shape)[block].any())
            if there[id(lanes)]:
                kept.append(stream)
                sizes.append(None)
            continue
        key = (id(stream.base), id(stream.lanes), stream.size)
        if key not in families:
            families[key] = _family(machine, sample, block, stream)
        if families[key].size:
            kept.append(stream)
            members.append(families[key])
            sizes.append(-(-families[key].size // every))
    executions = _executions(kept, sizes, most)
    ticks = 0 if steps is None else sum(stream.repeats for stream in kept)
    for family, (stream, offsets, at, turns, times) in zip(members, executions, strict=True):
        family.offset.append(offsets)
        family.tick.append(at)
        family.turn.append(turns)
        family.steps.add(stream.step)
        family.streams.append((len(at), int(stream.phase[block]), cached[stream.step], times))
        ticks = max(ticks, int(at[-1]) + 1)
    used = [family for family in families.values() if family.size]
    parts = [_expanded(family, number, every) for number, family in enumerate(used)]
    empty = (
        np.zeros(0, int),
        np.zeros(0, int),
        np.zeros(0, int),
        np.zeros(0, int),
        np.zeros(0, bool),
        np.zeros(0),
        np.zeros(0, int),
    )
    sector, tick, turn, phase, cached, times, family = map(np.concatenate, zip(empty, *parts, strict=True))
    return SectorAccesses(
        used, sector, tick, turn, phase, cached, times, family, ticks, len(machine.phases), every
    )


def _family(machine: Recorded, sample: Sample, block: int, stream: Stream) -> Family:
    size, shape = stream.size, stream.lanes.shape
    mask = np.broadcast_to(stream.lanes.mask, shape)
    base = np.broadcast_to(stream.base, shape)
    address, touched = np.unique(base[block][mask[block]]), base[mask]
    start, end = merged(address, address + size)
    return Family(
        start,
        end,
        step=_block_step(machine, sample, block, stream),
        span=(int(touched.min()), int(touched.max()) + size),
        size=int((end - start).sum()) // SECTOR + len(start),
        stream=stream,
    )


def merged(start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Join runs of bytes that meet; `start` is sorted."""
    if not len(start):
        return start, end
    reach = np.maximum.accumulate(end)
    first = np.append(True, start[1:] > reach[:-1])
    return start[first], reach[np.append(first[1:], True)]


def _expanded(family: Family, number: int, every: int) -> tuple[np.ndarray, ...]:
    """List the sectors of all executions: sector, tick, turn, phase, cached, times, family."""
    offset = np.concatenate(family.offset)[:, None]
    low, high = family.start + offset >> 5, family.end + offset - 1 >> 5  # [executions, runs]
    low[:, 1:] = np.maximum(low[:, 1:], high[:, :-1] + 1)  # neighbours may end in one sector
    if every > 1:
        low, high = -(-low // every), high // every
    counts = high - low + 1
    sector = ranges(low.ravel(), counts.ravel()) * every
    of_each = counts.sum(axis=1)
    executions, *values = zip(*family.streams, strict=True)
    columns = [np.concatenate(family.tick), np.concatenate(family.turn)]
    columns += [np.repeat(value, executions) for value in values]
    return sector, *(np.repeat(column, of_each) for column in columns), np.full(len(sector), number)


def ranges(start: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return start[0], start[0] + 1, ... counts[0] of them, then those from start[1], ..."""
    before = np.cumsum(counts) - counts
    return np.repeat(start - before, counts) + np.arange(int(counts.sum()))


def _block_step(machine: Recorded, sample: Sample, block: int, stream: Stream) -> tuple[int, int, int]:
    """Return the stride of addresses from block to block in bytes, along each dimension of the grid.

    It comes from blocks of the sample that differ in one dimension only. `APART` if the strides of threads
    differ, or the sample has no such blocks.
    """
    if len(stream.base) == 1:
        return 0, 0, 0
    masks = np.broadcast_to(stream.lanes.mask, stream.lanes.shape)
    axes = []
    for axis, size in enumerate(machine.launch.grid):
        steps: set[float] = set()
        for other, moved in _in_line(sample, block, axis):
            common = (masks[other] & masks[block])[: stream.base.shape[1]]
            if common.any():
                apart = (stream.base[other] - stream.base[block])[common]
                even = (apart == apart[0]).all()
                steps.add(float(apart[0]) / moved if even else float("nan"))
        step = steps.pop() if len(steps) == 1 else float("nan")
        axes.append(int(step) if step.is_integer() else APART[axis] if size > 1 else 0)
    return axes[0], axes[1], axes[2]


@lru_cache(maxsize=64)
def _in_line(sample: Sample, block: int, axis: int) -> list[tuple[int, float]]:
    """List the blocks that differ in one dimension only, and their distances in blocks."""
    moved = np.subtract(sample.blocks, sample.blocks[block])
    others = np.flatnonzero((moved[:, axis] != 0) & (np.count_nonzero(moved, axis=1) == 1))
    return [(other, float(moved[other, axis])) for other in others.tolist()]


def bypasses_l1(step: Any) -> bool:
    """Return whether an access to global memory bypasses the L1."""
    return step.atomic or step.of_box or step.has(*_BYPASS_L1)
