"""Layout of a grid of any axes as rows of launches, kernels that share them, and positions."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import equinox as eqx
import jax
import numpy as np

from dse.types import Gpu, Kernel, Resources

Fields = tuple[Gpu, Kernel, Resources]


@dataclass(frozen=True)
class Cuts:
    """Sizes of the parts of a grid; they affect time, not results."""

    short_row: int = 1 << 8  # configurations: shorter rows are slower
    long_row: int = 1 << 14  # longer rows exceed the cache
    enough: int = 1 << 6  # launches of a row; beyond, kernels and GPUs must not change along it
    # Launches of a piece of a row: few lengths, since each is compiled.
    lengths: tuple[int, ...] = (*(16, 32, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512, 640, 768, 1024),)
    loop: int = 1 << 18  # configurations of one loop, so that its inputs stay in the cache
    kernels: int = 1 << 12  # rows whose launch-invariant part is computed at once
    table: int = 1 << 16  # launches passed at once
    results: int = 1 << 20  # rows of one call, at most
    launches: int = 1 << 19  # compared at once, to find equal neighbours
    again: int = 1 << 16  # configurations of rows evaluated again at once
    most_tied: int = 4  # times k rows are evaluated if their minima are tied


CUTS = Cuts()


@dataclass(frozen=True)
class GridLayout:
    """The leading axes of a grid index its rows: launches change along `outer` ones, not along `inner` ones.

    Along inner axes only kernels change. Fields are [*leading or 1, row or 1].
    """

    leading: tuple[int, ...]
    outer: tuple[int, ...]  # axes
    inner: tuple[int, ...]
    row: int  # configurations
    groups: int = 0  # leading axes whose positions are reduced separately

    def sizes(self, axes: Sequence[int]) -> tuple[int, ...]:
        """The sizes of leading axes."""
        return tuple(self.leading[axis] for axis in axes)

    @property
    def positions(self) -> int:
        """Number of positions along all outer axes."""
        return prod(self.sizes(self.outer))

    @property
    def rows(self) -> int:
        """Number of rows that share the launches of one position."""
        return prod(self.sizes(self.inner))

    @property
    def group_count(self) -> int:
        """Number of groups."""
        return prod(self.leading[: self.groups])

    def groups_of(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Number the groups of positions and of the rows at a position: the sum is the group."""
        grouped = range(self.groups)
        strides = {axis: prod(self.leading[axis + 1 : self.groups]) for axis in grouped}

        def number(axes: Sequence[int], along: np.ndarray) -> np.ndarray:
            index = dict(zip(axes, digits(along, self.sizes(axes)), strict=True))
            parts = [strides[axis] * index[axis] for axis in axes if axis in grouped]
            return sum(parts, np.zeros(len(along), int))

        return number(self.outer, positions), number(self.inner, np.arange(self.rows))

    def arranged(self, fields: Any, rows: int) -> Any:
        """Arrange fields as [*outer or 1, rows or 1, row or 1], the last row repeated up to `rows`."""

        def arrange(x: np.ndarray) -> np.ndarray:
            x = x.transpose(*self.outer, *self.inner, len(self.leading))
            head, inner = x.shape[: len(self.outer)], x.shape[len(self.outer) : -1]
            if prod(inner) > 1:
                x = np.broadcast_to(x, (*head, *self.sizes(self.inner), x.shape[-1]))
            x = x.reshape(*head, -1, x.shape[-1])
            missing = rows - x.shape[-2] if x.shape[-2] > 1 else 0
            widths: Any = (*((0, 0) for _ in head), (0, missing), (0, 0))
            return np.pad(x, widths, mode="edge") if missing else x

        return jax.tree.map(arrange, fields)

    def at(self, fields: Any, positions: np.ndarray) -> Any:
        """Select fields in the first rows of positions: [positions or 1, row or 1]."""
        return self.take(fields, self.row_number(positions, np.zeros_like(positions)))

    def take(self, fields: Any, numbers: np.ndarray) -> Any:
        """Select fields by row number: [numbers or 1, row or 1]."""
        position = np.unravel_index(numbers, self.leading)

        def take(x: np.ndarray) -> np.ndarray:
            if prod(x.shape[:-1]) == 1:
                return x.reshape(1, -1)
            return x[tuple(i if size > 1 else 0 for i, size in zip(position, x.shape, strict=False))]

        return jax.tree.map(take, fields)

    def row_number(self, positions: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Number rows in the order of the grid."""
        outer, inner = digits(positions, self.sizes(self.outer)), digits(rows, self.sizes(self.inner))
        along = dict(zip((*self.outer, *self.inner), (*outer, *inner), strict=True))
        return np.asarray(
            np.ravel_multi_index([along[axis] for axis in range(len(self.leading))], self.leading)
        )

    def index(self, numbers: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Flat indices of rows in a grid of `shape`; the last leading axis splits one of its axes."""
        pieces = self.leading[-1]
        width = prod(shape) // prod(self.leading[:-1])  # configurations of all pieces together
        return numbers // pieces * width + numbers % pieces * self.row


def digits(index: Any, sizes: Sequence[int]) -> list[Any]:
    """Unravel flat indices along axes of these sizes, the last varying fastest; there may be no axis."""
    positions = []
    for size in reversed(sizes):
        positions.append(index % size)
        index = index // size
    return positions[::-1]


def lay_out(
    fields: Fields, shape: tuple[int, ...], groups: int = 0, cuts: Cuts = CUTS
) -> tuple[Fields, GridLayout]:
    """Cut fields that broadcast to `shape` into rows, each within one group."""
    fields = jax.tree.map(lambda x: x.reshape((1,) * (len(shape) - x.ndim) + x.shape), fields)
    fields, leading, row = _cut(fields, shape, groups, cuts)
    launches = jax.tree.leaves((fields[0], fields[2]))
    same = [all(x.shape[axis] == 1 for x in launches) for axis in range(len(leading))]
    outer, inner = (tuple(axis for axis in range(len(leading)) if same[axis] == x) for x in (False, True))
    return fields, GridLayout(leading, outer, inner, row, groups)


def _first_of_row(fields: Fields, shape: tuple[int, ...], groups: int, cuts: Cuts) -> int:
    """The first of the trailing axes that form a row, after the leading `groups` axes."""
    fixed = jax.tree.leaves(fields[:2])
    first = len(shape) - 1
    while first > groups and prod(shape[first:]) < cuts.short_row:
        if prod(shape[first:]) >= cuts.enough and any(x.shape[first - 1] > 1 for x in fixed):
            break
        first -= 1
    return first


def _cut(
    fields: Fields, shape: tuple[int, ...], groups: int, cuts: Cuts
) -> tuple[Fields, tuple[int, ...], int]:
    """Cut fields into [*leading or 1, row or 1]; also return the leading sizes and configurations of a row.

    The trailing axes form a row, or a piece of the first of them does. The last piece is padded with launches
    without threads, which are impossible and do not count.
    """
    first = _first_of_row(fields, shape, groups, cuts)
    pieces = -(-prod(shape[first:]) // cuts.long_row)
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
        widths: Any = (*((0, 0) for _ in head), (0, missing), (0, 0))
        x = np.pad(x, widths, **padding) if missing else x
        return x.reshape(*head, pieces, -1)

    gpus, kernels, resources = jax.tree.map(partial(cut, mode="edge"), fields)
    if missing:
        threads = fields[2].threads
        threads = np.broadcast_to(
            threads, (*threads.shape[:first], shape[first], *threads.shape[first + 1 :])
        )
        resources = eqx.tree_at(lambda r: r.threads, resources, cut(threads, constant_values=0))
    return (gpus, kernels, resources), (*shape[:first], pieces), length * prod(shape[first + 1 :])
