"""Repeated measurements: median, spread, and when to stop."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic

import numpy as np


@dataclass(frozen=True)
class Repeats:
    """Repeated measurements in order, and whether the spread fell to the tolerance in time."""

    values: tuple[float, ...]
    settled: bool

    @property
    def middle(self) -> float:
        """The median."""
        return float(np.median(self.values))

    @property
    def spread(self) -> float:
        """Spread of the samples, as `spread` computes it."""
        return spread(self.values)


def spread(values: Sequence[float]) -> float:
    """Compute the median distance from the median, over the median; 0 for a single value.

    Robust against one outlier in five.
    """
    middle = float(np.median(values))
    return float(np.median(np.abs(np.subtract(values, middle)))) / abs(middle) if middle else 0.0


def variation(values: Sequence[float]) -> float:
    """Compute the standard deviation over the mean, which is sensitive to outliers."""
    mean = float(np.mean(values))
    return float(np.std(values)) / abs(mean) if mean else 0.0


def repeat(
    measure: Callable[[], float],
    *,
    tolerance: float = 0.01,
    least: int = 5,
    most: int = 11,
    seconds: float = 5.0,
    now: Callable[[], float] = monotonic,
) -> Repeats:
    """Measure `least` to `most` times, until the spread is at most `tolerance` or `seconds` have passed.

    A measurement longer than `seconds` is not repeated.
    """
    begun, values = now(), []
    while True:
        values.append(float(measure()))
        if len(values) >= least and spread(values) <= tolerance:
            return Repeats(tuple(values), True)
        if len(values) >= most or now() - begun > seconds:
            return Repeats(tuple(values), False)
