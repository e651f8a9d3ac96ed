"""A dense grid of GPUs × kernels × launches, reduced where it is computed: the best, the mean, how many run.

The grid is cut into rows of launches that many kernels share (`layout`). Launches that cannot run are left
out, and equal neighbours are evaluated once (`launches`). Only a minimum and a sum of each row leave the loop
that evaluates the models (`minima`). The k best of the grid lie in the k rows with the smallest minima, and
these rows are evaluated once more.
"""

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from dse.evaluate.launches import WIDE, Pieces, joined, pieces
from dse.evaluate.layout import Fields, Layout, lay_out
from dse.evaluate.minima import Sizes, minima_and_sums, sizes
from dse.hardware.tensor import lacking
from dse.models import get_all
from dse.models.protocol import Model
from dse.precision import in_64_bits
from dse.types import Gpu, Kernel, Launch, Resources

LAUNCHES = 1 << 19  # of which differences are looked for at a time


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
        """Where the fastest lie along each axis of the grid, [k] each; -1 where fewer than k can run."""
        axes = np.unravel_index(np.maximum(self.index, 0), self.shape)
        return tuple(np.where(self.index < 0, -1, axis) for axis in axes)


@dataclass(frozen=True)
class _Best:
    """Rows of kernels × launches with small minima, of one model."""

    minima: np.ndarray
    begin: np.ndarray  # flat index into the grid
    position: np.ndarray  # along the outer axes
    kernel: np.ndarray  # which of those that share the launches
    column: np.ndarray  # where a piece of launches begins

    def __getitem__(self, chosen: np.ndarray) -> "_Best":
        return _Best(*(x[chosen] for x in vars(self).values()))

    @staticmethod
    def joined(several: "Iterable[_Best]") -> "_Best":
        return _Best(*map(np.concatenate, zip(*(vars(each).values() for each in several), strict=True)))

    def smallest(self, k: int) -> "_Best":
        """The k smallest; of equals those that come first in the grid."""
        return self[np.lexsort((self.begin, self.minima))[:k]]


@dataclass(frozen=True)
class _Part:
    """What is found in some pieces."""

    best: dict[str, _Best]  # by model
    totals: dict[str, float]
    count: int


def reduce_grid(
    models: Iterable[str | Model],
    gpus: Gpu,
    kernels: Kernel,
    resources: Resources,
    k: int = 16,
    threads: int | None = None,
) -> dict[str, Summary]:
    """Reduce a whole grid for each model: the k fastest configurations, the mean, how many can run.

    **Shapes:** all fields broadcast to the grid, e.g. [G, 1, 1, 1], [1, K, C, 1] and [1, 1, C, B]. Any number
    and order of axes; long last axes, along which launches alone differ, are fastest.
    **Precision:** that of the fields. Rows are chosen by minima that may be off by some units in the last
    place, so configurations closer than that to the k-th may stand for it.
    **Ties:** of equally fast configurations the one with the lower flat index comes first.
    **Raises:** ValueError for an empty axis, and for a field that holds NaN.
    `threads`: how many parts of the grid are worked on at a time; one for each core if None.
    """
    chosen = get_all(models)
    fields = jax.tree.map(np.asarray, (gpus, kernels, resources))
    shape = np.broadcast_shapes((1,), *(leaf.shape for leaf in jax.tree.leaves(fields)))
    if 0 in shape:
        raise ValueError(f"reduce_grid: found a grid of shape {shape}, expected no empty axis")
    for path, leaf in jax.tree.leaves_with_path(fields):
        if np.isnan(leaf).any():
            raise ValueError(f"reduce_grid: {jax.tree_util.keystr(path)}: found NaN, expected numbers")
    fields, layout = lay_out(_without_lacking(fields), shape)
    parts = _parts(chosen, fields, layout, shape, k, threads or len(os.sched_getaffinity(0)))
    count = sum(part.count for part in parts)
    totals = {model.name: sum(part.totals[model.name] for part in parts) for model in chosen}
    best = _fastest(chosen, fields, layout, [part.best for part in parts], k) if count else {}
    none = np.empty(0, fields[0].clock.dtype), np.empty(0, int)
    summaries = {}
    for name, total in totals.items():
        seconds, index = best.get(name, none)
        lacking = (0, k - len(seconds))
        seconds = np.pad(seconds, lacking, constant_values=np.inf)
        summaries[name] = Summary(shape, seconds, np.pad(index, lacking, constant_values=-1), total, count)
    return summaries


def _without_lacking(fields: Fields) -> Fields:
    """Make launches impossible whose kernel needs tensor cores that the GPU has not: they get no threads."""
    gpus, kernels, resources = fields
    lacks = np.asarray(sum(lacking(gpus, kernels.work).values()))
    if not lacks.any():
        return fields
    return gpus, kernels, eqx.tree_at(lambda r: r.threads, resources, np.where(lacks, 0, resources.threads))


def _parts(
    models: tuple[Model, ...], fields: Fields, layout: Layout, shape: tuple[int, ...], k: int, workers: int
) -> list[_Part]:
    """Reduce the whole grid, part by part."""
    gpus, kernels, resources = fields
    alike = _alike(gpus, kernels)
    most = max(1, LAUNCHES // layout.row)
    if workers > 1:
        most = min(most, -(-layout.positions // (4 * workers)))
    most = min(most, layout.positions)

    @cache
    def arranged(rows: int) -> tuple[Gpu, Kernel]:
        return jax.tree.map(jnp.asarray, layout.arranged((gpus, kernels), rows))

    def cut_for(length: int) -> Sizes:
        return sizes(layout.sizes(layout.outer), layout.rows, length)

    def reduced(some: Pieces) -> _Part:
        """Reduce pieces of one length that fit into one call."""
        cut = cut_for(some.length)
        table = some.padded(cut.table)
        with in_64_bits():  # each thread has its own
            found = minima_and_sums(
                models, cut, *arranged(cut.blocks * cut.rows),
                table.positions.astype(np.int32), table.launches, table.weights,
                np.int32(cut.steps(len(some))),
            )  # fmt: skip
            found = jax.tree.map(lambda x: np.asarray(x)[: len(some), : layout.rows], found)
        best = {name: _smallest(minima, some, layout, shape, k) for name, (minima, _) in found.items()}
        totals = {name: float(np.sum(sums, dtype=np.float64)) for name, (_, sums) in found.items()}
        totals = {name: np.inf if np.isnan(total) else total for name, total in totals.items()}  # 0 times inf
        return _Part(best, totals, int(some.weights.sum(dtype=float)) * layout.rows)

    def task(start: int) -> list[_Part]:
        positions = np.arange(start, min(start + most, layout.positions))
        some = pieces(layout, gpus, resources, positions, most, alike, lambda length: cut_for(length).table)
        return [reduced(each) for each in some]

    starts = range(0, layout.positions, most)
    if workers == 1:
        return [part for start in starts for part in task(start)]
    with ThreadPoolExecutor(workers) as pool:
        return [part for parts in pool.map(task, starts) for part in parts]


def _smallest(minima: np.ndarray, some: Pieces, layout: Layout, shape: tuple[int, ...], k: int) -> _Best:
    """Find the k smallest of minima [pieces, rows]."""
    near = _up_to(minima.min(axis=1), k)  # pieces
    at = _up_to(minima[near].ravel(), k)
    piece, kernel = near[at // layout.rows], at % layout.rows
    numbers = layout.row_number(some.positions[piece], kernel)
    column = some.columns[piece, 0]
    begin = layout.index(numbers, shape) + column
    return _Best(minima[piece, kernel], begin, some.positions[piece], kernel, column).smallest(k)


def _up_to(values: np.ndarray, k: int) -> np.ndarray:
    """Find where the k smallest values are and all that equal the last of them."""
    if k >= len(values):
        return np.arange(len(values))
    return np.flatnonzero(values <= np.partition(values, k - 1)[k - 1])


def _fastest(
    models: tuple[Model, ...], fields: Fields, layout: Layout, parts: Sequence[dict[str, _Best]], k: int
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Evaluate the k rows with the smallest minima of each model: seconds and flat indices, k at most."""
    best = {model.name: _Best.joined([part[model.name] for part in parts]).smallest(k) for model in models}
    # As many rows of each model: one shape for all grids.
    rows = _Best.joined([each[np.arange(k) % len(each.begin)] for each in best.values()])
    every = _again(fields, layout, rows)
    numbers = layout.row_number(rows.position, rows.kernel)
    with in_64_bits():
        seconds = _seconds(models, *layout.take(fields[:2], numbers), every.launches)
    found = {}
    for number, (name, mine) in enumerate(best.items()):
        count = len(mine.begin)
        some = every[number * k : number * k + count]
        weights = some.weights.ravel().astype(int)
        begin = (mine.begin - mine.column)[:, None] + some.columns
        within = np.arange(weights.sum()) - np.repeat(np.cumsum(weights) - weights, weights)
        index = np.repeat(begin.ravel(), weights) + within
        times = np.repeat(np.asarray(seconds[name])[:count].ravel(), weights)
        order = _up_to(times, k)
        order = order[np.lexsort((index[order], times[order]))][:k]
        found[name] = times[order], index[order]
    return found


def _again(fields: Fields, layout: Layout, rows: _Best) -> Pieces:
    """Work out the launches of some rows once more."""
    gpus, kernels, resources = fields
    positions = np.unique(rows.position)
    most = len(rows.begin)
    some = joined([*pieces(layout, gpus, resources, positions, most, _alike(gpus, kernels), lambda _: most)])
    begin = some.positions * layout.row + some.columns[:, 0]
    order = np.argsort(begin)
    wanted = rows.position * layout.row + rows.column
    return some[order[np.searchsorted(begin, wanted, sorter=order)]]


def _alike(gpus: Gpu, kernels: Kernel) -> bool:
    """Whether nothing but launches differs along a row."""
    return all(x.shape[-1] == 1 for x in jax.tree.leaves((gpus, kernels)))


@partial(jax.jit, static_argnames="models", compiler_options=WIDE)
def _seconds(models: tuple[Model, ...], gpus: Gpu, kernels: Kernel, launches: Launch) -> dict[str, Array]:
    """Predict some rows, each model as many: the first ones by the first model, and so on."""
    rows, length = launches.waves.shape
    count = rows // len(models)
    found = {}
    for number, model in enumerate(models):
        mine = jax.tree.map(
            lambda x, i=number * count: x[i : i + count] if len(x) > 1 else x, (gpus, kernels, launches)
        )
        found[model.name] = jnp.broadcast_to(model.predict(*mine).seconds, (count, length))
    return found
