"""Estimate a number of configurations, and its uncertainty, from others: a Gaussian process.

It is smooth in the features, or linear; features and numbers are standardised, and the priors are weak.
"""

from dataclasses import dataclass

import numpy as np

from dse.core import gaussian_process
from dse.core.gaussian_process import Hyperparameters, Points

_SIZES, _WIDTHS = [0.5, 1.0, 0.4, 1e-3], [2.0, 2.0, 2.0, 3.0]  # together, single, linear, noise; widths: logs
_RATE, _RATE_WIDTH = 0.3, 2.0  # 1 / length², and the width of its log


@dataclass(frozen=True)
class FittedProcess:
    """A process conditioned on one number at n points of d features."""

    mean: float
    scale: float
    standardised: gaussian_process.Process
    evidence: float  # log likelihood of the numbers, priors included: comparable for the same numbers

    def estimate(self, points: np.ndarray) -> np.ndarray:
        """Estimate the number at other points, [m]."""
        known = self.standardised
        across = known.before(_points(points), known.points)
        return self.mean + self.scale * (across @ self.standardised.posterior.weights)

    def covariance(self, points: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return the posterior covariance [m, k], without noise."""
        return self.scale**2 * self.standardised.covariance(_points(points), _points(others))

    def variance(self, points: np.ndarray) -> np.ndarray:
        """Return the diagonal of `covariance`, [m]."""
        return self.scale**2 * self.standardised.predict(_points(points))[1]

    @property
    def left_out(self) -> np.ndarray:
        """Each number minus its estimate from all others, [n]."""
        return self.scale * self.standardised.posterior.left_out()[0]


def fitted(points: np.ndarray, numbers: np.ndarray) -> FittedProcess:
    """Fit the process that explains `numbers` [n] at `points` [n, d] best."""
    mean, scale, features = float(np.mean(numbers)), float(np.std(numbers)) or 1.0, points.shape[1]
    middles = np.log([*_SIZES, *(_RATE,) * features])
    prior = Hyperparameters(middles, np.array([*_WIDTHS, *(_RATE_WIDTH,) * features]))
    known, unlikely = gaussian_process.fitted(_points(points), (numbers - mean) / scale, prior)
    return FittedProcess(mean, scale, known, -unlikely - len(numbers) * np.log(scale))


def _points(points: np.ndarray) -> Points:
    return Points(points, points / np.sqrt(points.shape[1]))
