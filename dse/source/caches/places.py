"""Find the distances of many blocks' addresses from those of one block, for any order of their tiles.

The addresses of some warps of consecutive blocks are executed. A family of streams moves as a whole from
block to block; if the lanes of a warp move differently, blocks with the very same addresses still share them,
and others are assumed to share nothing.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from dse.hardware.coalescing import SECTOR
from dse.source.caches.sectors import Family
from dse.source.machine.addresses import Addresses
from dse.source.machine.launch import Dimensions
from dse.source.machine.recorded import Stream
from dse.source.machine.thread_set import WARP

# Limits of the work: executed blocks, and these times the executions of memory instructions.
MOST_BLOCKS = 2**11
MOST_EXECUTIONS = 2**20
_MOST_WARPS = 4  # of a block

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
    machine: Any, block: int, families: Sequence[Sequence[Family]], at: Sequence[Dimensions], probe: Probe
) -> list[tuple[list[Group], dict[int, np.ndarray]]]:
    """Locate the families of a block, of several lists of them, in the blocks `at`, of which it is the first.

    With the groups come, by array, sectors of the other blocks, [blocks, 32], -1 for none.

    **Edges:** no group has families of instructions that cannot be located: which the probe does not reach,
    or whose lanes move differently in most blocks, with the same addresses in few only.
    **Raises:** DseError if the blocks cannot be run.
    """
    warps = [[_first_warp(family.stream, block) for family in members] for members in families]
    asked = sorted({warp for some in warps for warp in some})[:_MOST_WARPS]
    executions = probe(at, asked)
    of_probe = cache(partial(_Executions, executions))
    of_machine = cache(partial(_Executions, Addresses.of(machine)))
    result: list[tuple[list[Group], dict[int, np.ndarray]]] = []
    names: dict[int, bytes] = {}  # of places, by their identity
    for members, of_warps in zip(families, warps, strict=True):
        placed: dict[bytes, tuple[tuple[np.ndarray, np.ndarray], list[int]]] = {}
        lost: set[int] = set()  # instructions
        others: dict[int, np.ndarray] = {}
        for number, (family, warp) in enumerate(zip(members, of_warps, strict=True)):
            place, step = None, family.stream.step
            if family.steps <= lost:
                continue  # dropped below
            if warp in asked:
                before = of_machine(step, warp).before(family.stream, block)
                place = of_probe(step, warp).shifts(before)
                if place is None:
                    others[family.array] = of_probe(step, warp).sectors(before)
            if place is None:
                lost |= family.steps
                continue
            if id(place) not in names:
                names[id(place)] = place[0].tobytes() + place[1].tobytes()
            placed.setdefault(names[id(place)], (place, []))[1].append(number)
        kept = [
            Group(tuple(number for number in numbers if not members[number].steps & lost), *place)
            for place, numbers in placed.values()
        ]
        result.append(([group for group in kept if group.families], others))
    return result


def _first_warp(stream: Stream, block: int) -> int:
    return stream.issuer if stream.issuer >= 0 else int(np.argmax(stream.lanes.everywhere[block])) // WARP


class _Executions:
    """Executions of an instruction by a warp of each row of blocks, with their addresses."""

    def __init__(self, addresses: Addresses, step: int, warp: int) -> None:
        machine = addresses.machine
        self.row, self.moved = addresses.row, addresses.moved(step)
        at = int(np.searchsorted(machine.threads, WARP * warp))
        self.rows = machine.shape[0]
        self.streams = [s for s in addresses.streams[step] if s.issuer in (-1, warp)]
        self.number = {id(stream): number for number, stream in enumerate(self.streams)}
        # the lanes of the warp; of boxes their first places
        self.lanes = [slice(WARP) if s.issuer >= 0 else slice(at, at + WARP) for s in self.streams]
        there: dict[tuple[int, bool], Any] = {}  # which rows have some of the lanes
        for stream, lanes in zip(self.streams, self.lanes, strict=True):
            key = (id(stream.lanes), stream.issuer >= 0)
            if key not in there:
                mask = stream.lanes.everywhere
                there[key] = np.any(mask if stream.issuer >= 0 else mask[:, lanes], axis=1)
        times = [s.repeats * there[id(s.lanes), s.issuer >= 0] for s in self.streams]
        self.ends = np.cumsum(np.reshape(times, (len(times), self.rows)), axis=0)  # [streams, rows]
        self.starts = self.ends - np.reshape(times, (len(times), self.rows))
        # rows that execute each stream equally often are alike: [streams, kinds], kind of each row
        kinds, self.kind = np.unique(self.ends.T, axis=0, return_inverse=True)
        self.kinds: list[list[int]] = kinds.tolist()
        self.rows_of: dict[tuple[int, ...], np.ndarray] = {}
        self.known: dict[tuple, tuple[np.ndarray, np.ndarray] | None] = {}

    def before(self, stream: Stream, block: int) -> int:
        """Count the executions before a stream in a block."""
        return int(self.starts[self.number[id(stream)], block])

    def sectors(self, before: int) -> np.ndarray:
        """Return the sectors of other blocks in the execution after `before` others: [blocks, 32], or -1."""
        base, mask = self._addresses(self._here(before))
        others, moved = self.row[1:], self.moved[1:, None]
        return np.where(mask[others], (base[others] + moved) // SECTOR, -1)

    def _here(self, before: int) -> dict[int, np.ndarray]:
        """Return which rows are in which of the streams, in the execution after `before` others."""
        kinds: dict[int, list[int]] = {}
        for kind, ends in enumerate(self.kinds):
            execution = bisect_right(ends, before)
            if execution < len(ends):
                kinds.setdefault(execution, []).append(kind)
        return {execution: self.of_kinds(tuple(kinds[execution])) for execution in sorted(kinds)}

    def of_kinds(self, kinds: tuple[int, ...]) -> np.ndarray:
        """Return which rows are of these kinds."""
        if kinds not in self.rows_of:
            self.rows_of[kinds] = np.isin(self.kind, kinds)
        return self.rows_of[kinds]

    def shifts(self, before: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the `distances` of blocks in the execution after `before` others; None if there are none."""
        from dse.source.caches.distances import distances  # imports Numba

        here = self._here(before)
        streams = [self.streams[execution] for execution in here]
        same = [(id(stream.base), id(stream.lanes), stream.offset - streams[0].offset) for stream in streams]
        key = (*same, b"".join(rows.tobytes() for rows in here.values()))
        if key not in self.known:
            base, mask = self._addresses(here)
            apart = (base - base[self.row[0]]).tobytes(), mask.tobytes()  # only these decide
            if apart not in self.known:
                shift, there = np.empty(len(self.row) - 1, np.int64), np.empty(len(self.row) - 1, bool)
                even = distances(base, mask, self.row, self.moved, shift, there)
                self.known[apart] = (shift, there) if even else None
            self.known[key] = self.known[apart]
        return self.known[key]

    def _addresses(self, here: Mapping[int, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Return the addresses in the streams of rows `here`, and their threads: [rows, 32]."""
        base, mask = np.zeros((self.rows, WARP), np.int64), np.zeros((self.rows, WARP), bool)
        for execution, now in here.items():
            stream, lanes = self.streams[execution], self.lanes[execution]
            of_rows, of_lanes = (size > 1 for size in stream.base.shape)
            of_warp = stream.base[:, lanes] if of_lanes else stream.base
            base[now] = (of_warp[now] if of_rows else of_warp) + stream.offset
            mask[now] = stream.lanes.everywhere[:, lanes][now]
        return base, mask
