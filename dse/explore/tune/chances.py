"""The uncertainty of a ranking: intervals of times, and probabilities of being the fastest."""

from dataclasses import dataclass

import numpy as np

from dse.explore.tune.tuner import Tuner

MOST = 1_000  # configurations that may be the fastest, by prediction
DRAWS = 4_000
NORMAL_95 = 1.96


@dataclass(frozen=True)
class Chances:
    """Intervals and probabilities of N candidates; arrays [N]."""

    seconds: np.ndarray  # median
    low: np.ndarray  # ends of the 95 % interval
    high: np.ndarray
    best: np.ndarray  # probability of being the fastest
    near: np.ndarray  # ... of being within a share of it


def chances(tuner: Tuner, within: float = 0.05, seed: int = 0) -> Chances:
    """Return intervals and probabilities given the measurements; `within` is a share of the fastest time.

    Times are drawn jointly from the surrogate's posterior, for the MOST fastest configurations by prediction;
    the others have probability 0. A measured configuration has its measured time, with noise.
    """
    c = tuner.candidates
    mean, deviation = tuner.predict()
    order = np.where(c.possible, mean, np.inf)
    first = np.argsort(order, kind="stable")[: min(MOST, int(c.possible.sum()))]
    off = tuner.surrogate.drawn(c.points.rows(first), DRAWS, np.random.default_rng(seed))
    logs = mean[first] + off
    fastest = logs.min(axis=1, keepdims=True)
    best, near = np.zeros(len(c)), np.zeros(len(c))
    best[first] = np.mean(logs == fastest, axis=0)
    near[first] = np.mean(logs <= fastest + np.log1p(within), axis=0)
    low, high = (np.exp(mean + sign * NORMAL_95 * deviation) for sign in (-1, 1))
    return Chances(np.exp(mean), low, high, best, near)
