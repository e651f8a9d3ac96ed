"""Loop trips executed for others whose accesses depend on data: one amid each stretch of them."""

from collections.abc import Iterable

SAMPLES = range(7, 11)  # trips that an estimate is made from


def stretches(trips: int, samples: Iterable[int] = SAMPLES) -> tuple[int, int]:
    """Divide trips by the number of `samples` that leaves fewest over: (samples, trips of a stretch)."""
    count = min(samples, key=lambda number: (trips % number, -number))
    return count, trips // count


def before_middle(stretch: int) -> int:
    """Return how many trips of a stretch come before the executed one."""
    return (stretch - 1) // 2
