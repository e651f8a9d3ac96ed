"""A dense grid of GPUs × kernels × launches, reduced where it is computed: the best, the mean, how many run.

The grid is cut into rows of launches that many kernels share (`layout`). Launches that cannot run are left
out, and equal neighbours are evaluated once (`launches`). Only a minimum and a sum of each row leave the loop
that evaluates the models (`minima`). The k best of the grid are in the k rows with the smallest minima, and
as many of these rows are evaluated once more as may hold one of the best. Leading axes may be groups, each of
which has its own k best.
"""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from math import prod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from dse.core.cluster import processors
from dse.core.precision import in_64_bits
from dse.evaluate.launches import WIDE, Pieces, pieces
from dse.evaluate.layout import CUTS, Cuts, Fields, GridLayout, lay_out
from dse.evaluate.minima import LoopSizes, minima_and_sums, sizes
from dse.hardware import occupancy
from dse.hardware.tensor import lacking
from dse.models import get_all
from dse.models.protocol import Model, predict
from dse.types import Gpu, Kernel, Resources

CLOSE = 1e-5  # relative: minima that were computed with fast math may be off by less


@dataclass(frozen=True)
class Summary:
    """The reduced predictions of one model for a whole grid."""

    shape: tuple[int, ...]  # of the grid
    seconds: np.ndarray  # [k] of the fastest, ascending; infinite where fewer than k can run
    index: np.ndarray  # [k] their flat indices into the grid; -1 where fewer than k can run
    total: float  # seconds of all that can run, added up
    count: int  # how many can run

    @property
    def minimum(self) -> float:
        """Seconds of the fastest; infinite where none can run."""
        return float(self.seconds[0])

    @property
    def mean(self) -> float:
        """Mean of seconds over all that can run; NaN where none can."""
        return self.total / self.count if self.count else float("nan")

    def coordinates(self) -> tuple[np.ndarray, ...]:
        """Positions of the fastest along each axis of the grid, [k] each; -1 where fewer than k can run."""
        axes = np.unravel_index(np.maximum(self.index, 0), self.shape)
        return tuple(np.where(self.index < 0, -1, axis) for axis in axes)


@dataclass(frozen=True)
class _Best:
    """Rows of kernels × launches with small minima, of one model."""

    minima: np.ndarray
    begin: np.ndarray  # flat index into the grid of the piece of the row that has it
    number: np.ndarray  # of the row
    group: np.ndarray

    def __getitem__(self, index: np.ndarray) -> "_Best":
        return _Best(*(x[index] for x in vars(self).values()))

    @staticmethod
    def joined(several: "Iterable[_Best]") -> "_Best":
        return _Best(*map(np.concatenate, zip(*(vars(best).values() for best in several), strict=True)))

    def smallest(self, k: int, most_tied: int) -> "_Best":
        """The k smallest of one group, and those as small as the last; of equals those that come first."""
        order = np.lexsort((self.begin, self.minima))
        if len(order) > k:
            close = self.minima[order] <= _raised(self.minima[order[k - 1]])
            order = order[: min(int(close.sum()), most_tied * k)]
        return self[order]


@dataclass(frozen=True)
class _Part:
    """Minima and sums of some pieces."""

    best: dict[str, _Best]  # by model
    totals: dict[str, np.ndarray]  # of each group
    count: np.ndarray


def reduce_grid(
    models: Iterable[str | Model],
    gpus: Gpu,
    kernels: Kernel,
    resources: Resources,
    k: int = 16,
    threads: int | None = None,
    cuts: Cuts = CUTS,
) -> dict[str, Summary]:
    """Reduce a whole grid for each model: the k fastest configurations, the mean, how many can run.

    **Shapes:** all fields broadcast to the grid, e.g. [G, 1, 1, 1], [1, K, C, 1] and [1, 1, C, B]. Any number
    and order of axes; long last axes, along which launches alone differ, are fastest.
    **Precision:** that of the fields. Rows are chosen by minima that may be off by some units in the last
    place, so configurations closer than that to the k-th may replace it.
    **Ties:** of equally fast configurations the one with the lower flat index comes first.
    **Raises:** ValueError for an empty axis, and for a field that holds NaN.
    `threads`: how many parts of the grid are worked on at a time; one for each core if None. `cuts`: how it
    is cut.
    """
    by_model = reduce_groups(models, gpus, kernels, resources, 0, k, threads, cuts=cuts)
    return {name: summaries[0] for name, summaries in by_model.items()}


def reduce_groups(
    models: Iterable[str | Model],
    gpus: Gpu,
    kernels: Kernel,
    resources: Resources,
    groups: int,
    k: int = 16,
    threads: int | None = None,
    shape: tuple[int, ...] = (1,),
    cuts: Cuts = CUTS,
) -> dict[str, list[Summary]]:
    """Reduce a grid as `reduce_grid` does, for each position along its first `groups` axes separately.

    The summaries are in the order of these positions; their shape is that of the other axes, and so are the
    indices. `shape` is that of the grid, where it has axes that no field depends on.
    """
    registered = get_all(models)
    fields = jax.tree.map(np.asarray, (gpus, kernels, resources))
    shape = np.broadcast_shapes(shape, *(leaf.shape for leaf in jax.tree.leaves(fields)))
    if 0 in shape:
        raise ValueError(f"reduce_grid: found a grid of shape {shape}, expected no empty axis")
    for path, leaf in jax.tree.leaves_with_path(fields):
        if np.isnan(leaf).any():
            raise ValueError(f"reduce_grid: {jax.tree_util.keystr(path)}: found NaN, expected numbers")
    fields, layout = lay_out(_without_lacking(fields), shape, groups, cuts)
    parts = _parts(registered, fields, layout, shape, k, threads or processors(), cuts)
    count = sum(part.count for part in parts)
    summaries = {}
    for model in registered:
        total = sum(part.totals[model.name] for part in parts)
        best = _Best.joined(part.best[model.name] for part in parts)
        seconds, index = _fastest(model, fields, layout, shape, best, k, cuts)
        per_group = zip(seconds, index, np.asarray(total).tolist(), np.asarray(count).tolist(), strict=True)
        summaries[model.name] = [Summary(shape[groups:], *sums) for sums in per_group]
    return summaries


def _without_lacking(fields: Fields) -> Fields:
    """Make launches impossible whose kernel needs tensor cores that the GPU has not: they get no threads."""
    gpus, kernels, resources = fields
    lacks = np.asarray(sum(lacking(gpus, kernels.work).values()))
    if not lacks.any():
        return fields
    return gpus, kernels, eqx.tree_at(lambda r: r.threads, resources, np.where(lacks, 0, resources.threads))


def _parts(
    models: tuple[Model, ...],
    fields: Fields,
    layout: GridLayout,
    shape: tuple[int, ...],
    k: int,
    workers: int,
    cuts: Cuts,
) -> list[_Part]:
    """Reduce the whole grid, part by part."""
    gpus, kernels, resources = fields
    alike = _alike(gpus, kernels)
    most = max(1, cuts.launches // layout.row)
    if workers > 1:
        most = min(most, -(-layout.positions // (4 * workers)))
    most = min(most, layout.positions)

    @cache
    def arranged(rows: int) -> tuple[Gpu, Kernel]:
        return jax.tree.map(jnp.asarray, layout.arranged((gpus, kernels), rows))

    def cut_for(length: int) -> LoopSizes:
        return sizes(layout.sizes(layout.outer), layout.rows, length, most * -(-layout.row // length), cuts)

    def reduced(some: Pieces) -> _Part:
        """Reduce pieces of one length that fit into one call."""
        cut = cut_for(some.length)
        table = some.padded(cut.table)
        with in_64_bits():  # each thread has its own
            minima = minima_and_sums(
                models, cut, *arranged(cut.blocks * cut.rows),
                table.positions.astype(np.int32), table.launches, table.weights,
                np.int32(cut.steps(len(some))),
            )  # fmt: skip
            minima = jax.tree.map(lambda x: np.asarray(x)[: len(some), : layout.rows], minima)
        return _by_group(minima, some, layout, shape, k, cuts.most_tied)

    def task(start: int) -> list[_Part]:
        positions = np.arange(start, min(start + most, layout.positions))

        def table(length: int) -> int:
            return cut_for(length).table

        some = pieces(layout, gpus, resources, positions, most, alike, table, cuts)
        return [reduced(piece) for piece in some] or [_nothing(models, layout)]

    starts = range(0, layout.positions, most)
    if workers == 1:
        return [part for start in starts for part in task(start)]
    with ThreadPoolExecutor(workers) as pool:
        return [part for parts in pool.map(task, starts) for part in parts]


def _nothing(models: tuple[Model, ...], layout: GridLayout) -> _Part:
    """The result of pieces in which nothing can run."""
    none = _Best(np.empty(0), *(np.empty(0, int) for _ in range(3)))
    zero = np.zeros(layout.group_count)
    names = [model.name for model in models]
    return _Part(dict.fromkeys(names, none), dict.fromkeys(names, zero), zero.astype(int))


def _by_group(
    smallest: dict[str, tuple[np.ndarray, np.ndarray]],
    some: Pieces,
    layout: GridLayout,
    shape: tuple[int, ...],
    k: int,
    most_tied: int,
) -> _Part:
    """Reduce the minima and sums [pieces, rows] of each model: each group has its own."""
    of_pieces, of_rows = layout.groups_of(some.positions)
    weights = some.weights.sum(axis=1, dtype=float).astype(int)
    totals = {name: np.zeros(layout.group_count) for name in smallest}
    count = np.zeros(layout.group_count, int)
    best: dict[str, list[_Best]] = {name: [] for name in smallest}
    for piece_group in np.unique(of_pieces):
        pieces_here = _where(of_pieces == piece_group)
        for row_group in np.unique(of_rows):
            rows_here = _where(of_rows == row_group)
            group = piece_group + row_group
            count[group] += int(weights[pieces_here].sum()) * len(of_rows[rows_here])
            for name, (minima, sums) in smallest.items():
                total = float(np.sum(sums[pieces_here][:, rows_here], dtype=np.float64))
                totals[name][group] += np.inf if np.isnan(total) else total  # 0 times inf
                mine = minima[pieces_here][:, rows_here]
                near = _up_to(mine.min(axis=1), k)  # pieces
                at = _up_to(mine[near].ravel(), k)
                piece, row = near[at // mine.shape[1]], at % mine.shape[1]
                values = mine[piece, row]
                piece = np.arange(len(some))[pieces_here][piece]
                row = np.arange(layout.rows)[rows_here][row]
                number = layout.row_number(some.positions[piece], row)
                begin = layout.index(number, shape) + some.columns[piece, 0]
                best[name].append(
                    _Best(values, begin, number, np.full(len(values), group)).smallest(k, most_tied)
                )
    return _Part({name: _Best.joined(parts) for name, parts in best.items()}, totals, count)


def _where(holds: np.ndarray) -> slice | np.ndarray:
    return slice(None) if holds.all() else np.flatnonzero(holds)


def _up_to(values: np.ndarray, k: int) -> np.ndarray:
    """Find where the k smallest values are and all that are as small as the last of them."""
    if k >= len(values):
        return np.arange(len(values))
    return np.flatnonzero(values <= _raised(np.partition(values, k - 1)[k - 1]))


def _raised(seconds: np.ndarray | np.floating) -> Any:
    """Raise minima by what fast math may have taken off."""
    with np.errstate(over="ignore"):
        return seconds * np.asarray(1 + CLOSE, seconds.dtype)


def _fastest(
    model: Model, fields: Fields, layout: GridLayout, shape: tuple[int, ...], best: _Best, k: int, cuts: Cuts
) -> tuple[np.ndarray, np.ndarray]:
    """Evaluate rows with small minima once more: seconds and flat indices within the group, [groups, k]."""
    groups = layout.group_count
    size = prod(shape) // groups
    seconds = np.full((groups, k), np.inf, fields[0].clock.dtype)
    index = np.full((groups, k), -1)
    best = best[np.lexsort((best.begin, best.minima, best.group))]
    best = best[np.sort(np.unique(best.number, return_index=True)[1])]  # a row may have several pieces
    next_row, end = (np.searchsorted(best.group, np.arange(groups), side) for side in ("left", "right"))
    while True:
        may = zip(next_row, end, _raised(seconds[:, -1]), strict=True)  # rows that may hold a better one
        end = np.array(
            [row + np.searchsorted(best.minima[row:stop], most, "right") for row, stop, most in may]
        )
        going = np.flatnonzero(next_row < end)
        if not len(going):
            return seconds, index
        rows = max(1, cuts.again // layout.row // len(going))  # of each group: as many as go into one call
        last = np.minimum(next_row[going] + rows, end[going])
        candidates = np.concatenate([np.arange(*ends) for ends in zip(next_row[going], last, strict=True)])
        next_row[going] = last
        for numbers, times in _again(model, fields, layout, best.number[candidates], cuts.again):
            begin = layout.index(numbers, shape)
            for group in np.unique(begin // size):
                mine = np.flatnonzero(begin // size == group)
                here = times[mine]
                row, column = np.nonzero(here <= min(seconds[group, -1], np.finfo(here.dtype).max))
                both = np.append(seconds[group], here[row, column])
                places = np.append(index[group], begin[mine][row] - group * size + column)
                near = _smallest(both, k)
                near = near[np.lexsort((places[near], both[near]))][:k]
                seconds[group], index[group] = both[near], places[near]


def _smallest(values: np.ndarray, k: int) -> np.ndarray:
    """Find where the k smallest values are and all that equal the last of them."""
    return np.flatnonzero(values <= np.partition(values, k - 1)[k - 1])


def _again(
    model: Model, fields: Fields, layout: GridLayout, numbers: np.ndarray, at_once: int
) -> Iterable[tuple[np.ndarray, np.ndarray]]:
    """Evaluate whole rows, some at a time: numbers [n] and seconds [n, row], infinite for what cannot run."""
    gpus, kernels, resources = fields
    most = max(1, at_once // layout.row)
    for start in range(0, len(numbers), most):
        some = numbers[start : start + most]
        with in_64_bits():
            taken = layout.take((gpus, kernels, resources), np.resize(some, most))  # one shape for all calls
            seconds = np.asarray(_seconds(model, (most, layout.row), *taken))
        yield some, seconds[: len(some)]


def _alike(gpus: Gpu, kernels: Kernel) -> bool:
    """Whether nothing but launches differs along a row."""
    return all(x.shape[-1] == 1 for x in jax.tree.leaves((gpus, kernels)))


@partial(jax.jit, static_argnames=("model", "shape"), compiler_options=WIDE)
def _seconds(model: Model, shape: tuple[int, int], gpus: Gpu, kernels: Kernel, resources: Resources) -> Array:
    """Predict some rows; infinite for what cannot run."""
    launch, limiter = occupancy.launch(gpus, resources)
    seconds = predict(model, gpus, kernels, launch).seconds
    return jnp.broadcast_to(jnp.where(occupancy.possible(limiter), seconds, jnp.inf), shape)
