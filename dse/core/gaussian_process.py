"""Gaussian processes: a smooth function of d features, a linear one of p others, and noise.

The smooth function has a covariance that falls with the distance in all features together, and one that falls
with a distance of its own in each, since measured times are mostly products of single parameters' effects.
The variances of the parts and the lengths are those of the highest density after log-normal priors.

Source: Rasmussen & Williams, Gaussian Processes for Machine Learning, 2006: Eqs. 2.23-2.25 (prediction), 2.30
(likelihood), 4.17 and 4.18 (Matérn, ν = 5/2 and 1/2), 5.9 (its gradient), 5.10-5.12 (leave-one-out).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import minimize

PARTS = 4  # whose variances a process has: together, single, linear, noise
JITTER = 1e-8  # of the noise, at least
STEPS = 40  # of the fit, at most


def matern(squares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the correlation at a squared distance, ν = 5/2 (Eq. 4.17), and its derivative by that square."""
    root = np.sqrt(5.0 * squares)
    fall = np.exp(-root)
    return (1.0 + root + root * root / 3.0) * fall, -5.0 / 6.0 * (1.0 + root) * fall


def exponential(squares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the same for ν = 1/2 (Eq. 4.18): continuous, with corners."""
    root = np.sqrt(squares)
    fall = np.exp(-root)
    return fall, -0.5 * fall / np.maximum(root, 1e-4)  # at 0 it is infinite, but taken times the square


Correlation = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


class Smooth(NamedTuple):
    """The variances of the two parts of a smooth function, and how fast it changes with each feature."""

    together: float
    single: float
    rates: np.ndarray  # [d], 1 / length²
    correlation: Correlation = matern

    def covariance(self, points: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return the covariance between values at points [m, d] and others [k, d]: [m, k].

        Features mostly have few values: what one alone decides is computed once for each.
        """
        single = np.zeros((len(points), len(others)))
        for feature, rate in enumerate(self.rates):
            values, which = np.unique(others[:, feature], return_inverse=True)
            squares = rate * (points[:, feature, None] - values) ** 2
            single += np.take(self.correlation(squares)[0], which, axis=1)
        left, right = (some * np.sqrt(self.rates) for some in (points, others))
        distance = (left**2).sum(1)[:, None] + (right**2).sum(1) - 2.0 * left @ right.T
        together = self.correlation(np.maximum(distance, 0.0))[0]
        return self.together * together + self.single / len(self.rates) * single


def unlikeliness(square: Any, cholesky: np.ndarray) -> float:
    """Return minus the log of the likelihood of values y of mean 0, up to a constant (Eq. 2.30).

    `square` is y K⁻¹ y, where `cholesky` [n, n] is the factor of their covariance K.
    """
    return float(square / 2 + np.log(np.diag(cholesky)).sum())


class Posterior(NamedTuple):
    """A process of mean 0 whose value is known at n points, with noise."""

    cholesky: np.ndarray  # [n, n] lower factor of the covariance of the known points
    whitened: np.ndarray  # [n]

    @staticmethod
    def of(covariance: np.ndarray, values: np.ndarray) -> "Posterior":
        """Condition on `values` [n] with that `covariance` [n, n], noise included."""
        cholesky = np.linalg.cholesky(covariance)
        return Posterior(cholesky, _solve(cholesky, values))

    @property
    def weights(self) -> np.ndarray:
        """The weights of known values: times the covariance with others they give these their mean, [n]."""
        return _solve(self.cholesky, self.whitened, transposed=True)

    def explained(self, across: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Predict other points from the covariance `across` [n, m] of known values and these.

        Returns their mean [m] (Eq. 2.23), and a factor [n, m] whose square is the part of their covariance
        that is explained (Eq. 2.24).
        """
        factor = _solve(self.cholesky, across)
        return self.whitened @ factor, factor

    def left_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Return each known value less its mean after all others, and the variance of that: [n]."""
        variance = 1.0 / (_solve(self.cholesky, np.eye(len(self.whitened))) ** 2).sum(0)
        return self.weights * variance, variance  # 1 over the diagonal of K⁻¹


def _solve(cholesky: np.ndarray, right: np.ndarray, transposed: bool = False) -> np.ndarray:
    """The solution x of `cholesky x = right`, or of that with the factor transposed."""
    return solve_triangular(cholesky, right, lower=True, trans=int(transposed), check_finite=False)


class Points(NamedTuple):
    """N points: what values are a smooth function of, and what they are linear in."""

    position: np.ndarray  # [N, d]
    slopes: np.ndarray  # [N, p]

    def rows(self, index: np.ndarray | list[int]) -> "Points":
        """Take some of them."""
        return Points(self.position[index], self.slopes[index])


class Settings(NamedTuple):
    """The prior of the logs of the variances of PARTS, then of each feature's 1 / length²: normal."""

    middles: np.ndarray  # [PARTS + d]
    widths: np.ndarray


@dataclass(frozen=True)
class Process:
    """A process of mean 0 that knows values at n points."""

    points: Points
    values: np.ndarray  # [n]
    settings: np.ndarray  # [PARTS + d]
    correlation: Correlation = matern

    @property
    def noise(self) -> float:
        """The variance of the noise."""
        return float(np.exp(self.settings[3]) + JITTER)

    @cached_property
    def posterior(self) -> Posterior:
        """What the values say."""
        known = self.before(self.points, self.points) + self.noise * np.eye(len(self.values))
        return Posterior.of(known, self.values)

    def predict(self, points: Points) -> tuple[np.ndarray, np.ndarray]:
        """Predict mean and variance of the function at m other points, without noise."""
        mean, factor = self._explained(points)
        together, single, linear = np.exp(self.settings[:3])
        before = together + single + linear * np.einsum("ij,ij->i", points.slopes, points.slopes)
        return mean, np.maximum(before - np.einsum("ij,ij->j", factor, factor), 0.0)

    def covariance(self, points: Points, others: Points) -> np.ndarray:
        """Return the covariance [m, k] of unknown points, without noise."""
        left, right = (self._explained(some)[1] for some in (points, others))
        return self.before(points, others) - left.T @ right

    def before(self, points: Points, others: Points) -> np.ndarray:
        """Return the covariance [m, k] of values of which none is known, without noise."""
        linear = np.exp(self.settings[2]) * (points.slopes @ others.slopes.T)
        return self._smooth.covariance(points.position, others.position) + linear

    @property
    def _smooth(self) -> Smooth:
        together, single = np.exp(self.settings[:2])
        return Smooth(together, single, np.exp(self.settings[PARTS:]), self.correlation)

    def _explained(self, points: Points) -> tuple[np.ndarray, np.ndarray]:
        return self.posterior.explained(self.before(self.points, points))


def fitted(
    points: Points,
    values: np.ndarray,
    prior: Settings,
    start: np.ndarray | None = None,
    correlation: Correlation = matern,
) -> tuple[Process, float]:
    """Fit the process that explains `values` [n] best; return also minus the log of its density."""
    unit, squares = np.eye(len(values)), (points.position[:, None] - points.position) ** 2
    linear = points.slopes @ points.slopes.T

    def cost(settings: np.ndarray) -> tuple[float, np.ndarray]:
        sizes, rates = np.exp(settings[:PARTS]), np.exp(settings[PARTS:])
        together, together_slope = correlation(squares @ rates)
        single, single_slope = correlation(squares * rates)
        parts = together, single.mean(-1), linear, unit
        whole = sum(size * part for size, part in zip(sizes, parts, strict=True)) + JITTER * unit
        try:
            cholesky = np.linalg.cholesky(whole)
        except np.linalg.LinAlgError:
            return 1e10, np.zeros_like(settings)
        inverse = np.linalg.inv(whole)
        weights = inverse @ values
        pull = (inverse - np.outer(weights, weights)) / 2
        slope = sizes[0] * together_slope[:, :, None] + sizes[1] / len(rates) * single_slope
        off = (settings - prior.middles) / prior.widths
        gradient = off / prior.widths
        gradient[:PARTS] += [size * (pull * part).sum() for size, part in zip(sizes, parts, strict=True)]
        gradient[PARTS:] += rates * np.einsum("ij,ijk,ijk->k", pull, slope, squares)
        return unlikeliness(values @ weights, cholesky) + float(off @ off) / 2, gradient

    bounds = [(-12, 5)] * 3 + [(np.log(1e-7), 1)] + [(-9, 4)] * squares.shape[-1]
    begin = prior.middles if start is None else start
    best = minimize(
        cost, begin, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": STEPS, "ftol": 1e-4}
    )
    return Process(points, values, best.x, correlation), float(best.fun)
