"""How sure a ranking is: intervals of times, and the chance of each configuration to be the fastest."""

from dataclasses import dataclass

import numpy as np

from dse.explore.tune.tuner import Tuner

MOST = 1_000  # configurations that may be the fastest: those predicted to be
DRAWS = 4_000
NORMAL_95 = 1.96


@dataclass(frozen=True)
class Chances:
    """Of N candidates: arrays [N]."""

    seconds: np.ndarray  # median
    low: np.ndarray  # ends of the interval that holds 95 %
    high: np.ndarray
    best: np.ndarray  # the chance to be the fastest of all
    near: np.ndarray  # ... to be within a share of it


def chances(tuner: Tuner, within: float = 0.05, seed: int = 0) -> Chances:
    """Work out intervals and chances after what was told; `within` is a share of the fastest time.

    Times are drawn together from the surrogate's posterior, for the MOST configurations that are predicted to
    be fastest; the others have no chance. A measured one has its measured time, but for noise.
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
