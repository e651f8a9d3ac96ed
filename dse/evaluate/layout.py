"""Division of a grid of any axes into rows of launches, kernels that share them, and positions."""

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
    """Sizes of the parts that a grid is cut into. Results do not depend on them, time does."""

    short_row: int = 1 << 8  # configurations: shorter rows cost time
    long_row: int = 1 << 14  # longer ones leave the cache
    enough: int = 1 << 6  # launches of a row, rather than that kernels or GPUs change along it
    lengths: tuple[int, ...] = (
        *(16, 32, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512, 640, 768, 1024),
    )  # launches of a piece of a row: few lengths, since each is compiled for
    loop: int = 1 << 18  # configurations of one loop over all of them: what it reads stays in the cache
    kernels: int = 1 << 12  # rows of which the part that launches do not change is computed at once
    table: int = 1 << 16  # launches handed over at once
    results: int = 1 << 20  # rows of one call, at most
    launches: int = 1 << 19  # of which differences are looked for at a time
    again: int = 1 << 16  # configurations of rows that are evaluated once more at a time
    most_tied: int = 4  # times k rows: the most that are looked at where their minima are equal


CUTS = Cuts()


@dataclass(frozen=True)
class GridLayout:
    """Rows are along the leading axes of a grid: `outer` ones, where launches change, and `inner` ones.

    Along the inner ones kernels alone change. Fields are [*leading or 1, row or 1].
    """

    leading: tuple[int, ...]
    outer: tuple[int, ...]  # axes
    inner: tuple[int, ...]
    row: int  # configurations
    groups: int = 0  # leading axes, of which each position is reduced separately

    def sizes(self, axes: Sequence[int]) -> tuple[int, ...]:
        """The rows along some leading axes."""
        return tuple(self.leading[axis] for axis in axes)

    @property
    def positions(self) -> int:
        """Number of positions along the outer axes together."""
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
        """Number the groups of pieces at some positions and of the rows there: their sum is the group."""
        grouped = range(self.groups)
        strides = {axis: prod(self.leading[axis + 1 : self.groups]) for axis in grouped}

        def number(axes: Sequence[int], along: np.ndarray) -> np.ndarray:
            where = dict(zip(axes, digits(along, self.sizes(axes)), strict=True))
            parts = [strides[axis] * where[axis] for axis in axes if axis in grouped]
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
        """Take fields at some positions, in the first of their rows: [positions or 1, row or 1]."""
        return self.take(fields, self.row_number(positions, np.zeros_like(positions)))

    def take(self, fields: Any, numbers: np.ndarray) -> Any:
        """Take fields of the rows with these numbers: [numbers or 1, row or 1]."""
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
        """Flat indices into the grid of that shape where rows begin. The last leading axis cuts one of it."""
        pieces = self.leading[-1]
        width = prod(shape) // prod(self.leading[:-1])  # configurations of all pieces together
        return numbers // pieces * width + numbers % pieces * self.row


def digits(index: Any, sizes: Sequence[int]) -> list[Any]:
    """Find positions along each of some axes, the last one varying fastest; there may be no axis."""
    places = []
    for size in reversed(sizes):
        places.append(index % size)
        index = index // size
    return places[::-1]


def lay_out(
    fields: Fields, shape: tuple[int, ...], groups: int = 0, cuts: Cuts = CUTS
) -> tuple[Fields, GridLayout]:
    """Cut fields that broadcast to `shape` into rows, none of which is in several groups."""
    fields = jax.tree.map(lambda x: x.reshape((1,) * (len(shape) - x.ndim) + x.shape), fields)
    fields, leading, row = _cut(fields, shape, groups, cuts)
    launches = jax.tree.leaves((fields[0], fields[2]))
    same = [all(x.shape[axis] == 1 for x in launches) for axis in range(len(leading))]
    outer = tuple(axis for axis in range(len(leading)) if not same[axis])
    inner = tuple(axis for axis in range(len(leading)) if same[axis])
    return fields, GridLayout(leading, outer, inner, row, groups)


def _first_of_row(fields: Fields, shape: tuple[int, ...], groups: int, cuts: Cuts) -> int:
    """The first of the trailing axes that make a row; the leading `groups` axes make none."""
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

    Trailing axes together make a row; of the first of these, a row may hold a piece only. What the last piece
    lacks are launches of no threads: impossible, so that nothing counts them.
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
