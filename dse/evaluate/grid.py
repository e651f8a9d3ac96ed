"""A dense grid of GPUs × kernels × launches, reduced where it is computed: the best, the mean, how many run.

The grid is cut into rows of some thousand configurations. Only a minimum and a sum of each row leave the loop
that evaluates the models. The k best of the grid lie in the k rows with the smallest minima, and these rows
are evaluated once more. Rows in which the kernel alone differs have their launches in common: occupancy is
worked out once for all of them.
"""

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from dse.hardware import occupancy
from dse.hardware.tensor import lacking
from dse.models import get_all
from dse.models.protocol import Model
from dse.precision import in_64_bits
from dse.types import Gpu, Kernel, Resources

SHORT_ROW, LONG_ROW = 1 << 8, 1 << 14  # configurations: short rows cost time, long ones leave the cache
BLOCK = 1 << 17  # configurations of the rows that are evaluated together, at most
STEP = 4 * BLOCK  # configurations for which launches are worked out once, at most
TASK = 64 * STEP  # configurations of one call, at most

# Without fast math reductions are no vector instructions. To look for NaN takes a third longer.
COMPILER_OPTIONS = {
    "xla_cpu_prefer_vector_width": 512,
    "xla_cpu_enable_fast_math": True,
    "xla_cpu_fast_math_honor_nans": False,
}

Fields = tuple[Gpu, Kernel, Resources]


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
class _Walk:
    """The order in which rows are evaluated. Rows lie along the leading axes of the grid.

    Along `outer` ones of these launches differ, along `inner` ones only kernels do. A step takes one position
    along the outer axes and `blocks` times `block` rows along the inner ones. Where these do not come out
    even, blocks overlap.
    """

    leading: tuple[int, ...]
    outer: tuple[int, ...]
    inner: tuple[int, ...]
    row: int  # configurations
    block: int  # rows
    blocks: int

    def sizes(self, axes: Sequence[int]) -> tuple[int, ...]:
        return tuple(self.leading[axis] for axis in axes)

    @property
    def inner_rows(self) -> int:
        return prod(self.sizes(self.inner))

    @property
    def groups(self) -> int:
        """Steps that one position along the outer axes takes."""
        return -(-self.inner_rows // (self.blocks * self.block))

    @property
    def steps(self) -> int:
        return prod(self.sizes(self.outer)) * self.groups

    def first_row(self, block: Any) -> Any:
        """Where a block of one position along the outer axes begins."""
        return (block * self.block).clip(max=self.inner_rows - self.block)

    def arranged(self, fields: Fields) -> Fields:
        """Arrange fields [*leading or 1, row or 1] as [*outer or 1, inner rows or 1, row or 1]."""

        def arrange(x: np.ndarray) -> np.ndarray:
            x = x.transpose(*self.outer, *self.inner, len(self.leading))
            head, inner = x.shape[: len(self.outer)], x.shape[len(self.outer) : -1]
            if prod(inner) > 1:
                x = np.broadcast_to(x, (*head, *self.sizes(self.inner), x.shape[-1]))
            return x.reshape(*head, -1, x.shape[-1])

        return jax.tree.map(arrange, fields)

    def new(self) -> np.ndarray:
        """Mark which rows [groups, blocks, block] were not in an earlier block."""
        block = np.arange(self.groups * self.blocks)
        row = self.first_row(block)[:, None] + np.arange(self.block)
        return (row >= block[:, None] * self.block).reshape(self.groups, self.blocks, self.block)

    def row_number(self, positions: np.ndarray) -> np.ndarray:
        """Turn positions in an array [steps, blocks, block] into row numbers in the order of the grid."""
        step, row = positions // (self.blocks * self.block), positions % self.block
        block = step % self.groups * self.blocks + positions // self.block % self.blocks
        outer = _digits(step // self.groups, self.sizes(self.outer))
        inner = _digits(self.first_row(block) + row, self.sizes(self.inner))
        along = dict(zip((*self.outer, *self.inner), (*outer, *inner), strict=True))
        position = [along[axis] for axis in range(len(self.leading))]
        return np.asarray(np.ravel_multi_index(position, self.leading))


def _digits(index: Any, sizes: Sequence[int]) -> list[Any]:
    """Find positions along each of some axes, the last one varying fastest; there may be no axis."""
    digits = []
    for size in reversed(sizes):
        digits.append(index % size)
        index = index // size
    return digits[::-1]


def _walk(fields: Fields, leading: tuple[int, ...], row: int) -> _Walk:
    launches = jax.tree.leaves((fields[0], fields[2]))
    same = [all(x.shape[axis] == 1 for x in launches) for axis in range(len(leading))]
    outer = tuple(axis for axis in range(len(leading)) if not same[axis])
    inner = tuple(axis for axis in range(len(leading)) if same[axis])
    rows = prod(leading[axis] for axis in inner)
    # Two blocks at least: a loop of one step would be none, and the compiler would work out the launches of
    # each row anew.
    blocks = min(rows, max(2, -(-rows * row // BLOCK)))
    block = -(-rows // blocks)
    return _Walk(leading, outer, inner, row, block, min(blocks, max(2, STEP // (block * row))))


def _cut(fields: Fields, shape: tuple[int, ...]) -> tuple[Fields, tuple[int, ...], int]:
    """Cut fields into [*leading or 1, row or 1]; also return the leading sizes and configurations of a row.

    Trailing axes together make a row; of the first of these, a row may hold a piece only. What the last piece
    lacks are launches of no threads: impossible, so that nothing counts them.
    """
    first = len(shape) - 1
    while first > 0 and prod(shape[first:]) < SHORT_ROW:
        first -= 1
    pieces = -(-prod(shape[first:]) // LONG_ROW)
    length = -(-shape[first] // pieces)
    pieces = -(-shape[first] // length)
    missing = pieces * length - shape[first]

    def cut(x: np.ndarray, **padding: Any) -> np.ndarray:
        head, tail = x.shape[:first], x.shape[first:]
        if prod(tail) == 1:
            return x.reshape(*head, 1, 1)
        if tail[0] == 1:
            return np.broadcast_to(x, (*head, length, *shape[first + 1 :])).reshape(*head, 1, -1)
        x = np.broadcast_to(x, (*head, *shape[first:])).reshape(*head, shape[first], -1)
        x = np.pad(x, [(0, 0)] * first + [(0, missing), (0, 0)], **padding) if missing else x
        return x.reshape(*head, pieces, -1)

    fields = jax.tree.map(lambda x: x.reshape((1,) * (len(shape) - x.ndim) + x.shape), fields)
    gpus, kernels, resources = jax.tree.map(partial(cut, mode="edge"), fields)
    if missing:
        threads = fields[2].threads
        threads = np.broadcast_to(
            threads, (*threads.shape[:first], shape[first], *threads.shape[first + 1 :])
        )
        resources = eqx.tree_at(lambda r: r.threads, resources, cut(threads, constant_values=0))
    return (gpus, kernels, resources), (*shape[:first], pieces), length * prod(shape[first + 1 :])


@partial(jax.jit, static_argnames=("models", "walk", "steps"), compiler_options=COMPILER_OPTIONS)
def _reduce_rows(
    models: tuple[Model, ...], walk: _Walk, steps: int, fields: Fields, start: Array
) -> tuple[dict[str, tuple[Array, Array]], Array]:
    """Find minimum and sum of each row [steps, blocks, block]; how many of a row can run [steps]."""
    gpus, kernels, resources = fields
    zero = np.int32(0)

    def step(i: Array) -> Any:
        i = jnp.minimum(i, walk.steps - 1)
        outer = _digits(i // walk.groups, walk.sizes(walk.outer))

        def take(x: Array, first: Any = zero) -> Array:
            """Take the rows of one block, [block or 1, row or 1]."""
            at = [j if size > 1 else zero for j, size in zip((*outer, first, zero), x.shape, strict=True)]
            sizes = (min(x.shape[-2], walk.block), x.shape[-1])
            return lax.dynamic_slice(x, at, (1,) * len(outer) + sizes).reshape(sizes)

        gpu = jax.tree.map(take, gpus)
        launch, limiter = occupancy.launch(gpu, jax.tree.map(take, resources))
        possible = jnp.broadcast_to(occupancy.possible(limiter), (1, walk.row))

        def block(b: Array) -> dict[str, tuple[Array, Array]]:
            kernel = jax.tree.map(
                partial(take, first=walk.first_row(i % walk.groups * walk.blocks + b)), kernels
            )
            can = jnp.broadcast_to(possible, (walk.block, walk.row))
            return {
                model.name: _minimum_and_sum(model.predict(gpu, kernel, launch).seconds, can)
                for model in models
            }

        return lax.map(block, jnp.arange(walk.blocks, dtype=jnp.int32)), jnp.sum(possible, dtype=jnp.int32)

    return lax.map(step, start + jnp.arange(steps, dtype=jnp.int32))


def _minimum_and_sum(seconds: Array, possible: Array) -> tuple[Array, Array]:
    """Reduce each row once with two results: the model is evaluated once for both."""
    dtype = seconds.dtype.type
    worst, none = dtype(jnp.finfo(dtype).max), dtype(0)  # with an infinite one the loop is not vectorised
    return lax.reduce(
        (jnp.where(possible, seconds, worst), jnp.where(possible, seconds, none)),
        (worst, none),
        lambda a, b: (jnp.minimum(a[0], b[0]), a[1] + b[1]),
        (1,),
    )


def _take(fields: Fields, rows: np.ndarray, leading: tuple[int, ...]) -> Fields:
    """Take fields [*leading or 1, row or 1] of the given rows, [len(rows) or 1, row or 1]."""
    position = np.unravel_index(rows, leading)

    def take(x: np.ndarray) -> np.ndarray:
        at = tuple(i if size > 1 else 0 for i, size in zip(position, x.shape, strict=False))
        return x[at].reshape(-1, x.shape[-1])

    return jax.tree.map(take, fields)


@partial(jax.jit, static_argnames="model")
def _seconds(model: Model, fields: Fields) -> Array:
    """Predict every configuration of some rows, [rows, row]; infinite for those that cannot run."""
    gpu, kernel, resources = fields
    launch, limiter = occupancy.launch(gpu, resources)
    return jnp.where(occupancy.possible(limiter), model.predict(gpu, kernel, launch).seconds, jnp.inf)


def _smallest(values: np.ndarray, k: int) -> np.ndarray:
    """Find where the k smallest values are and all that equal the last of them, in no order."""
    if k >= len(values):
        return np.arange(len(values))
    return np.flatnonzero(values <= np.partition(values, k - 1)[k - 1])


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
    and order of axes; long last axes, along which launches differ, are fastest.
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
    fields, leading, row = _cut(_without_lacking(fields), shape)
    walk = _walk(fields, leading, row)
    workers = threads or len(os.sched_getaffinity(0))
    reduced, count = _all_rows(chosen, walk, fields, k, workers)

    pieces = leading[-1]
    width = prod(shape) // prod(leading[:-1])  # configurations of all pieces together
    summaries, by_name = {}, {model.name: model for model in chosen}
    for name, (rows, total) in reduced.items():
        with in_64_bits():
            seconds = np.asarray(_seconds(by_name[name], _take(fields, rows, leading)))
        index = rows[:, None] // pieces * width + rows[:, None] % pieces * row + np.arange(row)
        seconds, index = np.broadcast_to(seconds, index.shape).ravel(), index.ravel()
        best = _smallest(seconds, k)
        best = best[np.lexsort((index[best], seconds[best]))][:k]
        index = np.where(np.isfinite(seconds[best]), index[best], -1)
        lacking = (0, k - len(best))
        seconds = np.pad(seconds[best], lacking, constant_values=np.inf)
        summaries[name] = Summary(shape, seconds, np.pad(index, lacking, constant_values=-1), total, count)
    return summaries


def _without_lacking(fields: Fields) -> Fields:
    """Make launches impossible whose kernel needs tensor cores that the GPU has not: they get no threads."""
    gpus, kernels, resources = fields
    lacks = np.asarray(sum(lacking(gpus, kernels.work).values()))
    if not lacks.any():
        return fields
    return gpus, kernels, eqx.tree_at(lambda r: r.threads, resources, np.where(lacks, 0, resources.threads))


def _all_rows(
    models: tuple[Model, ...], walk: _Walk, fields: Fields, k: int, workers: int
) -> tuple[dict[str, tuple[np.ndarray, float]], int]:
    """Find the k rows with the smallest minima and the sum of all; how many configurations can run."""
    tasks = max(4 * workers if workers > 1 else 1, walk.steps * walk.blocks * walk.block * walk.row // TASK)
    steps = -(-walk.steps // tasks)
    with in_64_bits():
        fields = jax.tree.map(jnp.asarray, walk.arranged(fields))

    def task(start: int) -> tuple[dict[str, tuple[np.ndarray, np.ndarray, float]], int]:
        with in_64_bits():  # each thread has its own
            reduced, possible = _reduce_rows(models, walk, steps, fields, np.int32(start))
        numbers = np.arange(start, min(start + steps, walk.steps))
        new = walk.new()[numbers % walk.groups]
        smallest = {}
        for name, (minima, sums) in jax.tree.map(lambda x: np.asarray(x)[: len(numbers)], reduced).items():
            minima = np.where(new, minima, np.inf).ravel()
            some = _smallest(minima, k)
            rows = walk.row_number(start * new[0].size + some)
            best = np.lexsort((rows, minima[some]))[:k]
            smallest[name] = minima[some][best], rows[best], float(np.sum(sums, where=new, dtype=np.float64))
        first = np.asarray(possible)[: len(numbers)][numbers % walk.groups == 0]
        return smallest, int(np.sum(first, dtype=np.int64)) * walk.inner_rows

    starts = range(0, walk.steps, steps)
    if workers == 1:
        done = [task(start) for start in starts]
    else:
        with ThreadPoolExecutor(workers) as pool:
            done = list(pool.map(task, starts))
    reduced = {}
    for name in (model.name for model in models):
        minima, rows, sums = zip(*(part[name] for part, _ in done), strict=True)
        rows = np.concatenate(rows)
        best = np.lexsort((rows, np.concatenate(minima)))[:k]
        reduced[name] = rows[best], sum(sums)
    return reduced, sum(count for _, count in done)
