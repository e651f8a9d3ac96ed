"""Global addresses of many blocks, derived from executed blocks.

In a row of blocks along x or y that do the same, except for addresses with a constant stride, the first block
determines the others. As for the trips of a loop, that is not guessed but proven: the block's number is a
register that changes by one, and this change is propagated through the first block, which yields the number
of blocks in which all branches go the same way.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from dse.errors import DseError
from dse.source.machine.alike import Apart
from dse.source.machine.launch import Dimensions
from dse.source.machine.recorded import Recorded, Stream, total_counts

_ATTEMPTS = 4  # to cut rows where blocks begin to differ
_SHORTEST = 4  # mean blocks in a row that make this worthwhile
_LONGER, _AT_LEAST = 4, 2  # times what a sample executes: of few blocks, and of many
_WORK, _MOST_WORK = 2**28, 2**30  # threads times pieces of code executed: few up to here; too many
Strides = Mapping[int, int | None]  # bytes per block, by memory instruction
# Runs the first blocks of rows along a dimension of the grid: (machine, blocks after each that do the same,
# strides); raises Apart.
RunFirst = Callable[[Sequence[Dimensions], int], tuple[Any, np.ndarray, Strides]]


@dataclass(frozen=True)
class Addresses:
    """Global addresses of blocks, each moved from those of a block in a machine."""

    machine: Any
    row: np.ndarray  # [blocks] row of the machine
    ahead: np.ndarray  # [blocks] distance in blocks from that one
    strides: Strides = field(default_factory=dict)

    @staticmethod
    def of(machine: Any) -> "Addresses":
        """Return the addresses of a machine's own blocks."""
        count = machine.shape[0]
        return Addresses(machine, np.arange(count), np.zeros(count, int))

    @staticmethod
    def of_rows(
        executed: Recorded, its: Sequence[Dimensions], blocks: Sequence[Dimensions], run: RunFirst
    ) -> "Addresses | None":
        """Return the addresses of blocks that differ evenly in rows along x or y; None if they do not.

        `executed` ran its blocks before: the fewer kinds of them are in a row, the less it is cut.

        **Raises:** as `run`, but for Apart.
        """
        grid = executed.launch.grid
        rows = {axis: _rows(np.array(blocks), axis, grid[axis] - 1) for axis in range(2) if grid[axis] > 1}
        for axis in sorted(rows, key=lambda axis: _kinds(executed, its, axis) * len(rows[axis])):
            of_axis = rows[axis]
            for attempt in range(_ATTEMPTS):
                if _SHORTEST * len(of_axis) > len(blocks):
                    break
                try:
                    machine, more, strides = run([blocks[row[0]] for row in of_axis], axis)
                except Apart:
                    break
                parts = [
                    part
                    for row, after in zip(of_axis, more.tolist(), strict=True)
                    for part in _cut(row, after, attempt)
                ]
                if len(parts) == len(of_axis):
                    of, ahead = np.empty((2, len(blocks)), int)
                    for number, row in enumerate(parts):
                        of[row], ahead[row] = number, np.arange(len(row))
                    return Addresses(machine, of, ahead, strides)
                of_axis = parts
        return None

    @cached_property
    def streams(self) -> Mapping[int, list[Stream]]:
        """The machine's streams, by memory instruction."""
        streams = defaultdict[int, list[Stream]](list)
        for stream in self.machine.streams:
            streams[stream.step].append(stream)
        return streams

    def moved(self, step: int) -> np.ndarray:
        """Return the distance of an instruction's addresses from those in the machine: [blocks] bytes."""
        return self.ahead * (self.strides.get(step) or 0)


def most_pieces(executed: int, shortest: int, threads: int, share: float = 1.0) -> int:
    """Return how many pieces of code so many threads of many blocks may execute, one after another.

    A sample of the launch executed `executed`, this share of them with something to evaluate. Blocks may wait
    for each other as few do not, one by one.

    **Raises:** DseError if even as much as the sample's is too much.
    """
    work = threads * max(share, 1e-3)
    if executed * work > _MOST_WORK:
        raise DseError(f"found {executed:,} pieces of code of {threads:,} threads, expected fewer")
    return max(_AT_LEAST * executed, min(max(shortest, _LONGER * executed), int(_WORK / work)))


def _kinds(machine: Recorded, blocks: Sequence[Dimensions], axis: int) -> int:
    """Count the kinds of executed blocks in the row with most of them."""
    counts, kinds = total_counts(machine)[: 2 * len(machine.program.blocks)], dict[Dimensions, set[bytes]]()
    for number, (x, y, z) in enumerate(blocks):
        row = (0, y, z) if axis == 0 else (x, 0, z)
        kinds.setdefault(row, set()).add(counts[:, number].tobytes())
    return max(map(len, kinds.values()))


def _rows(blocks: np.ndarray, axis: int, last: int) -> list[np.ndarray]:
    """List the indices of consecutive blocks [blocks, 3] along a dimension.

    The last block of the grid, which mostly differs, is a row of its own.
    """
    others = [other for other in (2, 1, 0) if other != axis]
    order = np.lexsort((blocks[:, axis], *(blocks[:, other] for other in others[::-1])))
    step = np.zeros(3, int)
    step[axis] = 1
    blocks = blocks[order]
    parted = (np.diff(blocks, axis=0) != step).any(axis=1) | (blocks[1:, axis] == last)
    edges = [0, *(1 + np.flatnonzero(parted)).tolist(), len(order)]
    return [order[start:end] for start, end in pairwise(edges)]  # np.split takes far longer


def _cut(row: np.ndarray, more: int, attempt: int) -> list[np.ndarray]:
    """Cut a row after the blocks known to do the same as the first.

    The row mostly differs again after as many blocks, but a single block may be one at an edge.
    """
    return np.split(row, range(more + 1, len(row), more + 1) if more or attempt > 1 else [1][: len(row) - 1])
