"""List the sectors of global memory that one block touches, and their strides from block to block."""

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from math import prod
from typing import Any

import numpy as np

from dse.hardware.coalescing import LINE, SECTOR
from dse.source.machine.blocks import Sample
from dse.source.machine.launch import REGION_BITS
from dse.source.machine.recorded import ONCE, Recorded, Stream

IN_LINE = LINE // SECTOR  # sectors
MOST_ACCESSES = 2**18  # followed accesses of a block
_MOST_LINES = 2**20  # of a block, from which those to follow are sampled
APART = (2**40, 1_779_033_703_913, 2_658_455_991_569)  # bytes: steps that lead to no other block's footprint

FAR = 2**45  # sectors; above the distance of any two arrays

_BYPASS_L1 = ("STRONG", "BYPASS")  # modifiers: volatile and atomic loads, asynchronous copies of 16 bytes
_FEWEST_TRIPS = 8
_Columns = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
_AT_ONCE = 2**16  # addresses, in the cache of a core
_OF_EXECUTIONS = "offset", "tick", "turn"


@dataclass
class Family:
    """Streams whose addresses differ by a constant: byte runs, and their stride from block to block."""

    start: np.ndarray  # [n] bytes, sorted
    end: np.ndarray
    step: tuple[int, int, int]  # bytes for each dimension of the grid
    as_whole: bool  # whether all lanes move by the same from block to block
    span: tuple[int, int]  # lowest and highest address of all executed blocks, without offsets
    size: int  # sectors of one execution, or slightly more
    stream: Stream  # the first of them
    steps: set[int] = field(default_factory=set)  # their instructions
    reach: list[int] = field(default_factory=list)  # offsets of first and last trips
    offset: list[np.ndarray] = field(default_factory=list)  # of each execution
    tick: list[np.ndarray] = field(default_factory=list)
    turn: list[np.ndarray] = field(default_factory=list)  # round through the code
    # of each stream: executions, phase, whether through the L1, executions that each represents
    streams: list[tuple[int, int, bool, float]] = field(default_factory=list)

    @property
    def array(self) -> int:
        """The number of its array."""
        return self.span[0] >> REGION_BITS


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
    together: int = 1  # adjacent sectors that a cache fetches at once

    def spanned(self, array: int) -> tuple[int, int]:
        """Return the lowest and the highest address of an array, of all executed blocks."""
        families = [family for family in self.families if family.array == array]
        low = min(family.span[0] + min(family.reach) for family in families)
        return low, max(family.span[1] + max(family.reach) for family in families)

    @property
    def array(self) -> np.ndarray:
        """The number of each one's array: [n]."""
        return np.array([family.array for family in self.families], int)[self.family]

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
        if trips == ONCE:
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
    steps: Set[int] | None = None,
    thinned: bool = False,
    together: int = 1,
) -> SectorAccesses:
    """List the sectors that the block with that index in the sample touches in some of the machine's streams.

    If there are too many, the first trips of each loop represent all; if `thinned`, only one sector a line is
    listed then, since tiles begin with a line. With `steps`, only accesses of these instructions are listed;
    the other streams take time. All of `together` adjacent sectors are touched where one is asked for.
    """
    families = _families(machine, sample, block, [s for s in streams if steps is None or s.step in steps])
    kept: list[Stream] = []
    members: list[Family] = []
    sizes: list[int | None] = []
    there: dict[int, bool] = {}  # whether the block has threads, by the identity of lanes
    program = machine.program.steps
    cached = {number: not bypasses_l1(program[number]) for number in {stream.step for stream in streams}}
    for stream in streams:
        if steps is not None and stream.step not in steps:
            lanes = stream.lanes
            if id(lanes) not in there:
                there[id(lanes)] = bool(lanes.everywhere[block].any())
            if there[id(lanes)]:
                kept.append(stream)
                sizes.append(None)
            continue
        family = families[_key(stream)]
        if family.size:
            kept.append(stream)
            members.append(family)
            sizes.append(family.size)
    executions, every = [*_executions(kept, sizes, MOST_ACCESSES)], 1
    if thinned and any(times > 1.0 for *_, times in executions):
        sizes, every = [size and -(-size // IN_LINE) for size in sizes], IN_LINE
        executions = [*_executions(kept, sizes, _MOST_LINES)]
    ticks = 0 if steps is None else sum(stream.repeats for stream in kept)
    for family, (stream, offsets, at, turns, times) in zip(members, executions, strict=True):
        family.reach += stream.reach
        family.offset.append(offsets)
        family.tick.append(at)
        family.turn.append(turns)
        family.steps.add(stream.step)
        family.streams.append((len(at), int(stream.phase[block]), cached[stream.step], times))
        ticks = max(ticks, int(at[-1]) + 1)
    used = [family for family in families.values() if family.size]
    columns = _expanded(used, every, together)
    return SectorAccesses(used, *columns, ticks, len(machine.phases), every, together)


def _families(
    machine: Recorded, sample: Sample, block: int, streams: Sequence[Stream]
) -> dict[tuple[int, int, int], Family]:
    """Return the families of streams by `_key`, in order of their first streams."""
    first_of: dict[tuple[int, int, int], Stream] = {}
    for stream in streams:
        first_of.setdefault(_key(stream), stream)
    alike: dict[tuple[Any, ...], list[Stream]] = {}
    for stream in first_of.values():
        alike.setdefault((id(stream.lanes), stream.size, stream.base.shape), []).append(stream)
    families: dict[tuple[int, int, int], Family] = {}
    for members in alike.values():
        at_once = max(1, _AT_ONCE // prod(members[0].lanes.shape))
        for first in range(0, len(members), at_once):
            made = _alike(machine, sample, block, members[first : first + at_once])
            families |= {_key(family.stream): family for family in made}
    return {key: families[key] for key in first_of}


def _key(stream: Stream) -> tuple[int, int, int]:
    return id(stream.base), id(stream.lanes), stream.size


def _alike(machine: Recorded, sample: Sample, block: int, streams: Sequence[Stream]) -> Iterator[Family]:
    """Return the families of streams with the same lanes, size, and shape of their base."""
    lanes, size = streams[0].lanes, streams[0].size
    mask = lanes.everywhere
    bases = np.stack([stream.base for stream in streams])
    wide = np.broadcast_to(bases, (len(bases), *lanes.shape))
    start = np.sort(wide[:, block, mask[block]], axis=1)
    touched = wide[:, mask]
    spans = np.stack([touched.min(axis=1), touched.max(axis=1) + size], axis=1).tolist()
    steps, as_whole = _block_steps(machine, sample, block, bases, mask)
    first = _begins(start, start + size)
    runs = np.cumsum(np.count_nonzero(first, axis=1)).tolist()  # of these streams and those before
    low, high = start[first], start[np.roll(first, -1, axis=1)] + size
    covered = [0, *np.cumsum(high - low).tolist()]
    begin = 0
    for stream, step, whole, span, end in zip(streams, steps, as_whole, spans, runs, strict=True):
        sectors = (covered[end] - covered[begin]) // SECTOR + end - begin
        yield Family(low[begin:end], high[begin:end], step, whole, tuple(span), sectors, stream)
        begin = end


def _begins(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return which runs of bytes, in order, do not meet the one before: [..., n]."""
    first = np.ones(start.shape, bool)
    np.greater(start[..., 1:], end[..., :-1], out=first[..., 1:])
    return first


def merged(start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Join runs of bytes that meet; `start` is sorted."""
    reach = np.maximum.accumulate(end)
    first = _begins(start, reach)
    return start[first], reach[np.roll(first, -1)]


def _expanded(families: Sequence[Family], every: int, together: int) -> _Columns:
    """List the sectors of all executions: sector, tick, turn, phase, cached, times, family."""
    rows = [(number, *stream) for number, family in enumerate(families) for stream in family.streams]
    of_family, executions, phase, cached, times = np.array(rows, float).reshape(-1, 5).T
    stream = np.repeat(np.arange(len(rows)), executions.astype(int))  # of each execution
    number = of_family.astype(int)[stream]
    runs = np.array([len(family.start) for family in families], int)
    execution = np.repeat(np.arange(len(stream)), runs[number])  # of each of its runs
    run = ranges((np.cumsum(runs) - runs)[number], runs[number])
    start, end, offset, tick, turn = (
        np.concatenate([np.zeros(0, int), *columns])
        for columns in (
            [family.start for family in families],
            [family.end for family in families],
            *([part for family in families for part in getattr(family, name)] for name in _OF_EXECUTIONS),
        )
    )
    low, high = touched(start[run] + offset[execution], end[run] + offset[execution], together)
    later = 1 + np.flatnonzero(execution[1:] == execution[:-1])
    low[later] = np.maximum(low[later], high[later - 1] + 1)  # neighbours may end in one sector
    if every > 1:
        low, high = -(-low // every), high // every
    counts = high - low + 1
    execution = np.repeat(execution, counts)  # of each sector
    stream, sector = stream[execution], ranges(low, counts) * every
    of_stream = phase.astype(int)[stream], cached.astype(bool)[stream], times[stream]
    return sector, tick[execution], turn[execution], *of_stream, number[execution]


def touched(start: np.ndarray, end: np.ndarray, together: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and the last sector of runs of bytes, in groups of `together`, a power of two."""
    return (start >> 5) & -together, (end - 1 >> 5) | together - 1  # faster than divisions


def ranges(start: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return start[0], start[0] + 1, ... counts[0] of them, then those from start[1], ..."""
    before = np.cumsum(counts) - counts
    return np.repeat(start - before, counts) + np.arange(int(counts.sum()))


def _block_steps(
    machine: Recorded, sample: Sample, block: int, bases: np.ndarray, mask: np.ndarray
) -> tuple[list[tuple[int, int, int]], list[bool]]:
    """Return the strides of addresses from block to block in bytes, along each dimension of the grid; and
    whether all threads have the same.

    They come from blocks of the sample that differ in one dimension only: most agree, and all but the first
    and the last, which may wrap around. `APART` if they do not, or the strides of threads differ, or the
    sample has no such blocks.
    **Shapes:** bases [n, 1 or blocks, 1 or threads]; n strides.
    """
    if bases.shape[1] == 1:
        return [(0, 0, 0)] * len(bases), [True] * len(bases)
    axes, as_whole = [], np.ones(len(bases), bool)
    for axis, size in enumerate(machine.launch.grid):
        steps, inner = [], []
        for other, moved in _in_line(sample, block, axis):
            common = (mask[other] & mask[block])[: bases.shape[2]]
            if common.any():
                apart = (bases[:, other] - bases[:, block])[:, common]
                even = (apart == apart[:, :1]).all(axis=1)
                steps.append(np.where(even, apart[:, 0] / moved, np.nan))
                inner.append(0 < sample.blocks[other][axis] < size - 1)
        known = np.array(steps) if steps else np.full((1, len(bases)), np.nan)
        usual = np.sort(known, axis=0)[len(known) // 2]  # that of most is in the middle
        agree = (known == usual)[np.array(inner or [False])]
        whole = (2 * (known == usual).sum(axis=0) > len(known)) & (usual == np.rint(usual))
        axes.append(
            np.where(whole & agree.all(axis=0), usual, APART[axis] if size > 1 else 0).astype(int).tolist()
        )
        as_whole &= (2 * np.isnan(known).sum(axis=0) < len(known)) | (not steps)
    return list(zip(*axes, strict=True)), as_whole.tolist()


@lru_cache(maxsize=64)
def _in_line(sample: Sample, block: int, axis: int) -> list[tuple[int, float]]:
    """List the blocks that differ in one dimension only, and their distances in blocks."""
    moved = np.subtract(sample.blocks, sample.blocks[block])
    others = np.flatnonzero((moved[:, axis] != 0) & (np.count_nonzero(moved, axis=1) == 1))
    return [(other, float(moved[other, axis])) for other in others.tolist()]


def bypasses_l1(step: Any) -> bool:
    """Return whether an access to global memory bypasses the L1."""
    return step.atomic or step.of_box or step.has(*_BYPASS_L1)
