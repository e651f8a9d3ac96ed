"""Checks of a kernel's output: places, expected values, tolerances.

All of a small output is looked at, else runs of neighbours spread over it by a seeded generator, with the
first and the last.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

RUNS, LENGTH = 48, 64  # of neighbouring elements that are looked at
WHOLE = 4096  # elements up to which all are

Names = Mapping[str, Any]  # parameters and problem sizes


@dataclass(frozen=True)
class CheckedLaunch:
    """One launch: what it was given, and where its output is looked at."""

    names: Names
    arrays: Mapping[int, np.ndarray]  # by the argument's place, flat, as they were before
    constants: Mapping[str, np.ndarray]  # `__constant__` variables
    at: np.ndarray  # places in the output

    def size(self, name: str) -> int:
        """Return a parameter or problem size, as an integer."""
        return int(self.names[name])


@dataclass(frozen=True)
class Reference:
    """Reference of a kernel: expected values and tolerance."""

    output: int  # place of the argument
    size: Callable[[Names], int]  # elements of the output
    expected: Callable[[CheckedLaunch], np.ndarray]  # at the places of a case
    depends: tuple[str, ...] = ()  # parameters that the result depends on
    tolerance: float = 1e-4  # relative to an element and to the mean of all; 0: equal
    types: Mapping[int, str] = field(default_factory=dict)  # of arrays, where not as the [source] table says
    constants: Mapping[str, Callable[[Names], int]] = field(default_factory=dict)  # elements of each
    adds: bool = False  # to what the output holds, which then is random and not 0


def places(size: int, seed: int = 0) -> np.ndarray:
    """Choose where to look in an output of so many elements, ascending, each once."""
    if size <= WHOLE:
        return np.arange(size)
    starts = np.random.default_rng(seed).integers(0, size - LENGTH, RUNS)
    starts = np.concatenate([[0, size - LENGTH], starts])
    return np.unique(starts[:, None] + np.arange(LENGTH))


def wrong(output: np.ndarray, expected: np.ndarray, tolerance: float) -> int | None:
    """Find the first place where what was found is not what was expected."""
    if tolerance == 0:
        bad = output != expected
    else:
        magnitude = np.abs(expected) + np.mean(np.abs(expected))
        bad = ~(np.abs(output.astype(float) - expected) <= tolerance * magnitude)  # NaN is wrong
    return int(np.argmax(bad)) if bad.any() else None


def dots(left: np.ndarray, rows: np.ndarray, right: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Multiply some rows of one matrix with some of the other."""
    products = np.empty(len(rows))
    for first in range(0, len(rows), 256):
        part = slice(first, first + 256)
        products[part] = np.einsum(
            "ij,ij->i", left[rows[part]].astype(float), right[columns[part]].astype(float)
        )
    return products


def product(*names: str) -> Callable[[Names], int]:
    """Return how to multiply parameters and problem sizes of these names."""
    return lambda known: int(np.prod([int(known[name]) for name in names]))
