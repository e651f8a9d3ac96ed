"""A Gaussian process: numbers known at some points, estimated at others, with how sure that is.

Its covariance is a Matérn 5/2 function with a length for each feature; the same of single features, summed,
since counts are mostly products of what single parameters do; a plane; and noise. Their sizes and lengths are
those of the highest marginal likelihood with weak priors (Rasmussen & Williams 2006, Eqs. 2.25, 4.17, 5.9).
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

# Priors of the sizes (of all features together, of single ones, the plane, the noise) and of 1 / length², in
# logs: features and numbers are standardised.
_MIDDLES, _WIDTHS = np.log([0.5, 1.0, 0.4, 1e-3]), np.array([2.0, 2.0, 2.0, 3.0])
_LENGTH, _LENGTH_WIDTH = np.log(0.3), 2.0
_SIZES = len(_MIDDLES)
_STEPS = 40  # of the search, at most


@dataclass(frozen=True)
class Process:
    """What is known of one number, at n points of d features."""

    points: np.ndarray  # [n, d]
    mean: float
    scale: float
    settings: np.ndarray  # logs: the sizes, then of each feature 1 / length²
    inverse: np.ndarray  # [n, n] of the covariance of the standardised numbers
    weights: np.ndarray  # [n]
    evidence: float  # log likelihood of the numbers, priors included: comparable for the same numbers

    def estimate(self, points: np.ndarray) -> np.ndarray:
        """[m]"""
        return self.mean + self.scale * (self._between(points, self.points) @ self.weights)

    def covariance(self, points: np.ndarray, others: np.ndarray) -> np.ndarray:
        """[m, k] of what is not known yet; its noise is left out."""
        left, right = self._between(points, self.points), self._between(self.points, others)
        return self.scale**2 * (self._between(points, others) - left @ self.inverse @ right)

    def variance(self, points: np.ndarray) -> np.ndarray:
        """[m]: the diagonal of `covariance`."""
        left = self._between(points, self.points)
        whole = np.exp(self.settings[:2]).sum() + np.exp(self.settings[2]) * (points**2).mean(1)
        return self.scale**2 * np.maximum(whole - ((left @ self.inverse) * left).sum(1), 0.0)

    @property
    def left_out(self) -> np.ndarray:
        """[n]: each number less its estimate from all others (Eq. 5.12)."""
        return self.scale * self.weights / np.diag(self.inverse)

    def _between(self, points: np.ndarray, others: np.ndarray) -> np.ndarray:
        return _covariance(points, others, self.settings)


def _covariance(points: np.ndarray, others: np.ndarray, settings: np.ndarray) -> np.ndarray:
    """[m, k] of standardised numbers, without noise."""
    together, single, plane = np.exp(settings[:3])
    lengths, d = np.exp(settings[_SIZES:]), points.shape[1]
    distance, found = np.zeros((len(points), len(others))), plane / d * (points @ others.T)
    for feature in range(d):
        squares = lengths[feature] * (points[:, feature, None] - others[:, feature]) ** 2
        found += single / d * _matern(squares)[0]
        distance += squares
    return found + together * _matern(distance)[0]


def fitted(points: np.ndarray, numbers: np.ndarray) -> Process:
    """The process that explains `numbers` [n] at `points` [n, d] best."""
    (n, d), mean, scale = points.shape, float(np.mean(numbers)), float(np.std(numbers)) or 1.0
    values = (numbers - mean) / scale
    squares, unit = (points[:, None] - points) ** 2, np.eye(n)
    plane = points @ points.T / d
    middle = np.concatenate([_MIDDLES, np.full(d, _LENGTH)])
    widths = np.concatenate([_WIDTHS, np.full(d, _LENGTH_WIDTH)])

    def unlikeliness(settings: np.ndarray) -> tuple[float, np.ndarray]:
        """Minus the log likelihood, and its gradient."""
        sizes, lengths = np.exp(settings[:_SIZES]), np.exp(settings[_SIZES:])
        together, together_slope = _matern(squares @ lengths)
        single, single_slope = _matern(squares * lengths)
        parts = together, single.mean(-1), plane, unit
        whole = sum(size * part for size, part in zip(sizes, parts, strict=True)) + 1e-8 * unit
        try:
            root = np.linalg.cholesky(whole)
        except np.linalg.LinAlgError:
            return 1e10, np.zeros_like(settings)
        inverse = np.linalg.inv(whole)
        weights = inverse @ values
        pull = (inverse - np.outer(weights, weights)) / 2
        slope = sizes[0] * together_slope[:, :, None] + sizes[1] / d * single_slope
        off = (settings - middle) / widths
        gradient = off / widths
        gradient[:_SIZES] += [size * (pull * part).sum() for size, part in zip(sizes, parts, strict=True)]
        gradient[_SIZES:] += lengths * (pull[:, :, None] * slope * squares).sum((0, 1))
        cost = values @ weights / 2 + np.log(np.diag(root)).sum() + off @ off / 2
        return float(cost), gradient

    found = minimize(
        unlikeliness,
        middle,
        jac=True,
        method="L-BFGS-B",
        bounds=[(-6, 5)] * 3 + [(np.log(1e-7), 1)] + [(-9, 4)] * d,
        options={"maxiter": _STEPS},
    )
    noise = np.exp(found.x[3]) + 1e-8
    inverse = np.linalg.inv(_covariance(points, points, found.x) + noise * unit)
    evidence = -float(found.fun) - n * np.log(scale)
    return Process(points, mean, scale, found.x, inverse, inverse @ values, evidence)


def _matern(squares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(covariance, its derivative by the squared distance)."""
    root = np.sqrt(5.0 * squares)
    fall = np.exp(-root)
    return (1.0 + root + root * root / 3.0) * fall, -5.0 / 6.0 * (1.0 + root) * fall
