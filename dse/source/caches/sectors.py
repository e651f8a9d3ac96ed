"""List the sectors of global memory that one block touches, and their strides from block to block."""

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import compress, groupby
from math import prod
from typing import Any

import numpy as np

from dse.hardware.coalescing import LINE, SECTOR
from dse.source.machine.blocks import Sample
from dse.source.machine.launch import REGION_BITS
from dse.source.machine.memory import changes
from dse.source.machine.recorded import ONCE, Recorded, Stream

IN_LINE = LINE // SECTOR  # sectors
MOST_ACCESSES = 2**18  # followed accesses of a block
_MOST_LINES = 2**20  # of a block, from which those to follow are sampled
APART = (2**40, 1_779_033_703_913, 2_658_455_991_569)  # bytes: steps that lead to no other block's footprint

SPREAD = np.uint64(0x9E3779B97F4A7C15)  # odd, near 2^64 over the golden ratio: multiples of it spread evenly
FAR = 2**45  # sectors; above the distance of any two arrays
ALONE = 0.25  # of blocks, with addresses that no other has: from there on they share by chance, not by tiles

_BYPASS_L1 = ("STRONG", "BYPASS")  # modifiers: volatile and atomic loads, asynchronous copies of 16 bytes
_FEWEST_TRIPS = 8
_BEYOND = 2**62  # bytes
_LOCATED = "first_run", "runs", "size", "step", "as_whole", "span"  # columns that do not depend on trips
_AT_ONCE = 2**16  # addresses, in the cache of a core


@dataclass(frozen=True)
class Families:
    """Streams whose addresses differ by constants: byte runs of a family, and its stride from block to block.

    **Shapes:** [families], unless stated.
    """

    start: np.ndarray  # [runs] bytes, sorted within a family
    end: np.ndarray  # [runs]
    first_run: np.ndarray
    runs: np.ndarray  # number of runs
    size: np.ndarray  # sectors of one execution, or slightly more
    step: np.ndarray  # [families, 3] bytes for each dimension of the grid
    as_whole: np.ndarray  # whether all lanes move by the same from block to block
    span: np.ndarray  # [families, 2] lowest and highest address of all executed blocks, without offsets
    reach: np.ndarray  # [families, 2] lowest and highest offset, of all trips
    insts: np.ndarray  # [pairs, 2] family and instruction
    streams: Sequence[Stream]  # the first of each

    @property
    def array(self) -> np.ndarray:
        """The number of the array of each."""
        return self.span[:, 0] >> REGION_BITS

    @property
    def linear(self) -> np.ndarray:
        """Whether the strides of each are known."""
        return ~np.isin(self.step, APART).max(axis=1)

    def steps(self, numbers: np.ndarray | Sequence[int]) -> set[int]:
        """Return the instructions of some families."""
        return set(self.insts[np.isin(self.insts[:, 0], numbers), 1].tolist())

    def within(self, steps: Set[int]) -> np.ndarray:
        """Return which families have no instructions but these."""
        others = ~np.isin(self.insts[:, 1], [*steps])
        return np.bincount(self.insts[others, 0], minlength=len(self.runs)) == 0

    def runs_at(self, family: np.ndarray, offset: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the runs of bytes of executions at these offsets: number of the execution, start, end."""
        execution = np.repeat(np.arange(len(family)), self.runs[family])
        run = ranges(self.first_run[family], self.runs[family])
        return execution, self.start[run] + offset[execution], self.end[run] + offset[execution]


@dataclass
class SectorAccesses:
    """The sectors that one block touches, in order, distinct per execution of an instruction: [n]."""

    families: Families
    executions: tuple[np.ndarray, np.ndarray]  # families and offsets
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

    def spanned(self, array: int, moves: np.ndarray | None = None) -> tuple[int, int]:
        """Return the lowest and the highest address of an array, of all executed blocks.

        With `moves` [n, 3] also of the block moved so, where its strides are known.
        """
        families, members = self.families, self.families.array == array
        ends = (families.span + families.reach)[members]
        if moves is not None and (members := members & families.linear).any():
            first, last = families.first_run[members], (families.first_run + families.runs - 1)[members]
            own = np.stack([families.start[first], families.end[last]], axis=1) + families.reach[members]
            moved = families.step[members, None] * moves  # [families, moves, dimensions]
            ends = np.concatenate(
                [ends, own + np.stack([moved.min(axis=1), moved.max(axis=1)], axis=1).sum(axis=2)]
            )
        return int(ends[:, 0].min()), int(ends[:, 1].max())

    @property
    def array(self) -> np.ndarray:
        """The number of each one's array: [n]."""
        return self.families.array[self.family]

    @property
    def first(self) -> np.ndarray:
        """The first access to each sector, in the order of sectors."""
        order = np.lexsort((self.tick, self.sector))
        return order[changes(self.sector[order])]

    @property
    def inst(self) -> np.ndarray:
        """The number of each one's instruction, of several the first: [n]."""
        return np.array([stream.step for stream in self.families.streams], int)[self.family]

    def distinct(self) -> dict[int, float]:
        """Count the sectors that each instruction is the first to touch."""
        first = self.first
        counts = self.every * np.bincount(self.inst[first], self.times[first])
        return {inst: float(counts[inst]) for inst in np.flatnonzero(counts).tolist()}

    def of(self, steps: Set[int]) -> np.ndarray:
        """Return which are of families whose instructions are all among these: [n]."""
        return self.families.within(steps)[self.family]

    def runs_of(self, families: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Return the starts and ends of the runs of bytes in all executions of some families."""
        of_these = np.isin(self.executions[0], families)
        _, start, end = self.families.runs_at(*(column[of_these] for column in self.executions))
        order = np.argsort(start, kind="stable")
        return merged(start[order], end[order])


def _executions(
    streams: Sequence[Stream], sizes: np.ndarray, listed: np.ndarray, most: int
) -> tuple[np.ndarray, ...]:
    """List executions: numbers of their streams, offsets, ticks, turns, executions that each represents.

    Streams of one skipped loop alternate. Those that are not `listed` only take time.
    """
    tick, turn, left, first = 0, 0, most, 0
    nothing = np.zeros(0, int)
    parts: list[tuple[np.ndarray, ...]] = [(nothing, nothing, nothing, nothing, np.zeros(0))]
    for trips, loop in groupby(streams, key=lambda stream: stream.trips):
        members = list(loop)
        place = np.flatnonzero(listed[first : first + len(members)])
        round_of, rounds = _rounds([stream.step for stream in members])
        if trips == ONCE:
            taken, offsets = 1, np.array([stream.offset for stream in members])[place, None]
        else:
            whole = int(sizes[first : first + len(members)].sum())
            taken = min(len(trips), max(_FEWEST_TRIPS, left // max(1, whole)))
            left = max(0, left - taken * whole)
            of_listed = [members[number].offsets(taken) for number in place.tolist()]
            offsets = np.array(of_listed, int).reshape(-1, taken)
        ticks = tick + np.arange(taken) * len(members) + place[:, None]
        turns = turn + np.arange(taken) * rounds + np.array(round_of)[place, None]
        number = np.repeat(first + place, taken)
        represents = np.full(len(number), len(trips) / taken)
        parts.append((number, offsets.ravel(), ticks.ravel(), turns.ravel(), represents))
        tick, turn = tick + len(trips) * len(members), turn + len(trips) * rounds
        first += len(members)
    return tuple(map(np.concatenate, zip(*parts, strict=True)))


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
    known: Families | None = None,
) -> SectorAccesses:
    """List the sectors that the block with that index in the sample touches in some of the machine's streams.

    If there are too many, the first trips of each loop represent all; if `thinned`, only one sector a line is
    listed then, since tiles begin with a line. With `steps`, only accesses of these instructions are listed;
    the other streams take time. All of `together` adjacent sectors are touched where one is asked for.
    `known` are families of this block, which are taken over if they are all there.
    """
    sets = {id(stream.lanes): stream.lanes for stream in streams}
    here = {key for key, lanes in sets.items() if lanes.everywhere[block].any()}
    streams = [stream for stream in streams if id(stream.lanes) in here]
    listed = np.array([steps is None or stream.step in steps for stream in streams], bool)
    families, of_listed = _families(machine, sample, block, list(compress(streams, listed)), known)
    number, sizes = np.zeros((2, len(streams)), int)
    number[listed], sizes[listed] = of_listed, families.size[of_listed]
    executions, every = _executions(streams, sizes, listed, MOST_ACCESSES), 1
    if thinned and (executions[-1] > 1.0).any():
        sizes, every = -(-sizes // IN_LINE), IN_LINE
        executions = _executions(streams, sizes, listed, _MOST_LINES)
    order = np.argsort(number[executions[0]], kind="stable")
    stream, offset, tick, turn, times = (column[order] for column in executions)
    family = number[stream]
    execution, start, end = families.runs_at(family, offset)
    low, high = touched(start, end, together)
    later = 1 + np.flatnonzero(execution[1:] == execution[:-1])
    low[later] = np.maximum(low[later], high[later - 1] + 1)  # neighbours may end in one sector
    if every > 1:
        low, high = -(-low // every), high // every
    counts = high - low + 1
    execution, sector = np.repeat(execution, counts), ranges(low, counts) * every
    program, phases = machine.program.steps, {id(stream.phase): stream.phase for stream in streams}
    phase_of = {key: int(phase[block]) for key, phase in phases.items()}
    through_l1 = {step: not bypasses_l1(program[step]) for step in {stream.step for stream in streams}}
    phase = np.array([phase_of[id(stream.phase)] for stream in streams], int)
    cached = np.array([through_l1[stream.step] for stream in streams], bool)
    return SectorAccesses(
        families,
        (family, offset),
        sector,
        *(column[execution] for column in (tick, turn, phase[stream], cached[stream], times, family)),
        ticks=max(
            0 if steps is None else sum(stream.repeats for stream in streams), 1 + int(tick.max(initial=-1))
        ),
        phases=len(machine.phases),
        every=every,
        together=together,
    )


def _families(
    machine: Recorded, sample: Sample, block: int, streams: Sequence[Stream], known: Families | None
) -> tuple[Families, np.ndarray]:
    """Return the families of streams, in order of their first streams, and the family of each stream: [n]."""
    numbers: dict[tuple[int, int, int], int] = {}
    firsts: list[Stream] = []
    family = np.zeros(len(streams), int)
    for at, stream in enumerate(streams):
        if (key := _key(stream)) not in numbers:
            numbers[key] = len(firsts)
            firsts.append(stream)
        family[at] = numbers[key]
    ends = np.array([stream.reach for stream in streams], int).reshape(-1, 2)
    reach = np.repeat([[_BEYOND, -_BEYOND]], len(firsts), axis=0)
    np.minimum.at(reach[:, 0], family, ends[:, 0])
    np.maximum.at(reach[:, 1], family, ends[:, 1])
    insts = sorted({*zip(family.tolist(), (stream.step for stream in streams), strict=True)})
    pairs = np.array(insts, int).reshape(-1, 2)
    places = {_key(stream): number for number, stream in enumerate(known.streams)} if known else {}
    if known is not None and numbers.keys() <= places.keys():
        some = [places[key] for key in numbers]
        columns = {name: getattr(known, name)[some] for name in _LOCATED}
        return replace(known, reach=reach, insts=pairs, streams=firsts, **columns), family
    return _located(machine, sample, block, firsts, reach, pairs), family


def _key(stream: Stream) -> tuple[int, int, int]:
    return id(stream.base), id(stream.lanes), stream.size


def _located(
    machine: Recorded,
    sample: Sample,
    block: int,
    streams: Sequence[Stream],
    reach: np.ndarray,
    insts: np.ndarray,
) -> Families:
    """Return the families that begin with these streams."""
    alike: dict[tuple[Any, ...], list[int]] = {}
    for number, stream in enumerate(streams):
        alike.setdefault((id(stream.lanes), stream.size, stream.base.shape), []).append(number)
    first_run, runs, size = np.zeros((3, len(streams)), int)
    step, span = np.zeros((len(streams), 3), int), np.zeros((len(streams), 2), int)
    as_whole = np.zeros(len(streams), bool)
    parts, covered = [(np.zeros(0, int), np.zeros(0, int))], 0
    for members in alike.values():
        lanes, width = streams[members[0]].lanes, streams[members[0]].size
        mask, at_once = lanes.everywhere, max(1, _AT_ONCE // prod(lanes.shape))
        whole = bool(mask.all())
        for some in (members[begin : begin + at_once] for begin in range(0, len(members), at_once)):
            bases = np.stack([streams[number].base for number in some])
            wide = np.broadcast_to(bases, (len(bases), *lanes.shape))
            every = bases.reshape(len(bases), -1) if whole else wide[:, mask]
            span[some] = np.stack([every.min(axis=1), every.max(axis=1) + width], axis=1)
            step[some], as_whole[some] = _block_steps(machine, sample, block, bases, mask)
            start = np.sort(wide[:, block, mask[block]], axis=1)
            begins = _begins(start, start + width)
            low, high = start[begins], start[np.roll(begins, -1, axis=1)] + width
            parts.append((low, high))
            runs[some] = np.count_nonzero(begins, axis=1)
            first = np.cumsum(runs[some]) - runs[some]
            first_run[some] = covered + first
            size[some] = np.add.reduceat(high - low, first) // SECTOR + runs[some]
            covered += len(low)
    start, end = map(np.concatenate, zip(*parts, strict=True))
    return Families(start, end, first_run, runs, size, step, as_whole, span, reach, insts, streams)


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


def touched(start: np.ndarray, end: np.ndarray, together: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and the last sector of runs of bytes, in groups of `together`, a power of two."""
    return (start >> 5) & -together, (end - 1 >> 5) | together - 1  # faster than divisions


def ranges(start: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return start[0], start[0] + 1, ... counts[0] of them, then those from start[1], ..."""
    before = np.cumsum(counts) - counts
    return np.repeat(start - before, counts) + np.arange(int(counts.sum()))


def _block_steps(
    machine: Recorded, sample: Sample, block: int, bases: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the strides of addresses from block to block in bytes, along each dimension of the grid; and
    whether all threads have the same.

    They come from blocks of the sample that differ in one dimension only: most agree, and all but the first
    and the last, which may wrap around. `APART` if they do not, or the strides of threads differ, or the
    sample has no such blocks. One block alone does not tell how others move.
    **Shapes:** bases [n, 1 or blocks, 1 or threads]; strides [n, 3].
    """
    strides = np.zeros((len(bases), 3), int)
    as_whole = np.full(len(bases), len(sample.blocks) > 1 or machine.launch.blocks == 1)
    if bases.shape[1] == 1:
        return strides, as_whole
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
        strides[:, axis] = np.where(whole & agree.all(axis=0), usual, APART[axis] if size > 1 else 0)
        as_whole &= (2 * np.isnan(known).sum(axis=0) < len(known)) | (not steps)
    return strides, as_whole


@lru_cache(maxsize=64)
def _in_line(sample: Sample, block: int, axis: int) -> list[tuple[int, float]]:
    """List the blocks that differ in one dimension only, and their distances in blocks."""
    moved = np.subtract(sample.blocks, sample.blocks[block])
    others = np.flatnonzero((moved[:, axis] != 0) & (np.count_nonzero(moved, axis=1) == 1))
    return [(other, float(moved[other, axis])) for other in others.tolist()]


def bypasses_l1(step: Any) -> bool:
    """Return whether an access to global memory bypasses the L1."""
    return step.atomic or step.of_box or step.has(*_BYPASS_L1)
