"""The launches of a grid's rows that are worth evaluating: those that can run, and of equal neighbours one.

Registers, for one, act through occupancy alone, so that many of them give the same launch. What is left of
a row is cut into pieces of few lengths, as each length is compiled for.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from dse.core.precision import in_64_bits
from dse.evaluate.layout import CUTS, Cuts, GridLayout
from dse.hardware import occupancy
from dse.types import Gpu, Launch, Resources

WIDE = {"xla_cpu_prefer_vector_width": 512}
WORTH = 1 / 16  # of all work: what a further length has to save,
LEAST = 1 << 22  # and this many configurations: it has to be compiled for


@dataclass(frozen=True)
class Pieces:
    """Pieces of rows, of one length, as arrays [pieces, length]; each has all kernels in common.

    A launch represents `weight` neighbours along the row from `column` on. Those of weight 0 fill up.
    """

    positions: np.ndarray  # [pieces], along the outer axes
    columns: np.ndarray
    weights: np.ndarray  # floats
    launches: Launch  # NumPy arrays

    @property
    def length(self) -> int:
        """Launches of a piece."""
        return self.columns.shape[1]

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, index: Any) -> "Pieces":
        arrays = self.positions, self.columns, self.weights, self.launches
        return Pieces(*jax.tree.map(lambda x: x[index], arrays))

    def padded(self, count: int) -> "Pieces":
        """Repeat the last one until there are as many."""
        return self if len(self) == count else self[np.minimum(np.arange(count), len(self) - 1)]


@partial(jax.jit, compiler_options=WIDE)
def _launches(gpus: Gpu, resources: Resources) -> tuple[Launch, Array]:
    launch, limiter = occupancy.launch(gpus, resources)
    return launch, occupancy.possible(limiter)


def pieces(
    layout: GridLayout,
    gpus: Gpu,
    resources: Resources,
    positions: np.ndarray,
    most: int,
    alike: bool,
    table: Callable[[int], int],
    cuts: Cuts = CUTS,
) -> Iterator[Pieces]:
    """Compute the launches at some positions, `most` at most; of a length, `table` says how many at a time.

    With `alike`, nothing but launches differs along a row. Else rows stay whole, and weights of 0 mark what
    cannot run.
    """
    some = np.resize(positions, most)  # one shape for all calls
    with in_64_bits():
        launch, possible = _launches(*layout.at((gpus, resources), some))
    full = (len(positions), layout.row)
    launch = jax.tree.map(lambda x: np.asarray(x)[: len(positions)], launch)
    possible = np.broadcast_to(np.asarray(possible)[: len(positions)], full)
    if not alike:
        launch = jax.tree.map(lambda x: np.broadcast_to(x, full), launch)
        columns = np.broadcast_to(np.arange(layout.row), full)
        whole = Pieces(positions, columns, possible.astype(launch.waves.dtype), launch)
        for some in _in_parts(np.flatnonzero(possible.any(axis=1)), table(layout.row)):
            yield whole[some]
        return
    first, weights = _runs(launch, possible)
    # Group by group: its row, and its place there. Then piece by piece: where it starts, and its length.
    row, column = np.divmod(first, layout.row)
    place = np.arange(len(first)) - np.searchsorted(row, np.arange(len(positions)))[row]
    start = np.flatnonzero(place % cuts.lengths[-1] == 0)
    count = np.diff(start, append=len(first))
    padded = padded_lengths(count, layout.rows, cuts)
    for length in np.unique(padded):
        for some in _in_parts(np.flatnonzero(padded == length), table(int(length))):
            end = count[some, None]
            at = start[some, None] + np.minimum(np.arange(length), end - 1)
            here, columns = row[at], column[at]
            yield Pieces(
                positions[here[:, 0]],
                columns,
                np.where(np.arange(length) < end, weights[at], 0).astype(launch.waves.dtype),
                jax.tree.map(lambda x, i=here, j=columns: _pick(x, i, j), launch),
            )


def _in_parts(numbers: np.ndarray, most: int) -> Iterator[np.ndarray]:
    for start in range(0, len(numbers), most):
        yield numbers[start : start + most]


def _runs(launch: Launch, possible: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find where runs of equal launches begin that can run, and how long they are. All rows in one array."""
    new = np.ones(possible.shape, bool)
    new[:, 1:] = possible[:, 1:] != possible[:, :-1]
    for x in jax.tree.leaves(launch):
        if x.shape[1] > 1:
            new[:, 1:] |= x[:, 1:] != x[:, :-1]
    first = np.flatnonzero(new)
    length = np.diff(first, append=new.size)
    can_run = possible.ravel()[first]
    return first[can_run], length[can_run]


def _pick(x: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Take from an array [rows or 1, columns or 1]."""
    if x.shape[0] == 1:
        return x[0].take(columns if x.shape[1] > 1 else 0 * columns)
    return x.ravel().take(rows * x.shape[1] + columns if x.shape[1] > 1 else rows)


def padded_lengths(count: np.ndarray, rows: int, cuts: Cuts = CUTS) -> np.ndarray:
    """Choose a length of `cuts` for each piece, shared by `rows`: the next one, if that saves enough."""
    lengths = np.array(cuts.lengths)
    padded = lengths[np.searchsorted(lengths, count)]
    kept = [padded.max(initial=lengths[0])]
    for length in np.unique(padded)[::-1][1:]:
        saved = (padded <= length).sum() * (kept[-1] - length)
        if saved >= WORTH * padded.sum() and saved * rows >= LEAST:
            kept.append(length)
    kept = np.array(kept[::-1])
    return kept[np.searchsorted(kept, count)]
