"""Reduce a dense grid of GPUs × kernels × launches while it is computed: the best, the mean, the count.

The grid is cut into rows of launches shared by many kernels (`layout`). Launches that cannot run are skipped,
and equal neighbours are evaluated once (`launches`). Only the minimum and sum of each row leave the loop that
evaluates the models (`minima`). The k best of the grid are in the k rows with the smallest minima; rows that
may hold one of the best are evaluated again. Leading axes may be groups, each with its own k best.
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

CLOSE = 1e-5  # bound of the relative error of minima computed with fast math


@dataclass(frozen=True)
class Summary:
    """The reduced predictions of one model for a whole grid."""

    shape: tuple[int, ...]  # of the grid
    seconds: np.ndarray  # [k] of the fastest, ascending; infinite if fewer than k can run
    index: np.ndarray  # [k] their flat indices into the grid; -1 if fewer than k can run
    total: float  # seconds of all launchable configurations
    count: int  # launchable configurations

    @property
    def minimum(self) -> float:
        """Seconds of the fastest; infinite if none can run."""
        return float(self.seconds[0])

    @property
    def mean(self) -> float:
        """Mean seconds of launchable configurations; NaN if none can run."""
        return self.total / self.count if self.count else float("nan")

    def coordinates(self) -> tuple[np.ndarray, ...]:
        """Positions of the fastest along each axis of the grid, [k] each; -1 if fewer than k can run."""
        axes = np.unravel_index(np.maximum(self.index, 0), self.shape)
        return tuple(np.where(self.index < 0, -1, axis) for axis in axes)


@dataclass(frozen=True)
class _Best:
    """Rows of kernels × launches with small minima, of one model."""

    minima: np.ndarray
    begin: np.ndarray  # flat index into the grid of the row's piece with the minimum
    number: np.ndarray  # of the row
    group: np.ndarray

    def __getitem__(self, index: np.ndarray) -> "_Best":
        return _Best(*(x[index] for x in vars(self).values()))

    @staticmethod
    def joined(parts: "Iterable[_Best]") -> "_Best":
        return _Best(*map(np.concatenate, zip(*(vars(best).values() for best in parts), strict=True)))

    def smallest(self, k: int, most_tied: int) -> "_Best":
        """The k smallest of one group and ties with the last, in the order of the grid."""
        order = np.lexsort((self.begin, self.minima))
        if len(order) > k:
            close = self.minima[order] <= _raised(self.minima[order[k - 1]])
            order = order[: min(int(close.sum()), most_tied * k)]
        return self[order]


@dataclass(frozen=True)
class _Part:
    """Minima and sums of a part of the grid."""

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
    """Reduce a whole grid for each model: the k fastest configurations, the mean, the launchable count.

    **Shapes:** all fields broadcast to the grid, e.g. [G, 1, 1, 1], [1, K, C, 1] and [1, 1, C, B]. Any number
    and order of axes; long last axes, along which only launches differ, are fastest.
    **Precision:** that of the fields. Rows are chosen by minima that may be off by some units in the last
    place, so configurations closer than that to the k-th may replace it.
    **Ties:** among equally fast configurations the lower flat index comes first.
    **Raises:** ValueError for an empty axis, and for a field with NaN.
    `threads`: number of threads, by default one a core. `cuts`: sizes of the parts.
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

    Summaries are in the order of these positions; their shapes and indices are those of the other axes.
    `shape` is that of the grid, if it has axes that no field depends on.
    """
    registered = get_all(models)
    fields = jax.tree.map(np.asarray, (gpus, kernels, resources))
    shape = np.broadcast_shapes(shape, *(leaf.shape for leaf in jax.tree.leaves(fields)))
    if 0 in shape:
        raise ValueError(f"reduce_grid: found a grid of shape {shape}, expected no empty axis")
    for path, leaf in jax.tree.leaves_with_path(fields):
        if np.isnan(leaf).any():
            raise ValueError(f"reduce_grid: {jax.tree_util.keystr(path)}: found NaN, expected numbers")
    fields, layout = lay_out(without_lacking(fields), shape, groups, cuts)
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


def without_lacking(fields: Fields) -> Fields:
    """Make launches impossible, with no threads, if the kernel needs tensor cores that the GPU lacks."""
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
    only_launches = all(x.shape[-1] == 1 for x in jax.tree.leaves((gpus, kernels)))  # differ along a row
    most = max(1, cuts.launches // layout.row)
    if workers > 1:
        most = min(most, -(-layout.positions // (4 * workers)))
    most = min(most, layout.positions)

    @cache
    def arranged(rows: int) -> tuple[Gpu, Kernel]:
        return jax.tree.map(jnp.asarray, layout.arranged((gpus, kernels), rows))

    def cut_for(length: int) -> LoopSizes:
        return sizes(layout.sizes(layout.outer), layout.rows, length, most * -(-layout.row // length), cuts)

    def reduced(batch: Pieces) -> _Part:
        """Reduce pieces of one length that fit into one call."""
        cut = cut_for(batch.length)
        table = batch.padded(cut.table)
        with in_64_bits():  # the setting is per thread
            minima = minima_and_sums(
                models, cut, *arranged(cut.blocks * cut.rows),
                table.positions.astype(np.int32), table.launches, table.weights,
                np.int32(cut.steps(len(batch))),
            )  # fmt: skip
            minima = jax.tree.map(lambda x: np.asarray(x)[: len(batch), : layout.rows], minima)
        return _by_group(minima, batch, layout, shape, k, cuts.most_tied)

    def task(start: int) -> list[_Part]:
        positions = np.arange(start, min(start + most, layout.positions))

        def table(length: int) -> int:
            return cut_for(length).table

        batches = pieces(layout, gpus, resources, positions, most, only_launches, table, cuts)
        return list(map(reduced, batches)) or [_empty_part(models, layout)]

    starts = range(0, layout.positions, most)
    if workers == 1:
        return [part for start in starts for part in task(start)]
    with ThreadPoolExecutor(workers) as pool:
        return [part for parts in pool.map(task, starts) for part in parts]


def _empty_part(models: tuple[Model, ...], layout: GridLayout) -> _Part:
    """The result if nothing can run."""
    none = _Best(np.empty(0), *(np.empty(0, int) for _ in range(3)))
    zero = np.zeros(layout.group_count)
    names = [model.name for model in models]
    return _Part(dict.fromkeys(names, none), dict.fromkeys(names, zero), zero.astype(int))


def _by_group(
    smallest: dict[str, tuple[np.ndarray, np.ndarray]],
    batch: Pieces,
    layout: GridLayout,
    shape: tuple[int, ...],
    k: int,
    most_tied: int,
) -> _Part:
    """Reduce the minima and sums [pieces, rows] of each model by group."""
    of_pieces, of_rows = layout.groups_of(batch.positions)
    weights = batch.weights.sum(axis=1, dtype=float).astype(int)
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
                group_minima = minima[pieces_here][:, rows_here]
                near = _up_to(group_minima.min(axis=1), k)  # pieces
                flat = _up_to(group_minima[near].ravel(), k)
                piece, row = near[flat // group_minima.shape[1]], flat % group_minima.shape[1]
                values = group_minima[piece, row]
                piece = np.arange(len(batch))[pieces_here][piece]
                row = np.arange(layout.rows)[rows_here][row]
                number = layout.row_number(batch.positions[piece], row)
                begin = layout.index(number, shape) + batch.columns[piece, 0]
                best[name].append(
                    _Best(values, begin, number, np.full(len(values), group)).smallest(k, most_tied)
                )
    return _Part({name: _Best.joined(parts) for name, parts in best.items()}, totals, count)


def _where(mask: np.ndarray) -> slice | np.ndarray:
    return slice(None) if mask.all() else np.flatnonzero(mask)


def _up_to(values: np.ndarray, k: int) -> np.ndarray:
    """Indices of the k smallest values and of ties with the last, within CLOSE."""
    if k >= len(values):
        return np.arange(len(values))
    return np.flatnonzero(values <= _raised(np.partition(values, k - 1)[k - 1]))


def _raised(seconds: np.ndarray | np.floating) -> Any:
    """Raise minima by the error bound of fast math."""
    with np.errstate(over="ignore"):
        return seconds * np.asarray(1 + CLOSE, seconds.dtype)


def _fastest(
    model: Model, fields: Fields, layout: GridLayout, shape: tuple[int, ...], best: _Best, k: int, cuts: Cuts
) -> tuple[np.ndarray, np.ndarray]:
    """Evaluate rows with small minima again: seconds and flat indices within the group, [groups, k]."""
    groups = layout.group_count
    size = prod(shape) // groups
    seconds = np.full((groups, k), np.inf, fields[0].clock.dtype)
    index = np.full((groups, k), -1)
    best = best[np.lexsort((best.begin, best.minima, best.group))]
    best = best[np.sort(np.unique(best.number, return_index=True)[1])]  # a row may have several pieces
    next_row, end = (np.searchsorted(best.group, np.arange(groups), side) for side in ("left", "right"))
    while True:
        limits = zip(next_row, end, _raised(seconds[:, -1]), strict=True)  # of rows that may be better
        end = np.array(
            [row + np.searchsorted(best.minima[row:stop], most, "right") for row, stop, most in limits]
        )
        unfinished = np.flatnonzero(next_row < end)
        if not len(unfinished):
            return seconds, index
        rows = max(1, cuts.again // layout.row // len(unfinished))  # of each group in one call
        last = np.minimum(next_row[unfinished] + rows, end[unfinished])
        spans = zip(next_row[unfinished], last, strict=True)
        candidates = np.concatenate([np.arange(*span) for span in spans])
        next_row[unfinished] = last
        for numbers, times in _again(model, fields, layout, best.number[candidates], cuts.again):
            begin = layout.index(numbers, shape)
            for group in np.unique(begin // size):
                of_group = begin // size == group
                new = times[of_group]
                row, column = np.nonzero(new <= min(seconds[group, -1], np.finfo(new.dtype).max))
                values = np.append(seconds[group], new[row, column])
                indices = np.append(index[group], begin[of_group][row] - group * size + column)
                near = np.flatnonzero(values <= np.partition(values, k - 1)[k - 1])
                near = near[np.lexsort((indices[near], values[near]))][:k]
                seconds[group], index[group] = values[near], indices[near]


def _again(
    model: Model, fields: Fields, layout: GridLayout, numbers: np.ndarray, at_once: int
) -> Iterable[tuple[np.ndarray, np.ndarray]]:
    """Evaluate whole rows in batches: numbers [n] and seconds [n, row], infinite if a launch cannot run."""
    most = max(1, at_once // layout.row)
    for start in range(0, len(numbers), most):
        batch = numbers[start : start + most]
        with in_64_bits():
            taken = layout.take(fields, np.resize(batch, most))  # one shape for all calls
            seconds = np.asarray(row_seconds(model, (most, layout.row), *taken))
        yield batch, seconds[: len(batch)]


@partial(jax.jit, static_argnames=("model", "shape"), compiler_options=WIDE)
def row_seconds(
    model: Model, shape: tuple[int, ...], gpus: Gpu, kernels: Kernel, resources: Resources
) -> Array:
    """Predict a whole grid, or rows; infinite if a launch cannot run."""
    launch, limiter = occupancy.launch(gpus, resources)
    seconds = predict(model, gpus, kernels, launch).seconds
    return jnp.broadcast_to(jnp.where(occupancy.possible(limiter), seconds, jnp.inf), shape)
