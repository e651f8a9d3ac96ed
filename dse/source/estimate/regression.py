"""Estimates a number of configurations from others, and how sure that is: a Gaussian process.

Its covariance is that of a smooth function of the features, and of a plane. Their sizes, lengths and the
noise are those of the highest density after weak priors (Rasmussen & Williams 2006, Eqs. 2.30, 5.9).
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from dse.core.gaussian_process import Posterior, Smooth, matern, unlikeliness

# Priors of the sizes (of all features together, of single ones, the plane, the noise) and of 1 / length², in
# logs: features and numbers are standardised.
_MIDDLES, _WIDTHS = np.log([0.5, 1.0, 0.4, 1e-3]), np.array([2.0, 2.0, 2.0, 3.0])
_LENGTH, _LENGTH_WIDTH = np.log(0.3), 2.0
_SIZES = len(_MIDDLES)
_JITTER = 1e-8  # of the noise, at least
_STEPS = 40  # of the search, at most


@dataclass(frozen=True)
class Process:
    """A process that knows one number at n points of d features."""

    points: np.ndarray  # [n, d]
    mean: float
    scale: float
    settings: np.ndarray  # logs: the sizes, then of each feature 1 / length²
    posterior: Posterior  # of the standardised numbers
    evidence: float  # log likelihood of the numbers, priors included: comparable for the same numbers

    def estimate(self, points: np.ndarray) -> np.ndarray:
        """Estimate the number at other points, [m]."""
        across = _covariance(points, self.points, self.settings)
        return self.mean + self.scale * (across @ self.posterior.weights)

    def covariance(self, points: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return the covariance [m, k] of what is not known yet; its noise is left out."""
        left, right = (self._explained(some) for some in (points, others))
        return self.scale**2 * (_covariance(points, others, self.settings) - left.T @ right)

    def variance(self, points: np.ndarray) -> np.ndarray:
        """Return the diagonal of `covariance`, [m]."""
        plane = np.exp(self.settings[2]) * (points**2).mean(1)
        unknown = _smooth(self.settings).variance + plane - (self._explained(points) ** 2).sum(0)
        return self.scale**2 * np.maximum(unknown, 0.0)

    @property
    def left_out(self) -> np.ndarray:
        """Each number less its estimate from all others, [n]."""
        return self.scale * self.posterior.left_out(np)[0]

    def _explained(self, points: np.ndarray) -> np.ndarray:
        return self.posterior.explained(_covariance(self.points, points, self.settings))[1]


def _smooth(settings: np.ndarray) -> Smooth:
    together, single = np.exp(settings[:2])
    return Smooth(together, single, np.exp(settings[_SIZES:]))


def _covariance(points: np.ndarray, others: np.ndarray, settings: np.ndarray) -> np.ndarray:
    """Return the covariance [m, k] of standardised numbers, without noise."""
    plane = np.exp(settings[2]) / points.shape[1] * (points @ others.T)
    return _smooth(settings).covariance(points, others, np) + plane


def fitted(points: np.ndarray, numbers: np.ndarray) -> Process:
    """Fit the process that explains `numbers` [n] at `points` [n, d] best."""
    (n, d), mean, scale = points.shape, float(np.mean(numbers)), float(np.std(numbers)) or 1.0
    values = (numbers - mean) / scale
    squares, unit = (points[:, None] - points) ** 2, np.eye(n)
    plane = points @ points.T / d
    middle = np.concatenate([_MIDDLES, np.full(d, _LENGTH)])
    widths = np.concatenate([_WIDTHS, np.full(d, _LENGTH_WIDTH)])

    def cost(settings: np.ndarray) -> tuple[float, np.ndarray]:
        """Return minus the log of the density, and its gradient."""
        sizes, rates = np.exp(settings[:_SIZES]), np.exp(settings[_SIZES:])
        together, together_slope = matern(squares @ rates, np)
        single, single_slope = matern(squares * rates, np)
        parts = together, single.mean(-1), plane, unit
        whole = sum(size * part for size, part in zip(sizes, parts, strict=True)) + _JITTER * unit
        try:
            cholesky = np.linalg.cholesky(whole)
        except np.linalg.LinAlgError:
            return 1e10, np.zeros_like(settings)
        inverse = np.linalg.inv(whole)
        weights = inverse @ values
        pull = (inverse - np.outer(weights, weights)) / 2
        slope = sizes[0] * together_slope[:, :, None] + sizes[1] / d * single_slope
        off = (settings - middle) / widths
        gradient = off / widths
        gradient[:_SIZES] += [size * (pull * part).sum() for size, part in zip(sizes, parts, strict=True)]
        gradient[_SIZES:] += rates * (pull[:, :, None] * slope * squares).sum((0, 1))
        return float(unlikeliness(values @ weights, cholesky, np) + off @ off / 2), gradient

    best = minimize(
        cost,
        middle,
        jac=True,
        method="L-BFGS-B",
        bounds=[(-6, 5)] * 3 + [(np.log(1e-7), 1)] + [(-9, 4)] * d,
        options={"maxiter": _STEPS},
    )
    noise = np.exp(best.x[3]) + _JITTER
    posterior = Posterior.of(_covariance(points, points, best.x) + noise * unit, values, np)
    evidence = -float(best.fun) - n * np.log(scale)
    return Process(points, mean, scale, best.x, posterior, evidence)
