"""Find the distances of many blocks' addresses from those of one block, for any order of their tiles.

The addresses of some warps of consecutive blocks are executed. A family of streams moves as a whole from
block to block; if the lanes of a warp move differently, blocks with the very same addresses still share them,
and others are assumed to share nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from dse.hardware.coalescing import SECTOR
from dse.source.caches.sectors import Families
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

# Runs some warps (None: all) of some blocks of the launch: (blocks, warps, instructions) → their addresses.
Probe = Callable[[Sequence[Dimensions], Sequence[int] | None, frozenset[int]], Addresses]


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
    ends = [  # first and last warp of each family
        np.array([ends_of(stream.lanes, stream.issuer) for stream in members.streams], int).reshape(-1, 2)
        for members in families
    ]
    for own, members in zip(ends, families, strict=True):
        own[members.as_whole, 1] = own[members.as_whole, 0]
    every = sorted({*np.concatenate(ends).ravel().tolist()})
    asked = sorted({*every[: _MOST_WARPS - 1], *every[-1:]})
    warps = machine.shape[1] // WARP
    few = at[: 1 + min(max(_FEWEST_BLOCKS, len(at) * len(asked) // warps), _ENOUGH_BLOCKS)]
    only = frozenset(stream.step for members in families for stream in members.streams)
    runs = _Runs(
        asked, _by_instruction(probe(at, asked, only)), _by_instruction(Addresses.of(machine)), range(warps),
        lambda steps: _by_instruction(probe(few, None, steps)),
    )  # fmt: skip
    known: dict[int, _Place] = {}
    result: list[tuple[list[Group], dict[int, _Sectors]]] = []
    for members, own in zip(families, ends, strict=True):
        names = _names(members, own, block, runs, known)
        place = _common(names, known)
        lost, others = _lost(members, own, names, place, runs)
        kept = (place != 0) & members.within({*members.insts[:, 1].tolist()} - lost)
        placed: dict[int, list[int]] = {}
        for number in np.flatnonzero(kept).tolist():
            placed.setdefault(int(place[number]), []).append(number)
        result.append(([Group(tuple(numbers), *known[name]) for name, numbers in placed.items()], others))
    return result


class _Runs(NamedTuple):
    """Executions of instructions: by some warps of many blocks, by those of a sample, and of all warps."""

    asked: Sequence[int]  # warps that many blocks ran
    many: "_ByInstruction"
    sample: "_ByInstruction"
    warps: range  # of a block
    whole: "Callable[[frozenset[int]], _ByInstruction]"  # of the first of the many, some instructions


def _names(
    members: Families, ends: np.ndarray, block: int, runs: _Runs, known: dict[int, _Place]
) -> np.ndarray:
    """Return the names of the places of families' first and last warps, and add these: [families, 2].

    0 is none. Of `ends`, the warps, that were not run becomes the other.
    """
    inst = np.array([stream.step for stream in members.streams], int)
    ran, names = np.isin(ends, runs.asked), np.zeros(ends.shape, np.uint64)
    for step, warp in sorted({*zip(inst.repeat(2).tolist(), ends.ravel().tolist(), strict=True)}):
        chosen = ran & (ends == warp) & (inst == step)[:, None]
        if numbers := np.flatnonzero(chosen.any(axis=1)).tolist():
            before = runs.sample(step).of(warp).before([members.streams[n] for n in numbers], block)
            own = runs.many(step).of(warp).places(before, known)
            names[numbers] = np.where(chosen[numbers], own[:, None], names[numbers])
    ends[:] = np.where(ran, ends, ends[:, ::-1])
    return np.where(ran, names, names[:, ::-1])


def _lost(
    members: Families, ends: np.ndarray, names: np.ndarray, place: np.ndarray, runs: _Runs
) -> tuple[set[int], dict[int, _Sectors]]:
    """Return the instructions of families without a place, and sectors that they touch, by array."""
    lost: set[int] = set()
    of_array: dict[int, tuple[int, int]] = {}  # an instruction, and a warp of many blocks
    insts = np.split(members.insts[:, 1], np.flatnonzero(np.diff(members.insts[:, 0])) + 1)
    for number in np.flatnonzero(place == 0).tolist():
        steps = {*insts[number].tolist()}
        warp = int(ends[number, 0 if names[number, 1] else 1])
        if not steps <= lost and warp in runs.asked:
            of_array[int(members.array[number])] = members.streams[number].step, warp
        lost |= steps
    if not of_array:
        return lost, {}
    whole = runs.whole(frozenset(step for step, _ in of_array.values()))

    def sectors(step: int, warp: int) -> _Sectors:
        of_first, of_sample = (
            np.concatenate([of(step).of(every).sectors() for every in runs.warps], axis=1)
            for of in (whole, runs.sample)
        )
        return runs.many(step).of(warp).sectors(), of_first, of_sample

    return lost, {array: sectors(*chosen) for array, chosen in of_array.items()}


def _end_warps(block: int, lanes: Lanes, issuer: int) -> tuple[int, int]:
    """Return the first and the last warp of a block in a set of lanes, or the one that issues."""
    if issuer >= 0:
        return issuer, issuer
    first, last = np.flatnonzero(lanes.everywhere[block])[[0, -1]] // WARP
    return int(first), int(last)


def _common(names: np.ndarray, known: dict[int, _Place]) -> np.ndarray:
    """Return the names of the places of first and last warps together, 0 if there are none: [n].

    **Shapes:** names [n, 2], 0 for none.
    """
    from dse.source.caches.distances import of_both  # imports Numba

    pairs, which = np.unique(names, axis=0, return_inverse=True)
    common = np.where(pairs.all(axis=1), pairs[:, 0], np.uint64(0))
    for number in np.flatnonzero(common != pairs[:, 1]).tolist():
        if common[number]:
            (shift, there), (of_last, last_there) = (known[name] for name in pairs[number].tolist())
            shift = shift.copy()
            common[number] = of_both(shift, of_last, there, last_there)
            known.setdefault(int(common[number]), (shift, there))
    return common[which.ravel()]


def _by_instruction(addresses: Addresses) -> "_ByInstruction":
    return cache(partial(_Instruction, addresses))


class _Instruction:
    """The executions of an instruction, with their addresses."""

    def __init__(self, addresses: Addresses, step: int) -> None:
        self.addresses, self.moved = addresses, addresses.moved(step)
        self.streams = addresses.streams[step]
        self.issuer = np.array([stream.issuer for stream in self.streams], int)
        self.repeats = np.array([stream.repeats for stream in self.streams], int)
        sets = {id(stream.lanes): number for number, stream in enumerate(self.streams)}
        self.sets = [self.streams[number].lanes for number in sets.values()]
        numbers = {key: number for number, key in enumerate(sets)}
        self.set = np.array([numbers[id(stream.lanes)] for stream in self.streams], int)
        self.of = cache(partial(_Executions, self))


class _Executions:
    """Executions of an instruction by a warp of each row of blocks, with their addresses."""

    def __init__(self, inst: _Instruction, warp: int) -> None:
        machine = inst.addresses.machine
        self.row, self.moved = inst.addresses.row, inst.moved
        own = np.flatnonzero((inst.issuer == warp) | (inst.issuer < 0))
        self.streams = [inst.streams[number] for number in own.tolist()]
        # the lanes of the warp; of boxes, which have issuers, their first places
        at, boxed = int(np.searchsorted(machine.threads, WARP * warp)), inst.issuer[own] >= 0
        self.lanes = slice(at, at + WARP), slice(WARP)
        self.boxed = boxed.tolist()
        sets, which = np.unique([inst.set[own], boxed], axis=1, return_inverse=True)
        nobody = np.zeros((machine.shape[0], WARP), bool)
        whole = [inst.sets[number].everywhere for number in sets[0].tolist()]
        masks = [every[:, self.lanes[of_box]] for every, of_box in zip(whole, sets[1].tolist(), strict=True)]
        self.masks = np.stack([*masks, nobody])  # the last: no stream
        self.set = np.append(which.ravel(), len(masks))
        have = [every if of_box else mask for every, mask, of_box in zip(whole, masks, sets[1], strict=True)]
        there = np.array([mask.any(axis=1) for mask in (*have, nobody)])  # rows that have some of the lanes
        times = np.append(inst.repeats[own], 0)[:, None] * there[self.set]
        ends = np.cumsum(times, axis=0)
        self.starts = dict(zip(map(id, self.streams), ends - times, strict=False))
        ends = np.ascontiguousarray(ends[:-1].T)
        alike: dict[bytes, list[int]] = {}  # rows that execute each stream equally often: mostly all
        for row, of_row in enumerate(ends[: 1 if (ends == ends[0]).all() else None]):
            alike.setdefault(of_row.tobytes(), []).append(row)
        self.rows = [np.array(rows) for rows in alike.values()] if len(alike) > 1 else [np.arange(len(ends))]
        self.kinds = [ends[rows[0]] for rows in self.rows]

    def before(self, streams: Sequence[Stream], block: int) -> np.ndarray:
        """Count the executions before each of these streams in a block: [n]."""
        return np.array([int(self.starts[id(stream)][block]) for stream in streams])

    def sectors(self) -> np.ndarray:
        """Return the sectors of blocks but the first in some executions: [blocks, lanes], -1 for none."""
        last = max(int(ends[-1]) - 1 for ends in self.kinds) if self.streams else 0
        base, mask = self._addresses(self._streams(np.unique(np.linspace(0, last, _SAMPLED, dtype=int))))
        others, moved = self.row[1:], self.moved[1:, None]
        places = np.where(mask[:, others], (base[:, others] + moved) // SECTOR, -1)
        return places.swapaxes(0, 1).reshape(len(others), len(places) * places.shape[2])

    def places(self, before: np.ndarray, known: dict[int, _Place]) -> np.ndarray:
        """Return the names of the `distances` of blocks in executions after so many others: [n]; add them."""
        from dse.source.caches.distances import distances  # imports Numba

        streams, which = np.unique(self._streams(before), axis=1, return_inverse=True)
        names, blocks = np.zeros(streams.shape[1], np.uint64), len(self.row) - 1
        at_once = max(1, _AT_ONCE // (len(self.masks[0]) * WARP))
        for start in range(0, len(names), at_once):
            own = names[start : start + at_once]
            shift, there = np.empty((len(own), blocks), np.int64), np.empty((len(own), blocks), bool)
            addresses = self._addresses(streams[:, start : start + at_once])
            distances(*addresses, self.row, self.moved, shift, there, own)
            for name, number in zip(*np.unique(own, return_index=True), strict=True):
                if int(name) not in known:
                    known[int(name)] = shift[number].copy(), there[number].copy()
        return names[which.ravel()]

    def _streams(self, before: np.ndarray) -> np.ndarray:
        """Return the streams of executions after so many others, or their number for none: [kinds, n]."""
        return np.stack([np.searchsorted(ends, before, side="right") for ends in self.kinds])

    def _addresses(self, streams: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the addresses in `streams`, [kinds, n], and which threads have any: [n, rows, 32]."""
        shape = (streams.shape[1], *self.masks.shape[1:])
        base, mask = np.zeros(shape, np.int64), np.zeros(shape, bool)
        for rows, of_kind in zip(self.rows, streams, strict=True):
            own = rows if len(self.rows) > 1 else slice(None)  # which is faster
            mask[:, own] = self.masks[self.set[of_kind]][:, own]
            for number, execution in enumerate(of_kind.tolist()):
                if execution < len(self.streams):
                    stream, lanes = self.streams[execution], self.lanes[self.boxed[execution]]
                    places = stream.base if stream.base.shape[1] == 1 else stream.base[:, lanes]
                    picked = places if len(places) in (1, len(rows)) else places[rows]
                    base[number, own] = picked + stream.offset
        return base, mask


_ByInstruction = Callable[[int], _Instruction]
