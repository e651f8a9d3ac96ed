"""Trips of a loop as additional rows of blocks."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Tiling:
    """Rows [trips x blocks] instead of rows [blocks]."""

    trips: int
    blocks: int

    def of(self, value: np.ndarray) -> np.ndarray:
        """Repeat the rows of blocks for each trip."""
        return value if value.shape[0] == 1 else np.tile(value, (self.trips, 1))

    def advanced(self, value: np.ndarray, change: np.ndarray, start: int = 0) -> np.ndarray:
        """Add the change once per trip."""
        times = np.arange(start, start + self.trips, dtype=value.dtype)[:, None, None]
        steps = value[None] + times * change.astype(value.dtype)[None]
        if steps.shape[1] < self.blocks:
            steps = np.repeat(steps, self.blocks, axis=1)
        return steps.reshape(-1, steps.shape[2])

    def by_trip(self, value: np.ndarray) -> np.ndarray:
        """Reshape rows to [trips or 1, blocks or 1, threads or 1]."""
        return value[None] if value.shape[0] == 1 else value.reshape(self.trips, self.blocks, -1)

    def last(self, value: np.ndarray, before: np.ndarray) -> np.ndarray:
        """Return the values after the last trip, with as many rows as `before`."""
        return self.by_trip(value)[-1][: before.shape[0]].copy()
