"""Predicts configurations that were not measured from those that were: a Gaussian process about a model.

    log t(x) = log f(x) + Σ_p θ_p s_p(x) + g(x) + ε

f is the model. s_p are what it may be wrong in, in prior standard deviations, so that θ is standard normal
but for their common scale: its derivatives by the logs of the GPU's parameters (refitting the GPU, to first
order), how much steeper times are than predicted, their level, and tables of other GPUs. g is what is missed:
a function of the tuning parameters and of the order of the predictions, as a sum over one of them at a time
and one over all together; continuous, not smooth, since neighbouring values may differ in kind. ε is rough:
what no neighbour tells. The posterior is exact; the scales are fitted.

Source: `dse.core.gaussian_process`. Precision: float64.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from dse.core.gaussian_process import Hyperparameters, Points, Process, exponential, fitted

SLOW = 0.2  # what is slower than the median by this, or by 3 deviations, counts as just so slow
MOST_FITTED = 128  # measurements that scales are fitted to: that costs most
MISSED, ALL = 0.35, 0.6  # deviations of each part of g: what a model misses, and all without one
ROUGH, LENGTH = 0.03, 0.6  # deviation of ε, and lengths of g over [0, 1]
JITTER = 1e-6  # variance that makes a draw's covariance positive


def positions(parameters: Mapping[str, np.ndarray]) -> Float[np.ndarray, "n varying"]:
    """Put each parameter that varies on 0 to 1: by its log where it is above 0, else by its rank."""
    columns = []
    for values in map(np.asarray, parameters.values()):
        known = np.unique(values)
        if len(known) < 2:
            continue
        numeric = np.issubdtype(values.dtype, np.number) and known[0] > 0
        x = np.log(values) if numeric else np.searchsorted(known, values).astype(float)
        columns.append((x - x.min()) / (x.max() - x.min()))
    count = len(next(iter(parameters.values())))
    return np.stack(columns, axis=1) if columns else np.zeros((count, 1))


def prior(features: int, missed: float = MISSED) -> Hyperparameters:
    """Return the prior of the scales of this many features: log-normal."""
    middles = 2 * np.log([missed, missed, 1.0, ROUGH, *(1 / LENGTH,) * features])
    return Hyperparameters(middles, 2 * np.array([0.6, 0.6, 0.5, 0.5, *(0.7,) * features]))


@dataclass(frozen=True)
class Surrogate:
    """What measurements say of how far times are off what is expected of them."""

    process: Process
    level: float  # that all have in common

    def __call__(self, points: Points) -> tuple[np.ndarray, np.ndarray]:
        """Predict mean and standard deviation of log t - log f of n configurations, without what is rough."""
        mean, variance = self.process.predict(self._taken(points))
        return self.level + mean, np.sqrt(np.maximum(variance, 1e-12))

    @property
    def rough(self) -> float:
        """Standard deviation of ε: neighbours differ by that, and one may be faster by it."""
        return float(np.sqrt(self.process.noise))

    def drawn(self, points: Points, draws: int, random: np.random.Generator) -> np.ndarray:
        """Draw how far n configurations are off their means, together: [draws, n]."""
        taken = self._taken(points)
        covariance = self.process.covariance(taken, taken) + JITTER * np.eye(len(points.position))
        factor = np.linalg.cholesky(covariance)
        return random.normal(size=(draws, len(factor))) @ factor.T

    @property
    def tells_more(self) -> bool:
        """Whether it is nearer to each of three measurements or more, left out, than the mean of the others.

        The expectation knows no more of what it is off by than that mean.
        """
        n, values = len(self.process.values), self.process.values
        return n > 2 and self.missed * (n - 1) ** 2 < n**2 * float(np.sum((values - values.mean()) ** 2))

    @property
    def missed(self) -> float:
        """The sum of squares of how far each measurement, left out, is off what the others say."""
        return float(np.sum(self.process.posterior.left_out()[0] ** 2))

    def left_out(self) -> np.ndarray:
        """Return how many standard deviations each measurement is above what the others say."""
        above, variance = self.process.posterior.left_out()
        return above / np.sqrt(variance)

    def _taken(self, points: Points) -> Points:
        return Points(points.position, points.slopes[:, : self.process.points.slopes.shape[1]])


def learnt(
    seen: Points,
    off: np.ndarray,
    absolute: bool = False,
    scales: np.ndarray | None = None,
    fit: bool = True,
    doubted: int = 0,
) -> Surrogate:
    """Learn from measurements, whose logs are `off` what was expected by [m].

    `absolute`: their level was expected too. Scales are sought from `scales`, or with `fit` False are these.
    The last `doubted` slopes count only where they bring three measurements or more, left out, nearer.
    """
    if doubted:
        fewer = Points(seen.position, seen.slopes[:, :-doubted])
        without, whole = (learnt(points, off, absolute, scales, fit) for points in (fewer, seen))
        return whole if len(off) > 2 and whole.missed < without.missed else without
    middle = float(np.median(off))
    held = np.minimum(off, middle + max(SLOW, 3 * 1.4826 * np.median(np.abs(off - middle))))
    level = 0.0 if absolute else middle
    if fit:
        some = np.unique(np.linspace(0, len(off) - 1, min(len(off), MOST_FITTED)).astype(int))
        before = prior(seen.position.shape[1], MISSED if absolute else ALL)
        scales = fitted(seen.rows(some), held[some] - level, before, scales, exponential)[0].settings
    assert scales is not None
    return Surrogate(Process(seen, held - level, scales, exponential), level)
