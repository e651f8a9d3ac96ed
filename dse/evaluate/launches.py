"""The distinct launchable launches of a grid's rows: equal neighbours are evaluated once.

Registers, for example, act only through occupancy, so many values give the same launch. The remaining
launches of a row are cut into pieces of a few lengths, since each length needs a compilation.
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
WORTH = 1 / 16  # share of all work that a further length must save,
LEAST = 1 << 22  # and number of configurations, to justify its compilation


@dataclass(frozen=True)
class Pieces:
    """Pieces of rows of one length, as arrays [pieces, length], shared by all kernels.

    A launch represents its equal neighbours along the row from `column` on. Padding repeats the last.
    """

    positions: np.ndarray  # [pieces], along the outer axes
    columns: np.ndarray
    launches: Launch  # NumPy arrays
    possible: np.ndarray | None = None  # all are, if None

    @property
    def length(self) -> int:
        """Launches of a piece."""
        return self.columns.shape[1]

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, index: Any) -> "Pieces":
        arrays = self.positions, self.columns, self.launches, self.possible
        return Pieces(*jax.tree.map(lambda x: x[index], arrays))

    def padded(self, count: int) -> "Pieces":
        """Pad to `count` pieces by repeating the last."""
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
    only_launches: bool,
    table: Callable[[int], int],
    cuts: Cuts = CUTS,
) -> Iterator[Pieces]:
    """Compute the launches at up to `most` positions; `table` returns the pieces of a length in a batch.

    Rows in which more than launches differ (not `only_launches`) stay whole, with launches that cannot run.
    """
    with in_64_bits():
        same_shape = np.resize(positions, most)
        launch, possible = _launches(*layout.at((gpus, resources), same_shape))
    full = (len(positions), layout.row)
    launch = jax.tree.map(lambda x: np.asarray(x)[: len(positions)], launch)
    possible = np.broadcast_to(np.asarray(possible)[: len(positions)], full)
    if not only_launches:
        launch = jax.tree.map(lambda x: np.broadcast_to(x, full), launch)
        columns = np.broadcast_to(np.arange(layout.row), full)
        whole = Pieces(positions, columns, launch, possible)
        for batch in _batches(np.flatnonzero(possible.any(axis=1)), table(layout.row)):
            yield whole[batch]
        return
    first = _runs(launch, possible)
    # For each run: its row and column, and its index among the row's runs. For each piece: start and length.
    row, column = np.divmod(first, layout.row)
    run = np.arange(len(first)) - np.searchsorted(row, np.arange(len(positions)))[row]
    start = np.flatnonzero(run % cuts.lengths[-1] == 0)
    count = np.diff(start, append=len(first))
    padded = padded_lengths(count, layout.rows, cuts)
    for length in np.unique(padded):
        for batch in _batches(np.flatnonzero(padded == length), table(int(length))):
            index = start[batch, None] + np.minimum(np.arange(length), count[batch, None] - 1)
            rows, columns = row[index], column[index]
            yield Pieces(
                positions[rows[:, 0]],
                columns,
                jax.tree.map(lambda x, i=rows, j=columns: _pick(x, i, j), launch),
            )


def _batches(numbers: np.ndarray, most: int) -> Iterator[np.ndarray]:
    for start in range(0, len(numbers), most):
        yield numbers[start : start + most]


def _runs(launch: Launch, possible: np.ndarray) -> np.ndarray:
    """Return the starts of runs of equal, launchable launches; rows are flattened."""
    new = np.ones(possible.shape, bool)
    new[:, 1:] = ~possible[:, :-1]
    for x in jax.tree.leaves(launch):
        if x.shape[1] > 1:
            new[:, 1:] |= x[:, 1:] != x[:, :-1]
    return np.flatnonzero(new & possible)


def _pick(x: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Index an array [rows or 1, columns or 1]."""
    if x.shape[0] == 1:
        return x[0].take(columns if x.shape[1] > 1 else 0 * columns)
    return x.ravel().take(rows * x.shape[1] + columns if x.shape[1] > 1 else rows)


def padded_lengths(count: np.ndarray, rows: int, cuts: Cuts = CUTS) -> np.ndarray:
    """Choose a length of `cuts` for each piece, shared by `rows`; shorter ones only if they save enough."""
    lengths = np.array(cuts.lengths)
    padded = lengths[np.searchsorted(lengths, count)]
    kept = [padded.max(initial=lengths[0])]
    for length in np.unique(padded)[::-1][1:]:
        saved = (padded <= length).sum() * (kept[-1] - length)
        if saved >= WORTH * padded.sum() and saved * rows >= LEAST:
            kept.append(length)
    kept = np.array(kept[::-1])
    return kept[np.searchsorted(kept, count)]
