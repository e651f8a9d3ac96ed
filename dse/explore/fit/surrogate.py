"""Predict times of unmeasured configurations from measured ones: a Gaussian process about a model.

    log t(x) = log f(x) + Σ_p θ_p s_p(x) + g(x) + ε

f is the model. s_p are its possible errors, in prior standard deviations, so that θ is standard normal but
for a common scale: its derivatives by the logs of the GPU's parameters (a first-order refit of the GPU), the
slope of times over predictions, their level, and tables of other GPUs. g is the remaining error: a function
of the tuning parameters and of the order of the predictions, as a sum of functions of each and one of all; it
is continuous, not smooth, since neighbouring values may differ in kind. ε is the rough part, independent
between neighbours. The posterior is exact; the scales are fitted.

Source: `dse.core.gaussian_process`. Precision: float64.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from dse.core.gaussian_process import Hyperparameters, Points, Process, exponential, fitted

SLOW = 0.2  # times above the median by this, or by 3 deviations, are clipped
MOST_FITTED = 128  # most measurements for the costly fit of scales
MISSED, ALL = 0.35, 0.6  # deviations of each part of g: with and without a model
ROUGH, LENGTH = 0.03, 0.6  # deviation of ε, and lengths of g over [0, 1]
JITTER = 1e-6  # variance added to a draw's covariance to make it positive


def positions(parameters: Mapping[str, np.ndarray]) -> Float[np.ndarray, "n varying"]:
    """Scale each varying parameter to 0 to 1: by its log if it is above 0, else by its rank."""
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
    """Return the log-normal prior of the scales for this number of features."""
    middles = 2 * np.log([missed, missed, 1.0, ROUGH, *(1 / LENGTH,) * features])
    return Hyperparameters(middles, 2 * np.array([0.6, 0.6, 0.5, 0.5, *(0.7,) * features]))


@dataclass(frozen=True)
class Surrogate:
    """The posterior of errors of expected times, given measurements."""

    process: Process
    level: float  # common to all

    def __call__(self, points: Points) -> tuple[np.ndarray, np.ndarray]:
        """Predict mean and standard deviation of log t - log f of n configurations, without ε."""
        mean, variance = self.process.predict(self._taken(points))
        return self.level + mean, np.sqrt(np.maximum(variance, 1e-12))

    @property
    def rough(self) -> float:
        """Standard deviation of ε: neighbours differ by it, and one may be faster by it."""
        return float(np.sqrt(self.process.noise))

    def drawn(self, points: Points, draws: int, random: np.random.Generator) -> np.ndarray:
        """Draw deviations of n configurations from their means, jointly: [draws, n]."""
        taken = self._taken(points)
        covariance = self.process.covariance(taken, taken) + JITTER * np.eye(len(points.position))
        factor = np.linalg.cholesky(covariance)
        return random.normal(size=(draws, len(factor))) @ factor.T

    @property
    def missed(self) -> float:
        """The sum of squared leave-one-out errors of the measurements."""
        return float(np.sum(self.process.posterior.left_out()[0] ** 2))

    def left_out(self) -> np.ndarray:
        """Return the leave-one-out error of each measurement, in standard deviations."""
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
    """Condition on measurements; `off` [m] are their logs minus the expected ones.

    `absolute`: the level was expected too. The fit of the scales starts at `scales`; without `fit` they are
    unchanged. The last `doubted` slopes count only if they improve leave-one-out errors of three or more.
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
