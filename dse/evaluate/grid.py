"""Find the fastest configurations of a dense grid of GPUs × kernels × launches while it is computed.

The grid is cut into rows of launches shared by many kernels (`layout`). Launches that cannot run are skipped,
and equal neighbours are evaluated once (`launches`). Only the minimum of each row leaves the loop that
evaluates the models (`minima`). The k best of the grid are in the k rows with the smallest minima; rows that
may hold one of the best are evaluated again. Leading axes may be groups, each with its own k best.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from math import prod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from dse.core.precision import in_64_bits
from dse.evaluate.launches import WIDE, Pieces, pieces
from dse.evaluate.layout import CUTS, Cuts, Fields, GridLayout, lay_out
from dse.evaluate.minima import LoopSizes, row_minima, sizes
from dse.hardware import occupancy
from dse.hardware.tensor import lacking
from dse.models import get_all
from dse.models.protocol import Model, predict
from dse.types import Gpu, Kernel, Resources

CLOSE = 1e-5  # bound of the relative error of minima computed with fast math


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
        none = _Best(np.empty(0), *(np.empty(0, int) for _ in range(3)))
        return _Best(
            *map(np.concatenate, zip(*(vars(best).values() for best in (none, *parts)), strict=True))
        )

    def smallest(self, k: int, most_tied: int) -> "_Best":
        """The k smallest of one group and ties with the last, in the order of the grid."""
        order = np.lexsort((self.begin, self.minima))
        if len(order) > k:
            close = self.minima[order] <= _raised(self.minima[order[k - 1]])
            order = order[: min(int(close.sum()), most_tied * k)]
        return self[order]


def fastest_of_grid(
    models: Iterable[str | Model],
    gpus: Gpu,
    kernels: Kernel,
    resources: Resources,
    k: int,
    groups: int = 0,
    shape: tuple[int, ...] = (1,),
    cuts: Cuts = CUTS,
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return by model the seconds and flat indices of the k fastest of a grid, both [groups, k].

    **Shapes:** all fields broadcast to the grid, e.g. [G, 1, 1, 1], [1, K, C, 1] and [1, 1, C, B]. Any number
    and order of axes; long last axes, along which only launches differ, are fastest. Each position along the
    first `groups` axes is a grid of its own; indices are those of the other axes.
    **Values:** seconds ascend; they are infinite and indices -1 if fewer than k can run.
    **Precision:** that of the fields. Rows are chosen by minima that may be off by some units in the last
    place, so configurations closer than that to the k-th may replace it.
    **Ties:** among equally fast configurations the lower flat index comes first.
    **Raises:** ValueError for an empty axis, and for a field with NaN.
    `shape` is that of the grid, if it has axes that no field depends on. `cuts`: sizes of the parts.
    """
    registered = get_all(models)
    fields = jax.tree.map(np.asarray, (gpus, kernels, resources))
    shape = np.broadcast_shapes(shape, *(leaf.shape for leaf in jax.tree.leaves(fields)))
    if 0 in shape:
        raise ValueError(f"fastest_of_grid: found a grid of shape {shape}, expected no empty axis")
    for path, leaf in jax.tree.leaves_with_path(fields):
        if np.isnan(leaf).any():
            raise ValueError(f"fastest_of_grid: {jax.tree_util.keystr(path)}: found NaN, expected numbers")
    fields, layout = lay_out(without_lacking(fields), shape, groups, cuts)
    parts = list(_parts(registered, fields, layout, shape, k, cuts))
    fastest = {}
    for model in registered:
        best = _Best.joined(part[model.name] for part in parts)
        fastest[model.name] = _fastest(model, fields, layout, shape, best, k, cuts)
    return fastest


def without_lacking(fields: Fields) -> Fields:
    """Make launches impossible, with no threads, if the kernel needs tensor cores that the GPU lacks."""
    gpus, kernels, resources = fields
    lacks = np.asarray(sum(lacking(gpus, kernels.work).values()))
    if not lacks.any():
        return fields
    return gpus, kernels, eqx.tree_at(lambda r: r.threads, resources, np.where(lacks, 0, resources.threads))


def _parts(
    models: tuple[Model, ...], fields: Fields, layout: GridLayout, shape: tuple[int, ...], k: int, cuts: Cuts
) -> Iterator[dict[str, _Best]]:
    """Yield the rows with small minima of each model, part by part."""
    gpus, kernels, resources = fields
    only_launches = all(x.shape[-1] == 1 for x in jax.tree.leaves((gpus, kernels)))  # differ along a row
    most = min(max(1, cuts.launches // layout.row), layout.positions)

    @cache
    def arranged(rows: int) -> tuple[Gpu, Kernel]:
        return jax.tree.map(jnp.asarray, layout.arranged((gpus, kernels), rows))

    def cut_for(length: int) -> LoopSizes:
        return sizes(layout.sizes(layout.outer), layout.rows, length, most * -(-layout.row // length), cuts)

    def table(length: int) -> int:
        return cut_for(length).table

    for start in range(0, layout.positions, most):
        positions = np.arange(start, min(start + most, layout.positions))
        for batch in pieces(layout, gpus, resources, positions, most, only_launches, table, cuts):
            cut = cut_for(batch.length)
            padded = batch.padded(cut.table)
            with in_64_bits():
                minima = row_minima(
                    models, cut, *arranged(cut.blocks * cut.rows),
                    padded.positions.astype(np.int32), padded.launches, padded.possible,
                    np.int32(cut.steps(len(batch))),
                )  # fmt: skip
                minima = {name: np.asarray(x)[: len(batch), : layout.rows] for name, x in minima.items()}
            yield {name: _by_group(x, batch, layout, shape, k, cuts.most_tied) for name, x in minima.items()}


def _by_group(
    minima: np.ndarray, batch: Pieces, layout: GridLayout, shape: tuple[int, ...], k: int, most_tied: int
) -> _Best:
    """Reduce a model's minima [pieces, rows] by group."""
    of_pieces, of_rows = layout.groups_of(batch.positions)
    best = []
    for piece_group, row_group in product(np.unique(of_pieces), np.unique(of_rows)):
        pieces_here, rows_here = _where(of_pieces == piece_group), _where(of_rows == row_group)
        group_minima = minima[pieces_here][:, rows_here]
        near = _up_to(group_minima.min(axis=1), k)  # pieces
        flat = _up_to(group_minima[near].ravel(), k)
        piece, row = near[flat // group_minima.shape[1]], flat % group_minima.shape[1]
        values = group_minima[piece, row]
        piece = np.arange(len(batch))[pieces_here][piece]
        number = layout.row_number(batch.positions[piece], np.arange(layout.rows)[rows_here][row])
        begin = layout.index(number, shape) + batch.columns[piece, 0]
        group = np.full(len(values), piece_group + row_group)
        best.append(_Best(values, begin, number, group).smallest(k, most_tied))
    return _Best.joined(best)


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
