"""Trips of a loop that are executed before the others are skipped."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

SAMPLES = range(7, 11)  # trips for an estimate


@dataclass(frozen=True)
class Repetition:
    """The number of repetitions of each executed part."""

    times: int
    trips: int = 1  # of the loop, in each part
    earlier: int = 0  # repetitions before the executed part


@dataclass
class Plan:
    """Trips to execute: one period, or, if accesses depend on data, one in the middle of each stretch."""

    parts: int  # trips to execute
    stretch: int = 0  # trips that each represents; 0: the trips of a period
    starts: list[Any] = field(default_factory=list)  # marks of the trips executed so far

    @staticmethod
    def of_samples(trips: int, samples: Iterable[int] = SAMPLES) -> "Plan":
        """Choose the number of samples that leaves the fewest trips unrepresented."""
        count = min(samples, key=lambda number: (trips % number, -number))
        return Plan(count, trips // count)

    def next(self, start: Any, trips: int) -> "int | Repetition":
        """Return, after a planned trip that began at `start`, the trips to skip before the next one.

        After the last one: the repetition of `starts` that stands for all `trips`.
        """
        self.starts.append(start)
        if len(self.starts) < self.parts:
            return max(self.stretch - 1, 0)
        if self.stretch:
            return Repetition(self.stretch - 1, earlier=self.earlier)
        del self.starts[1:]
        return Repetition((trips - self.parts) // self.parts, trips=self.parts)

    @property
    def earlier(self) -> int:
        """Trips of a stretch before the executed one."""
        return (self.stretch - 1) // 2
