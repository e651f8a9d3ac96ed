"""Predictions that cannot be told apart, and configurations of different kinds among the fastest."""

from collections.abc import Mapping

import numpy as np

EQUAL = 1e-3  # relative: no model is that exact


def tied(seconds: np.ndarray) -> int:
    """Count the values that are practically equal to the first. **Shapes:** [N], ascending."""
    return int(np.sum(seconds <= seconds[0] * (1 + EQUAL))) if len(seconds) else 0


def diverse(seconds: np.ndarray, parameters: Mapping[str, np.ndarray], most: int) -> np.ndarray:
    """Choose one of each group of equal predictions, at most this many: places [K], ascending.

    The first of all, then of each group the one that differs most from those chosen before; of several the
    first. **Shapes:** seconds [N], ascending and finite, and parameters in the same order.
    """
    steps = np.stack([_places(values) for values in parameters.values()], -1)
    kept: list[int] = []
    nearest = np.full(len(seconds), np.inf)  # to any that was chosen
    start = 0
    while start < len(seconds) and len(kept) < most:
        stop = int(np.searchsorted(seconds, seconds[start] * (1 + EQUAL), side="right"))
        best = start + int(np.argmax(nearest[start:stop]))
        kept.append(best)
        nearest = np.minimum(nearest, np.abs(steps - steps[best]).sum(-1))
        start = max(stop, start + 1)
    return np.array(kept, int)


def _places(values: np.ndarray) -> np.ndarray:
    """Place values between 0 and 1 by their order, so that each parameter counts alike."""
    distinct, places = np.unique(values, return_inverse=True)
    return places / max(len(distinct) - 1, 1)
