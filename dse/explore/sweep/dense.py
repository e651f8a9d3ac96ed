"""Counts of a described kernel as a dense grid: GPUs × sizes × valid prefixes × the other parameters.

An expression is evaluated only along the axes it depends on, so 10^9 configurations may need a few thousand
numbers of each. Parameters after the last constrained one have an axis each; valid combinations of those up
to it, the prefixes, are listed along one axis.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import numpy as np

from dse.core.space import Space
from dse.explore.sweep.product import COUNTED, density, evenly
from dse.kernels.counts import Counts, Number
from dse.kernels.description import Description, describe, gpu_names
from dse.types import Gpu, Kernel, Resources

WIDTH = 1 << 19  # numbers in one array of counts, at most
NUMBERS = 1 << 22  # in all arrays together, at most
CELLS = 1 << 28  # configurations of one part, on all GPUs
SIZE, GPU = "size of the problem", "number of the GPU"  # axes: no identifiers, so no parameters' names


def can_be_dense(kernel: Counts) -> bool:
    """Whether a kernel's counts form a dense grid: it is described, without accesses by subscript."""
    if not isinstance(kernel, Description) or not kernel.described or not kernel.space.names:
        return False
    return all(access.subscript is None for access in kernel.accesses)


@dataclass(frozen=True)
class Dense:
    """A described kernel cut into parts of equal shape, [G, points, rows, *the last parameters]."""

    kernel: Description
    sizes: Space
    gpus: Gpu  # fields [G], NumPy
    listed: int  # number of parameters in a prefix
    points: int  # problem sizes of a part
    rows: int  # prefixes of a part
    raw: int  # prefixes of a unit, valid or not
    filled: bool  # whether parts may need padding

    @cached_property
    def prefix(self) -> Space:
        """The space of the first parameters, with all constraints."""
        names = self.kernel.space.names[: self.listed]
        values = {name: self.kernel.space.values[name] for name in names}
        return Space(values, self.kernel.space.constraints)

    @property
    def last(self) -> dict[str, tuple[Number, ...]]:
        """The last parameters and their values."""
        return dict(list(self.kernel.space.values.items())[self.listed :])

    @property
    def below(self) -> int:
        """The number of configurations with the same prefix."""
        return math.prod(map(len, self.last.values()))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a part."""
        return (len(self.gpus.clock), self.points, self.rows, *map(len, self.last.values()))

    def fields(
        self, points: Sequence[Mapping[str, Number]], index: np.ndarray
    ) -> tuple[Gpu, Kernel, Resources]:
        """Count one part: at most `points` sizes and `rows` prefixes, padded with impossible launches.

        **Shapes:** fields have all axes of `shape`, of size 1 where they do not depend on them.
        """
        rank = len(self.shape)

        def along(axis: int, values: Any) -> np.ndarray:
            values = np.asarray(values)
            if (values == values[0]).all():
                values = values[:1]
            return values.reshape([-1 if i == axis else 1 for i in range(rank)])

        parameters = self.prefix.decode(np.resize(index, self.rows), np)
        columns = {name: _along(2, rank, values) for name, values in parameters.items()}
        columns |= {name: along(3 + i, values) for i, (name, values) in enumerate(self.last.items())}
        repeated = [points[min(i, len(points) - 1)] for i in range(self.points)]
        problem = {name: _along(1, rank, [point[name] for point in repeated]) for name in self.sizes.names}
        gpus = jax.tree.map(lambda x: _along(0, rank, x), self.gpus)
        compact = jax.tree.map(lambda x: along(0, x), self.gpus)
        with np.errstate(all="ignore"):
            kernel, resources = describe(self.kernel, columns, problem, compact)
        dtype = gpus.clock.dtype

        def whole(x: Any) -> np.ndarray:
            x = np.asarray(x)
            return x.reshape((1,) * (rank - x.ndim) + x.shape)

        kernel = jax.tree.map(lambda x: whole(x).astype(dtype), kernel)
        resources = jax.tree.map(whole, resources)
        valid = np.ones((1,) * rank, bool)
        if self.filled:
            valid = _along(2, rank, np.arange(self.rows) < len(index))
        unknown = [np.isnan(x) for x in jax.tree.leaves(kernel)]
        if any(x.any() for x in unknown):  # NaN cannot run
            for x in unknown:
                valid = valid & ~x
            kernel = jax.tree.map(lambda x: np.nan_to_num(x, nan=0.0), kernel)
        if valid.size > 1:
            threads = np.where(valid, resources.threads, 0).astype(np.int32)
            resources = eqx.tree_at(lambda r: r.threads, resources, threads)
        return gpus, kernel, resources

    def index(self, listed: np.ndarray, flat: np.ndarray) -> np.ndarray:
        """Convert flat indices into [rows, *last] of a part to indices in the kernel's space."""
        row, column = np.divmod(flat, self.below)
        return listed[row] * self.below + column


def _along(axis: int, rank: int, values: Any) -> np.ndarray:
    return np.asarray(values).reshape([-1 if i == axis else 1 for i in range(rank)])


def cut(kernel: Description, sizes: Space, gpus: Gpu) -> Dense:
    """Choose the parts of a described kernel by the dependences of its expressions."""
    space, count = kernel.space, len(gpus.clock)
    names = list(space.names)
    lengths = {name: len(values) for name, values in space.values.items()} | {GPU: count}
    arrays = _arrays(kernel, sizes, gpus)
    limited = {name for constraint in space.constraints for name in constraint.names}
    first = max((i + 1 for i, name in enumerate(names) if name in limited), default=0)
    width = numbers = cells = 1
    listed = len(names)
    for listed in range(first, len(names) + 1):
        last = {*names[listed:], GPU}
        widths = [math.prod(lengths[name] for name in array & last) for array in arrays]
        width, numbers = max(widths), sum(widths)
        cells = count * math.prod(lengths[name] for name in names[listed:])
        if width <= WIDTH and cells <= CELLS:
            break
    room = max(1, min(WIDTH // width, NUMBERS // numbers, CELLS // cells))
    by_size = any(len(values) > 1 and name in limited for name, values in sizes.values.items())
    prefix = Space({name: space.values[name] for name in names[:listed]}, space.constraints)
    constants = {name: values[0] for name, values in sizes.values.items()}
    share = density(prefix, constants)
    if share == 1.0 and not by_size:
        rows = raw = evenly(prefix.size, room)
        filled = prefix.size % raw > 0
    elif prefix.size <= COUNTED and round(share * prefix.size) <= room and not by_size:
        rows, raw, filled = round(share * prefix.size), prefix.size, False
    else:
        raw = min(prefix.size, max(1, int(0.9 * room / share)))
        rows, filled = min(room, raw), True
    points = 1 if by_size else evenly(sizes.size, room // rows)
    return Dense(kernel, sizes, gpus, listed, points, rows, raw, filled)


def _arrays(kernel: Description, sizes: Space, gpus: Gpu) -> list[frozenset[str]]:
    """The dependences of each intermediate array: names of parameters, SIZE and GPU."""
    known: dict[str, frozenset[str]] = {name: frozenset((name,)) for name in kernel.space.names}
    known |= {name: frozenset((SIZE,)) for name in sizes.names}
    for name, values in gpu_names(gpus).items():
        known[name] = frozenset() if np.all(values == values[0]) else frozenset((GPU,))

    def of(names: frozenset[str]) -> frozenset[str]:
        return frozenset().union(*(known.get(name, frozenset()) for name in names))

    of_gpu: frozenset[str] = frozenset((GPU,))
    arrays = [of_gpu]
    for name, expression in kernel.let:
        known[name] = of(expression.names)
        arrays.append(known[name])
    launch = {name: of(expression.names) for name, expression in kernel.launch}
    known |= launch
    known["warps"] = known["threads"] | known["warp_size"]
    arrays.append(of_gpu.union(*launch.values()))
    arrays += [of(expression.names) for _, expression in kernel.warp]
    fields = [value for access in kernel.accesses for _, value in access.fields]
    arrays.append(known["warp_size"].union(*(of(value.names) for value in fields)))
    return arrays
