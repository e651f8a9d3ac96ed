"""A sweep cut into units of work, each determined by its number.

Kernels with a dense grid of counts (`dense`) are reduced by `dse.evaluate.grid` if only the fastest or counts
are requested; everything else goes through `dse.evaluate.chunks`, configuration by configuration.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from operator import or_
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from dse.core.precision import in_64_bits
from dse.evaluate.grid import fastest_of_grid, row_seconds, without_lacking
from dse.evaluate.launches import WIDE
from dse.explore.sweep.chunk import Chunk, Filter, chunk_of
from dse.explore.sweep.dense import Dense, can_be_dense, cut
from dse.explore.sweep.entries import Entries
from dse.explore.sweep.product import SweepProduct, density
from dse.explore.sweep.reductions import LimiterCounts, Reduction, Top
from dse.hardware import occupancy
from dse.hardware.tensor import lacking
from dse.kernels.description import Description
from dse.models.protocol import Model
from dse.types import Gpu, Kernel, PerClass, Resources

CONFIGURATIONS = 1 << 14  # of a unit that is not dense
PREDICTIONS = 1 << 21  # of such a unit, by all models on all GPUs
FEW = 1 << 22  # predictions of a part that fit in memory
DENSE = 1 << 22  # least configurations on all GPUs for which compiling a dense grid pays


@dataclass(frozen=True)
class Cut:
    """The units of one kernel of a product."""

    points: int  # problem sizes of a unit
    raw: int  # configurations of a unit, valid or not; prefixes of a dense one
    of_sizes: int  # units along the sizes
    of_space: int  # units along the space
    dense: Dense | None


@dataclass(frozen=True)
class Plan:
    """A sweep's product, its reduction, and its units."""

    product: SweepProduct
    reduction: Reduction | None  # None: all rows
    where: Filter | None = None

    @cached_property
    def cuts(self) -> tuple[Cut, ...]:
        """The units of each kernel."""
        return tuple(self._cut(k) for k in range(len(self.product.kernels)))

    def _cut(self, k: int) -> Cut:
        product = self.product
        kernel, sizes = product.kernels[k], product.sizes[k]
        total = kernel.space.size * sizes.size * len(product.gpus)
        if self._can_be_dense(k) and total >= DENSE:
            assert isinstance(kernel, Description)
            dense = cut(kernel, sizes, product.stacked)
            along = math.ceil(dense.prefix.size / dense.raw)
            return Cut(dense.points, dense.raw, math.ceil(sizes.size / dense.points), along, dense)
        most = min(CONFIGURATIONS, PREDICTIONS // (len(product.gpus) * len(product.models)))
        most = min(max(most, 1), *(model.batch for model in product.models))
        share = density(kernel.space, product.point(k, 0))
        raw = most if share == 1.0 else 0.95 * most / share
        raw = min(max(int(raw), 1), kernel.space.size)
        return Cut(1, raw, sizes.size, math.ceil(kernel.space.size / raw), None)

    def _can_be_dense(self, k: int) -> bool:
        closed = all(model.differentiable for model in self.product.models)
        reduced = isinstance(self.reduction, Top | LimiterCounts) and self.where is None
        return closed and reduced and can_be_dense(self.product.kernels[k])

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The number of the first unit of each kernel, and of all units."""
        counts = [cut.of_sizes * cut.of_space for cut in self.cuts]
        return tuple(np.cumsum([0, *counts]).tolist())

    @property
    def units(self) -> int:
        """The number of units."""
        return self.starts[-1]

    def place(self, unit: int) -> tuple[int, int, int]:
        """Return the kernel of a unit, and its positions along the kernel's sizes and space."""
        kernel = int(np.searchsorted(self.starts, unit, side="right")) - 1
        along_sizes, along_space = divmod(unit - self.starts[kernel], self.cuts[kernel].of_space)
        return kernel, along_sizes, along_space

    def reduced(self, units: range) -> dict[str, Entries]:
        """Process units; return reduced results by bucket. Buckets share no groups."""
        reduction = self.reduction
        assert reduction is not None
        parts: dict[str, list[Entries]] = {}
        for unit in units:
            for name, part in self._reduced(unit, reduction):
                parts.setdefault(name, []).append(part)
        return {name: reduction.merged(entries) for name, entries in parts.items()}

    def _reduced(self, unit: int, reduction: Reduction) -> Iterator[tuple[str, Entries]]:
        kernel, along_sizes, _ = self.place(unit)
        kernels_are_groups = "kernel" in reduction.per or len(self.cuts) == 1
        own_bucket = "size" in reduction.per and kernels_are_groups and self.cuts[kernel].of_sizes > 1
        name = f"{kernel}.{along_sizes}" if own_bucket else ""
        if self.cuts[kernel].dense is not None:
            for part in self._dense(unit, reduction):
                yield name, part
            return
        for chunk in self.chunks(unit):
            yield name, reduction.of(chunk)

    def chunks(self, unit: int) -> Iterator[Chunk]:
        """Yield the evaluated configurations of a unit that is not dense."""
        product = self.product
        k, size, along = self.place(unit)
        kernel, cut = product.kernels[k], self.cuts[k]
        problem = product.point(k, size)
        start = along * cut.raw
        for index in kernel.space.pieces(start, min(start + cut.raw, kernel.space.size), problem):
            if len(index):
                yield chunk_of(product, k, size, index, self.where)

    def _dense(self, unit: int, reduction: Reduction) -> Iterator[Entries]:
        k, along_sizes, along = self.place(unit)
        cut, product = self.cuts[k], self.product
        dense = cut.dense
        assert dense is not None
        sizes = range(along_sizes * cut.points, min((along_sizes + 1) * cut.points, product.sizes[k].size))
        points = [product.point(k, size) for size in sizes]
        start, stop = along * cut.raw, min((along + 1) * cut.raw, dense.prefix.size)
        for piece in dense.prefix.pieces(start, stop, points[0]):
            for first in range(0, len(piece), dense.rows):
                index = piece[first : first + dense.rows]
                fields = dense.fields(points, index)
                if isinstance(reduction, Top):
                    yield self._fastest(reduction, k, dense, fields, index, sizes)
                elif isinstance(reduction, LimiterCounts):
                    missing = (dense.rows - len(index)) * dense.below
                    gpus, kernels, resources = fields
                    counts = limiters(gpus, kernels, resources, dense.shape)[:, : len(sizes)]
                    counts[..., NO_THREADS] -= missing
                    yield reduction.counted(product, k, np.asarray(sizes), counts)

    def _fastest(
        self, top: Top, k: int, dense: Dense, fields: Any, index: np.ndarray, sizes: range
    ) -> Entries:
        models, k_best = self.product.models, min(top.k, math.prod(dense.shape[2:]))
        best = fastest_of_few if math.prod(dense.shape) <= FEW else fastest_of_many
        parts = []
        for m, (seconds, flat) in enumerate(best(models, fields, dense.shape, k_best)):
            gpu, size, rank = np.nonzero(flat[:, : len(sizes)] >= 0)
            place, at = (top.per, k, sizes.start + size, gpu, m), (gpu, size, rank)
            time_s, indices = seconds[at].astype(float), dense.index(index, flat[at])
            parts.append(self.product.entries(*place, index=indices, time_s=time_s))
        return top.merged(parts)


Best = Iterator[tuple[np.ndarray, np.ndarray]]  # by model: seconds and flat indices, [*the first two axes, k]


def fastest_of_many(models: tuple[Model, ...], fields: Any, shape: tuple[int, ...], k: int) -> Best:
    """Yield the k fastest for each position of the first two axes; index -1 if fewer."""
    for seconds, index in fastest_of_grid(models, *fields, k=k, groups=2, shape=shape).values():
        yield seconds.reshape(*shape[:2], k), index.reshape(*shape[:2], k)


def fastest_of_few(models: tuple[Model, ...], fields: Any, shape: tuple[int, ...], k: int) -> Best:
    """As `fastest_of_many`, with all predictions in memory."""
    fields = without_lacking(fields)
    for model in models:
        with in_64_bits():
            seconds = np.asarray(row_seconds(model, shape, *fields))
        seconds = seconds.reshape(*shape[:2], -1)
        if k < seconds.shape[-1]:
            yield _lowest(seconds, np.partition(seconds, k - 1)[..., k - 1], k)
        else:
            yield seconds, np.where(seconds < np.inf, np.arange(seconds.shape[-1]), -1)


def _lowest(seconds: np.ndarray, last: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k smallest of [G, S, N] up to `last` [G, S]; the first of equals."""
    times = np.full((*seconds.shape[:2], k), np.inf, seconds.dtype)
    indices = np.full((*seconds.shape[:2], k), -1)
    for cell in np.ndindex(*seconds.shape[:2]):
        near = np.flatnonzero((seconds[cell] <= last[cell]) & (seconds[cell] < np.inf))
        near = near[np.argsort(seconds[cell][near], kind="stable")][:k]
        times[cell][: len(near)], indices[cell][: len(near)] = seconds[cell][near], near
    return times, indices


NO_THREADS = occupancy.LIMITERS.index("no threads")


def limiters(gpus: Gpu, kernels: Kernel, resources: Resources, shape: tuple[int, ...]) -> np.ndarray:
    """Count the limiters of launches in a grid: [*the first two axes, limiters].

    **Shapes:** fields have all axes of `shape`; the first two are GPUs and sizes.
    """
    lacks = np.any(reduce(or_, lacking(gpus, kernels.work).values()))
    with in_64_bits():
        code = np.asarray(_limiter(gpus, resources, kernels.work if lacks else None))
    multiple = math.prod(shape[2:]) // math.prod(code.shape[2:])  # configurations with the same launch
    code = np.broadcast_to(code, (*shape[:2], *code.shape[2:])).reshape(*shape[:2], -1)
    counts = [[np.bincount(codes, minlength=len(occupancy.LIMITERS)) for codes in row] for row in code]
    return np.asarray(counts, np.int64) * multiple


@partial(jax.jit, compiler_options=WIDE)
def _limiter(gpus: Gpu, resources: Resources, work: PerClass | None) -> Array:
    return occupancy.launch(gpus, resources, work)[1]
