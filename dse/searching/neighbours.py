"""Valid configurations of one kernel, anywhere or near another one, as places in lists of values."""

from collections.abc import Set as AbstractSet

import numpy as np

from dse.errors import DseError
from dse.searching.variants import Variant

DRAWN = 1_024  # valid configurations that are drawn together
MUTANTS = 256  # of a point, that are looked at for each number of parameters changed
STEP = 0.5  # the share of changes that go to the next value of a list; the others go to any

Point = tuple[int, ...]  # the place of each free parameter's value in its list


class Neighbours:
    """Finds points of a variant whose configurations hold all constraints."""

    def __init__(self, variant: Variant, seed: int | None) -> None:
        self._space, self._problem = variant.kernel.space, variant.problem
        self._lengths = tuple(map(len, variant.free.values()))
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

        As few parameters are changed as do, which ones is left to chance. None where nothing is found.
        """
        if point not in tried and self._valid(np.array([point]))[0]:
            return point
        for changes in range(1, len(point) + 1):
            mutants = self._mutants(np.array(point), changes)
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

    def _mutants(self, point: np.ndarray, changes: int) -> np.ndarray:
        """Return points [N, D] that differ from one in so many parameters at most."""
        shape = (MUTANTS, len(point))
        chosen = self._random.random(shape).argsort(axis=1) < changes
        one_on = point + self._random.choice((-1, 1), shape)
        anywhere = self._random.integers(0, self._lengths, shape)
        moved = np.where(self._random.random(shape) < STEP, one_on, anywhere)
        return np.clip(np.where(chosen, moved, point), 0, np.array(self._lengths) - 1)
