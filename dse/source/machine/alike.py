"""Cut a grid into boxes of blocks that provably execute the same code, from the execution of single blocks.

The number of a block along a dimension of the grid is a register that changes by one from block to block. The
change is propagated through the execution of a block, which yields the number of blocks in which all branches
go the same way. Where a box ends the next begins, until boxes make up the grid.
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from dse.errors import DseError
from dse.source.machine.launch import Dimensions

_ROUNDS = 8  # of blocks run to cut a grid into boxes
_ONE_BY_ONE = 3  # rounds in which the rest of a box is one box; then it is cut like its first part


class Apart(Exception):
    """Consecutive blocks that are not known to execute the same code; the message says why."""


class Boxes(NamedTuple):
    """Boxes that make up a grid, of blocks that execute the same code; none if all blocks do."""

    firsts: np.ndarray  # [boxes, 3], a block of each
    sizes: np.ndarray  # [boxes], blocks
    counts: np.ndarray  # [pieces, boxes], how often a block executes each piece of code
    exact: bool  # whether predicated instructions are the same, too

    @staticmethod
    def alike(pieces: int) -> "Boxes":
        """Return the boxes of a grid whose blocks all execute the same code."""
        return Boxes(np.zeros((0, 3), int), np.zeros(0), np.zeros((pieces, 0)), exact=True)


class Followed(NamedTuple):
    """What the execution of blocks implies for the next ones along some dimensions."""

    more: np.ndarray  # [dimensions, blocks] next ones that execute the same code
    mixed: bool  # whether a value depends on the block's numbers along two dimensions
    counts: np.ndarray  # [pieces, blocks]
    exact: bool


# Runs the first blocks of boxes of these sizes [boxes, 3]; raises Apart.
Follow = Callable[[Sequence[Dimensions], np.ndarray], Followed]


def boxes_of(grid: Dimensions, axes: Sequence[int], follow: Follow, most: int) -> Boxes | str:
    """Cut a grid into at most `most` boxes, each within its corners, edges or inside, or say why not.

    `axes` are the dimensions along which blocks may differ, which `follow` follows.
    """
    left, done = _cells(grid), list[Boxes]()
    for attempt in range(_ROUNDS):
        starts, sizes = left[:, 0], left[:, 1]
        if len(left) + sum(len(boxes.sizes) for boxes in done) > most:
            break
        try:
            seen = follow([(x, y, z) for x, y, z in starts.tolist()], sizes)
        except (Apart, DseError) as reason:
            return str(reason)
        proven = sizes.copy()
        for axis, more in zip(axes, seen.more, strict=True):
            proven[:, axis] = np.minimum(more + 1, sizes[:, axis])
        across = [axis for axis in axes if axis != max(axes, key=lambda axis: grid[axis])]
        if seen.mixed and (sizes[:, across] > 1).any():  # row by row
            if sizes[:, across].prod(axis=1).sum() > most:
                break
            for axis in across:
                left = _cut(left, axis, np.ones(len(left), int))
            continue
        done.append(Boxes(starts, proven.prod(axis=1).astype(float), seen.counts, seen.exact))
        rests = []
        for axis in axes:
            rest = np.stack([starts, sizes], axis=1)
            rest[:, 0, axis] += proven[:, axis]
            rest[:, 1, axis] -= proven[:, axis]
            remaining = rest[:, 1, axis] > 0
            step = proven[remaining, axis] if attempt >= _ONE_BY_ONE else rest[remaining, 1, axis]
            if (rest[remaining, 1, axis] // step).sum() > most:
                step = rest[remaining, 1, axis]
            rests.append(_cut(rest[remaining], axis, step))
            sizes = sizes.copy()
            sizes[:, axis] = proven[:, axis]
        left = np.concatenate(rests)
        if not len(left):
            firsts, of, counted, exact = zip(*done, strict=True)
            return Boxes(np.concatenate(firsts), np.concatenate(of), np.hstack(counted), all(exact))
    return "blocks differ in too many ways"


def _cells(grid: Dimensions) -> np.ndarray:
    """Cut a grid into its corners, edges and inside: [cells, (start, size), 3]."""
    parts = [[part for part in ((0, 1), (1, size - 2), (size - 1, 1)) if part[1] > 0] for size in grid]
    alone = [own if size > 1 else own[:1] for own, size in zip(parts, grid, strict=True)]
    return np.array(list(product(*alone))).transpose(0, 2, 1)


def _cut(boxes: np.ndarray, axis: int, step: np.ndarray) -> np.ndarray:
    """Cut boxes [boxes, (start, size), 3] along a dimension into slices of the given width for each."""
    slices = -(-boxes[:, 1, axis] // step)
    cut, step = np.repeat(boxes, slices, axis=0), np.repeat(step, slices)
    before = (np.arange(len(cut)) - np.repeat(np.cumsum(slices) - slices, slices)) * step
    cut[:, 0, axis] += before
    cut[:, 1, axis] = np.minimum(cut[:, 1, axis] - before, step)
    return cut
