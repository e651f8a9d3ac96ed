"""Checks of a kernel's output: elements, expected values, tolerances.

A small output is checked completely, a large one in runs of neighbouring elements at seeded random positions,
including the first and the last.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

RUNS, LENGTH = 48, 64  # of checked neighbouring elements
WHOLE = 4096  # most elements of an output that is checked completely

Names = Mapping[str, Any]  # parameters and problem sizes


@dataclass(frozen=True)
class CheckedLaunch:
    """One launch: its input, and the checked elements of its output."""

    names: Names
    arrays: Mapping[int, np.ndarray]  # by the argument's index, flat, before the launch
    constants: Mapping[str, np.ndarray]  # `__constant__` variables
    at: np.ndarray  # indices in the output

    def size(self, name: str) -> int:
        """Return a parameter or problem size, as an integer."""
        return int(self.names[name])


@dataclass(frozen=True)
class Reference:
    """Reference of a kernel: expected values and tolerance."""

    output: int  # index of the argument
    size: Callable[[Names], int]  # elements of the output
    expected: Callable[[CheckedLaunch], np.ndarray]  # at the indices of a launch
    depends: tuple[str, ...] = ()  # parameters that the result depends on
    tolerance: float = 1e-4  # relative to an element plus the mean of all; 0: equal
    types: Mapping[int, str] = field(default_factory=dict)  # of arrays, if not those of the [source] table
    constants: Mapping[str, Callable[[Names], int]] = field(default_factory=dict)  # elements of each
    adds: bool = False  # to the output, which then starts as random numbers instead of 0


def places(size: int, seed: int = 0) -> np.ndarray:
    """Choose the indices to check in an output of `size` elements, ascending and unique."""
    if size <= WHOLE:
        return np.arange(size)
    starts = np.random.default_rng(seed).integers(0, size - LENGTH, RUNS)
    starts = np.concatenate([[0, size - LENGTH], starts])
    return np.unique(starts[:, None] + np.arange(LENGTH))


def wrong(output: np.ndarray, expected: np.ndarray, tolerance: float) -> int | None:
    """Find the first wrong element."""
    if tolerance == 0:
        bad = output != expected
    else:
        magnitude = np.abs(expected) + np.mean(np.abs(expected))
        bad = ~(np.abs(output.astype(float) - expected) <= tolerance * magnitude)  # NaN is wrong
    return int(np.argmax(bad)) if bad.any() else None


def dots(left: np.ndarray, rows: np.ndarray, right: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Compute the dot products of rows of one matrix with rows of another."""
    products = np.empty(len(rows))
    for first in range(0, len(rows), 256):
        part = slice(first, first + 256)
        products[part] = np.einsum(
            "ij,ij->i", left[rows[part]].astype(float), right[columns[part]].astype(float)
        )
    return products


def product(*names: str) -> Callable[[Names], int]:
    """Return the function that multiplies these parameters and problem sizes."""
    return lambda values: int(np.prod([int(values[name]) for name in names]))
