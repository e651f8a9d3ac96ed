"""Valid configurations of one kernel, anywhere or near another one, as places in lists of values."""

from collections.abc import Set as AbstractSet

import numpy as np

from dse.errors import DseError
from dse.explore.search.variants import Variant

DRAWN = 1_024  # valid configurations that are drawn together
MUTANTS, ROUNDS = 256, 8  # of a point, that are looked at together, and how often
ROUNDED = 0.25  # the share of them whose values are powers of two

Point = tuple[int, ...]  # the place of each free parameter's value in its list


class Neighbours:
    """Finds points of a variant whose configurations hold all constraints."""

    def __init__(self, variant: Variant, seed: int | None) -> None:
        self._space, self._problem = variant.kernel.space, variant.problem
        self._lengths = tuple(map(len, variant.free.values()))
        self._lists = [np.array(values) for values in variant.free.values()]
        self._powers = [_nearest_powers(values) for values in self._lists]
        self._random = np.random.default_rng(seed)
        self._ahead: list[Point] = []  # drawn and not given out yet

    def anywhere(self) -> Point:
        """Draw a point at random. **Raises:** DseError where no configuration is valid."""
        if not self._lengths:
            return ()
        if not self._ahead:
            seed = int(self._random.integers(1 << 32))
            index = self._random.permutation(self._space.sample(DRAWN, self._problem, seed))
            if not len(index):
                raise DseError(
                    f"constraints: found no valid configuration of {self._space.size:,}, expected one"
                )
            places = np.stack(np.unravel_index(index, self._lengths), axis=1)
            self._ahead = list(map(tuple, places.tolist()))
        return self._ahead.pop()

    def near(self, point: Point, tried: AbstractSet[Point]) -> Point | None:
        """Return the point if it is valid and not in `tried`, else one that is and differs in little.

        In one parameter half of the time, in two a quarter, and so on. None where nothing is found.
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
        """Tell which points [N, D] hold all constraints."""
        if not self._lengths:
            return np.ones(len(points), bool)
        index = np.ravel_multi_index(tuple(points.T), self._lengths)
        return self._space.valid(self._space.decode(index, np), self._problem, np)

    def _mutants(self, point: np.ndarray) -> np.ndarray:
        """Return points [N, D] that differ from one in a few parameters.

        Each to the next value of its list, to one twice or half as large, or to any: what a kernel does
        depends on products of its parameters. And on what divides what: of a few points all values then go to
        the nearest power of two, as sizes of problems, warps and memories mostly are.
        """
        shape = (MUTANTS, len(point))
        changes = self._random.geometric(0.5, (MUTANTS, 1))
        changed = self._random.random(shape).argsort(axis=1) < changes
        places = zip(self._lists, point.tolist(), strict=True)
        moved = np.stack([self._moved(values, place) for values, place in places], axis=1)
        mutants = np.where(changed, moved, point)
        rounded = np.stack([power[place] for power, place in zip(self._powers, mutants.T, strict=True)], 1)
        return np.where(self._random.random((MUTANTS, 1)) < ROUNDED, rounded, mutants)

    def _moved(self, values: np.ndarray, place: int) -> np.ndarray:
        """Return places [MUTANTS] of other values of a list."""
        steps = np.clip([place - 1, place + 1], 0, len(values) - 1)
        scaled = [np.abs(values - factor * values[place]).argmin() for factor in (0.5, 2.0)]
        kind = self._random.integers(0, 3, MUTANTS)
        up = self._random.integers(0, 2, MUTANTS)
        anywhere = self._random.integers(0, len(values), MUTANTS)
        return np.choose(kind, [steps[up], np.array(scaled)[up], anywhere])


def _nearest_powers(values: np.ndarray) -> np.ndarray:
    """Return for each place that of the power of two, or 0, next to its value; its own without any."""
    whole = values.astype(np.int64)
    powers = np.flatnonzero((whole == values) & (whole >= 0) & (whole & (whole - 1) == 0))
    if not len(powers):
        return np.arange(len(values))
    return powers[np.abs(values[:, None] - values[powers]).argmin(axis=1)]
