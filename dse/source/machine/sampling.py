"""Samples of loop trips whose accesses depend on data: one in the middle of each stretch."""

from collections.abc import Iterable

SAMPLES = range(7, 11)  # trips for an estimate


def stretches(trips: int, samples: Iterable[int] = SAMPLES) -> tuple[int, int]:
    """Divide trips by the number of `samples` with the smallest rest: (samples, trips of a stretch)."""
    count = min(samples, key=lambda number: (trips % number, -number))
    return count, trips // count


def before_middle(stretch: int) -> int:
    """Return the number of trips of a stretch before the executed one."""
    return (stretch - 1) // 2
