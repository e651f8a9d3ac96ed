"""Find the distances of many blocks' addresses from those of one block, for any order of their tiles.

The addresses of some warps of consecutive blocks are executed. A family of streams moves as a whole from
block to block; if the lanes of a warp move differently, blocks with the very same addresses still share them,
and others are assumed to share nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np

from dse.hardware.coalescing import SECTOR
from dse.source.caches.sectors import ALONE, FAR, Families
from dse.source.machine.addresses import Addresses
from dse.source.machine.launch import Dimensions
from dse.source.machine.recorded import Stream
from dse.source.machine.thread_set import WARP, Lanes

# Limits of the work: executed blocks, and these times the executions of memory instructions.
MOST_BLOCKS = 2**11
MOST_EXECUTIONS = 2**20
_MOST_WARPS = 4  # of a block
_AT_ONCE = 2**18  # addresses
_FEWEST_BLOCKS, _ENOUGH_BLOCKS = 32, 2**10  # whose warps all run
_SAMPLED = 8  # executions of an instruction whose places are compared
_Sectors = tuple[np.ndarray, np.ndarray, np.ndarray]
_Place = tuple[np.ndarray, np.ndarray]  # shift and there of a Group

# Runs some warps (None: all) of some blocks of the launch: (blocks, warps) → addresses.
Probe = Callable[[Sequence[Dimensions], Sequence[int] | None], Addresses]


@dataclass(frozen=True)
class Group:
    """Families that move together from block to block."""

    families: tuple[int, ...]  # their numbers among those of the accesses
    shift: np.ndarray  # [blocks] sectors from the analysed block
    there: np.ndarray  # [blocks] whether the block touches them at all


@dataclass(frozen=True)
class Window:
    """Consecutive blocks of the grid that are executed."""

    start: int
    blocks: int
    wave: int  # blocks that run at the same time, at most all of these
    whole: bool  # whether these are all blocks of the grid

    def places(self, grid: Dimensions) -> list[Dimensions]:
        """List the positions of these blocks in the grid."""
        x, y, _ = grid
        return [(i % x, i // x % y, i // (x * y)) for i in range(self.start, self.start + self.blocks)]

    @property
    def waves(self) -> np.ndarray:
        """The wave of each block, from 0 on: [blocks]."""
        return np.arange(self.blocks) // self.wave


def window(blocks: int, wave: int, executions: int = 1) -> Window:
    """Choose the blocks to run: all, or as many whole waves from the middle of the grid as may be run.

    `executions` are those of memory instructions that are not skipped, of one block.
    """
    most = max(min(MOST_BLOCKS, 3 * wave), min(max(MOST_BLOCKS, 3 * wave), MOST_EXECUTIONS // executions))
    if blocks <= most:
        return Window(0, blocks, min(wave, blocks), whole=True)
    wave = min(wave, most)
    size = most // wave * wave
    return Window((blocks - size) // 2 // wave * wave, size, wave, whole=False)


def groups(
    machine: Any, block: int, families: Sequence[Families], at: Sequence[Dimensions], probe: Probe
) -> list[tuple[list[Group], dict[int, _Sectors]]]:
    """Locate the families of a block, of several lists of them, in the blocks `at`, of which it is the first.

    With the groups come, by array, sectors of the other blocks, of one warp; of the first of these, of all
    warps; and of the machine's blocks, of all warps: [blocks, lanes], -1 for none.

    **Edges:** no group has families of instructions that cannot be located: which the probe does not reach,
    or whose lanes move differently in most blocks, with the same addresses in few only; or the first and the
    last warp of a block, as those that gather rows of their own do.
    **Raises:** DseError if the blocks cannot be run.
    """
    ends_of = cache(partial(_end_warps, block))
    warps = [
        [
            ends_of(stream.lanes, stream.issuer)[: 1 if whole else 2]
            for stream, whole in zip(members.streams, members.as_whole.tolist(), strict=True)
        ]
        for members in families
    ]
    every = sorted({warp for of_list in warps for of_family in of_list for warp in of_family})
    asked = {*every[: _MOST_WARPS - 1], *every[_MOST_WARPS - 1 :][-1:]}
    executions = probe(at, sorted(asked))
    of_probe = cache(partial(_Executions, executions))
    of_machine = cache(partial(_Executions, Addresses.of(machine)))
    block_warps = range(machine.shape[1] // WARP)
    as_many_warps = len(at) * len(asked) // len(block_warps)
    few = at[: 1 + min(max(_FEWEST_BLOCKS, as_many_warps), _ENOUGH_BLOCKS)]
    whole = cache(lambda: probe(few, None))
    of_whole = cache(lambda step, warp: _Executions(whole(), step, warp))
    result: list[tuple[list[Group], dict[int, _Sectors]]] = []
    names: dict[int, bytes] = {}  # of places, by their identity
    for members, of_list in zip(families, warps, strict=True):
        alike: dict[tuple[int, int], list[int]] = {}  # by instruction and warp
        for number, (stream, of_family) in enumerate(zip(members.streams, of_list, strict=True)):
            for warp in asked.intersection(of_family):
                alike.setdefault((stream.step, warp), []).append(number)
        of_warps: list[list[tuple[int, _Place | None]]] = [[] for _ in of_list]
        for (step, warp), numbers in sorted(alike.items()):
            before = of_machine(step, warp).before([members.streams[n] for n in numbers], block)
            for number, place in zip(numbers, of_probe(step, warp).places(np.array(before)), strict=True):
                of_warps[number].append((warp, place))
        places = [_common([place for _, place in own]) for own in of_warps]
        lost: set[int] = set()  # instructions
        others: dict[int, _Sectors] = {}
        for number, pairs in groupby(members.insts.tolist(), key=itemgetter(0)):
            if places[number] is None:
                steps = {step for _, step in pairs}
                if not steps <= lost and of_warps[number]:
                    warp, _ = of_warps[number][-1 if of_warps[number][-1][1] is None else 0]
                    step = members.streams[number].step
                    of_first, of_sample = (
                        np.concatenate([of(step, every).sectors() for every in block_warps], axis=1)
                        for of in (of_whole, of_machine)
                    )
                    sectors = of_probe(step, warp).sectors(), of_first, of_sample
                    others[int(members.array[number])] = sectors
                lost |= steps
        kept = members.within({*members.insts[:, 1].tolist()} - lost)
        placed: dict[bytes, tuple[_Place, list[int]]] = {}
        for number, place in enumerate(places):
            if place is None or not kept[number]:
                continue
            if id(place) not in names:
                names[id(place)] = place[0].tobytes() + place[1].tobytes()
            placed.setdefault(names[id(place)], (place, []))[1].append(number)
        result.append(([Group(tuple(numbers), *place) for place, numbers in placed.values()], others))
    return result


def _end_warps(block: int, lanes: Lanes, issuer: int) -> tuple[int, ...]:
    """Return the first and the last warp of a block in a set of lanes, or the one that issues."""
    if issuer >= 0:
        return (issuer,)
    return tuple((np.flatnonzero(lanes.everywhere[block])[[0, -1]] // WARP).tolist())


def _common(places: Sequence[_Place | None]) -> _Place | None:
    """Return the places of the first warp, `FAR` where the last moves by another distance, as lanes may."""
    first, last = (places[0], places[-1]) if places else (None, None)
    if first is None or last is None or first is last:
        return first if last is not None else None
    (shift, there), (of_last, last_there) = first, last
    uneven = (shift != of_last) & there & last_there
    if not uneven.any():
        return first
    both = np.stack([shift, of_last], axis=1)[uneven]
    _, kind, times = np.unique(both, axis=0, return_inverse=True, return_counts=True)
    if 2 * len(both) >= np.count_nonzero(there) and np.count_nonzero(times == 1) > ALONE * len(both):
        return None
    shift = shift.copy()
    shift[uneven] = FAR * (1 + int(shift.max()) // FAR + kind.ravel())
    return shift, there


class _Executions:
    """Executions of an instruction by a warp of each row of blocks, with their addresses."""

    def __init__(self, addresses: Addresses, step: int, warp: int) -> None:
        machine = addresses.machine
        self.row, self.moved = addresses.row, addresses.moved(step)
        at = int(np.searchsorted(machine.threads, WARP * warp))
        self.streams = [s for s in addresses.streams[step] if s.issuer in (-1, warp)]
        # the lanes of the warp; of boxes their first places
        self.lanes = [slice(WARP) if s.issuer >= 0 else slice(at, at + WARP) for s in self.streams]
        sets: dict[tuple[int, bool], int] = {}
        masks = [np.zeros((machine.shape[0], WARP), bool)]  # of no stream
        there = [masks[0][:, 0]]  # rows that have some of the lanes
        for stream, lanes in zip(self.streams, self.lanes, strict=True):
            key = (id(stream.lanes), stream.issuer >= 0)
            if key not in sets:
                sets[key] = len(masks)
                masks.append(stream.lanes.everywhere[:, lanes])
                there.append(np.any(stream.lanes.everywhere if stream.issuer >= 0 else masks[-1], axis=1))
        self.masks = np.stack(masks)
        self.set = np.array([sets[id(s.lanes), s.issuer >= 0] for s in self.streams] + [0])
        repeats = np.array([s.repeats for s in self.streams] + [0])
        times = repeats[:, None] * np.stack(there)[self.set]
        self.starts = dict(zip(map(id, self.streams), np.cumsum(times, axis=0) - times, strict=False))
        ends = np.ascontiguousarray(np.cumsum(times, axis=0)[:-1].T)
        alike: dict[bytes, list[int]] = {}  # rows that execute each stream equally often: mostly all
        for row, own in enumerate(ends[: 1 if (ends == ends[0]).all() else None]):
            alike.setdefault(own.tobytes(), []).append(row)
        self.rows = [np.array(rows) for rows in alike.values()] if len(alike) > 1 else [np.arange(len(ends))]
        self.kinds = [ends[rows[0]] for rows in self.rows]
        self.known: dict[tuple[bytes, bytes], _Place | None] = {}

    def before(self, streams: Sequence[Stream], block: int) -> list[int]:
        """Count the executions before each of these streams in a block."""
        return [int(self.starts[id(stream)][block]) for stream in streams]

    def sectors(self) -> np.ndarray:
        """Return the sectors of blocks but the first in some executions: [blocks, lanes], -1 for none."""
        last = max(int(ends[-1]) - 1 for ends in self.kinds) if self.streams else 0
        base, mask = self._addresses(self._streams(np.unique(np.linspace(0, last, _SAMPLED, dtype=int))))
        others, moved = self.row[1:], self.moved[1:, None]
        places = np.where(mask[:, others], (base[:, others] + moved) // SECTOR, -1)
        return places.swapaxes(0, 1).reshape(len(others), len(places) * places.shape[2])

    def places(self, before: np.ndarray) -> list[_Place | None]:
        """Return the `distances` of blocks in executions after so many others; None if there are none."""
        from dse.source.caches.distances import distances  # imports Numba

        executions = list(map(tuple, self._streams(before).T.tolist()))
        which = {streams: number for number, streams in enumerate(dict.fromkeys(executions))}
        streams, places = np.array([*which]).T, list[_Place | None]()
        at_once = max(1, _AT_ONCE // (len(self.masks[0]) * WARP))
        for start in range(0, streams.shape[1], at_once):
            base, mask = self._addresses(streams[:, start : start + at_once])
            apart = base - base[:, self.row[:1]]
            for number in range(len(base)):
                key = apart[number].tobytes(), mask[number].tobytes()  # only these decide
                if key not in self.known:
                    shift, there = np.empty(len(self.row) - 1, np.int64), np.empty(len(self.row) - 1, bool)
                    even = distances(base[number], mask[number], self.row, self.moved, shift, there)
                    self.known[key] = (shift, there) if even else None
                places.append(self.known[key])
        return [places[which[streams]] for streams in executions]

    def _streams(self, before: np.ndarray) -> np.ndarray:
        """Return the streams of executions after so many others, or their number for none: [kinds, n]."""
        return np.stack([np.searchsorted(ends, before, side="right") for ends in self.kinds])

    def _addresses(self, streams: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the addresses in `streams`, [kinds, n], and which threads have any: [n, rows, 32]."""
        shape = (streams.shape[1], *self.masks.shape[1:])
        base, mask = np.zeros(shape, np.int64), np.zeros(shape, bool)
        for rows, of_kind in zip(self.rows, streams, strict=True):
            mask[:, rows] = self.masks[self.set[of_kind]][:, rows]
            for number, execution in enumerate(of_kind.tolist()):
                if execution < len(self.streams):
                    stream = self.streams[execution]
                    of_rows, of_lanes = (size > 1 for size in stream.base.shape)
                    of_warp = stream.base[:, self.lanes[execution]] if of_lanes else stream.base
                    base[number, rows] = (of_warp[rows] if of_rows else of_warp) + stream.offset
        return base, mask
