"""Trips of a loop in the place of blocks: arrays of blocks, repeated for each trip."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Tiling:
    """Rows [trips x blocks] in place of rows [blocks]."""

    trips: int
    blocks: int

    def of(self, value: np.ndarray) -> np.ndarray:
        """Repeat what differs from block to block for each trip."""
        return value if value.shape[0] == 1 else np.tile(value, (self.trips, 1))

    def advanced(self, value: np.ndarray, change: np.ndarray, start: int = 0) -> np.ndarray:
        """Add a change once more from trip to trip."""
        times = np.arange(start, start + self.trips, dtype=change.dtype)[:, None, None]
        steps = value[None] + times * change[None]
        if steps.shape[1] < self.blocks:
            steps = np.repeat(steps, self.blocks, axis=1)
        return steps.reshape(-1, steps.shape[2])

    def by_trip(self, value: np.ndarray) -> np.ndarray:
        """Part rows by trips: [trips or 1, blocks or 1, threads or 1]"""
        return value[None] if value.shape[0] == 1 else value.reshape(self.trips, self.blocks, -1)

    def last(self, value: np.ndarray, before: np.ndarray) -> np.ndarray:
        """Return what the last trip left, with as many rows as `before`."""
        return self.by_trip(value)[-1][: before.shape[0]].copy()
