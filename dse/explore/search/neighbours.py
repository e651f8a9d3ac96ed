"""Draw valid configurations of a kernel, anywhere or near another one, as indices of values."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np

from dse.errors import DseError
from dse.kernels.counts import Counts, Number

VARIANT = "variant"  # the parameter of a trial that names the kernel


@dataclass(frozen=True)
class Variant:
    """One of several kernels of the same work, with its problem sizes."""

    kernel: Counts
    problem: Mapping[str, Number]

    @property
    def free(self) -> dict[str, tuple[Number, ...]]:
        """Parameters with more than one value."""
        return {name: values for name, values in self.kernel.space.values.items() if len(values) > 1}


DRAWN = 1_024  # valid configurations drawn together
MUTANTS, ROUNDS = 256, 8  # of a point: tested together, and attempts
ROUNDED = 0.25  # share of mutants rounded to powers of two

Point = tuple[int, ...]  # the index of each free parameter's value


class Neighbours:
    """Draws points of a variant that satisfy all constraints."""

    def __init__(self, variant: Variant, seed: int | None) -> None:
        self._space, self._problem = variant.kernel.space, variant.problem
        self._lengths = tuple(map(len, variant.free.values()))
        self._lists = [np.array(values) for values in variant.free.values()]
        self._powers = [_nearest_powers(values) for values in self._lists]
        self._random = np.random.default_rng(seed)
        self._ahead: list[Point] = []  # drawn in advance

    def anywhere(self) -> Point:
        """Draw a random point. **Raises:** DseError if no configuration is valid."""
        if not self._lengths:
            return ()
        if not self._ahead:
            seed = int(self._random.integers(1 << 32))
            index = self._random.permutation(self._space.sample(DRAWN, self._problem, seed))
            if not len(index):
                raise DseError(
                    f"constraints: found no valid configuration of {self._space.size:,}, expected one"
                )
            points = np.stack(np.unravel_index(index, self._lengths), axis=1)
            self._ahead = list(map(tuple, points.tolist()))
        return self._ahead.pop()

    def near(self, point: Point, tried: AbstractSet[Point]) -> Point | None:
        """Return the point if it is valid and not in `tried`, else a neighbour that is.

        Neighbours differ in one parameter half of the time, in two a quarter, and so on. None if none is
        found.
        """
        if point not in tried and self._valid(np.array([point]))[0]:
            return point
        for _ in range(ROUNDS if point else 0):
            mutants = self._mutants(np.array(point))
            for mutant in map(tuple, mutants[self._valid(mutants)].tolist()):
                if mutant not in tried:
                    return mutant
        return None

    def _valid(self, points: np.ndarray) -> np.ndarray:
        """Test which points [N, D] satisfy all constraints."""
        if not self._lengths:
            return np.ones(len(points), bool)
        index = np.ravel_multi_index(tuple(points.T), self._lengths)
        return self._space.valid(self._space.decode(index, np), self._problem, np)

    def _mutants(self, point: np.ndarray) -> np.ndarray:
        """Return points [N, D] that differ from one in a few parameters.

        A parameter changes to the next value, to about twice or half of it, or to any, since kernels depend
        on products of parameters. They also depend on divisibility, so some points are rounded to powers of
        two, like most sizes of problems, warps and memories.
        """
        shape = (MUTANTS, len(point))
        changes = self._random.geometric(0.5, (MUTANTS, 1))
        changed = self._random.random(shape).argsort(axis=1) < changes
        pairs = zip(self._lists, point.tolist(), strict=True)
        moved = np.stack([self._moved(values, index) for values, index in pairs], axis=1)
        mutants = np.where(changed, moved, point)
        rounded = np.stack([power[index] for power, index in zip(self._powers, mutants.T, strict=True)], 1)
        return np.where(self._random.random((MUTANTS, 1)) < ROUNDED, rounded, mutants)

    def _moved(self, values: np.ndarray, index: int) -> np.ndarray:
        """Return indices [MUTANTS] of other values."""
        steps = np.clip([index - 1, index + 1], 0, len(values) - 1)
        scaled = [np.abs(values - factor * values[index]).argmin() for factor in (0.5, 2.0)]
        kind = self._random.integers(0, 3, MUTANTS)
        up = self._random.integers(0, 2, MUTANTS)
        anywhere = self._random.integers(0, len(values), MUTANTS)
        return np.choose(kind, [steps[up], np.array(scaled)[up], anywhere])


def _nearest_powers(values: np.ndarray) -> np.ndarray:
    """Index of the power of two (or 0) nearest to each value; its own index if there is none."""
    whole = values.astype(np.int64)
    powers = np.flatnonzero((whole == values) & (whole >= 0) & (whole & (whole - 1) == 0))
    if not len(powers):
        return np.arange(len(values))
    return powers[np.abs(values[:, None] - values[powers]).argmin(axis=1)]
