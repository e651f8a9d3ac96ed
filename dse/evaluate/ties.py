"""Ties between predictions, and a diverse choice among them."""

from collections.abc import Mapping

import numpy as np

EQUAL = 1e-3  # relative difference below the accuracy of any model


def tied(seconds: np.ndarray) -> int:
    """Count the values tied with the first. **Shapes:** [N], ascending."""
    return int(np.sum(seconds <= seconds[0] * (1 + EQUAL))) if len(seconds) else 0


def diverse(seconds: np.ndarray, parameters: Mapping[str, np.ndarray], most: int) -> np.ndarray:
    """Choose one of each group of tied predictions, at most `most`: indices [K], ascending.

    The first of all, then from each group the one that differs most from those chosen before, or the first
    of several. **Shapes:** seconds [N], ascending and finite, and parameters in the same order.
    """
    positions = np.stack([_relative_ranks(values) for values in parameters.values()], -1)
    kept: list[int] = []
    nearest = np.full(len(seconds), np.inf)  # distance to any chosen one
    start = 0
    while start < len(seconds) and len(kept) < most:
        stop = int(np.searchsorted(seconds, seconds[start] * (1 + EQUAL), side="right"))
        best = start + int(np.argmax(nearest[start:stop]))
        kept.append(best)
        nearest = np.minimum(nearest, np.abs(positions - positions[best]).sum(-1))
        start = max(stop, start + 1)
    return np.array(kept, int)


def _relative_ranks(values: np.ndarray) -> np.ndarray:
    """Rank values between 0 and 1, so that all parameters count equally."""
    distinct, ranks = np.unique(values, return_inverse=True)
    return ranks / max(len(distinct) - 1, 1)
