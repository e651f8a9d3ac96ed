"""Gaussian processes: a smooth function of d features, a linear one of p others, and noise.

The smooth part adds a covariance over the distance in all features to one over the distance in each feature
alone, since measured times are mostly products of single parameters' effects. The variances and length
scales maximize the posterior density under log-normal priors.

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

PARTS = 4  # variances of a process: joint, additive, linear, noise
JITTER = 1e-8  # least variance of the noise
ROWS = 512  # of a covariance computed at a time, so that they stay in a core's cache
STEPS = 40  # iterations of the fit, at most


class Correlation(NamedTuple):
    """A correlation of squared distances, and its derivative, from the squared distances and its values."""

    of: Callable[[np.ndarray], np.ndarray]
    slope: Callable[[np.ndarray, np.ndarray], np.ndarray]


def _matern(squares: np.ndarray) -> np.ndarray:
    """Matérn, ν = 5/2 (Eq. 4.17)."""
    root = np.sqrt(5.0 * squares)
    return (1.0 + root + root * root / 3.0) * np.exp(-root)


def _matern_slope(squares: np.ndarray, _: np.ndarray) -> np.ndarray:
    root = np.sqrt(5.0 * squares)
    return -5.0 / 6.0 * (1.0 + root) * np.exp(-root)


def _exponential(squares: np.ndarray) -> np.ndarray:
    """Matérn, ν = 1/2 (Eq. 4.18): continuous but not smooth."""
    return np.exp(-np.sqrt(squares))


def _exponential_slope(squares: np.ndarray, values: np.ndarray) -> np.ndarray:
    return -0.5 * values / np.maximum(np.sqrt(squares), 1e-4)  # infinite at 0, but used times the square


matern = Correlation(_matern, _matern_slope)
exponential = Correlation(_exponential, _exponential_slope)


class Smooth(NamedTuple):
    """The variances of the joint and the additive smooth part, and the rate of each feature."""

    joint: float
    additive: float
    rates: np.ndarray  # [d], 1 / length²
    correlation: Correlation = matern

    def covariance(
        self, points: np.ndarray, others: np.ndarray, weights: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the covariance between values at points [m, d] and others [k, d]: [m, k].

        With weights [m] of the points, return their weighted sum [k]. Features mostly have few values, so the
        additive part is computed once a distinct value.
        """

        def correlated(squares: np.ndarray, variance: float) -> np.ndarray:
            values = self.correlation.of(squares)
            values *= variance
            return values if weights is None else values @ weights

        left, right = points * np.sqrt(self.rates), others * np.sqrt(self.rates)
        norms, parts = (left**2).sum(1), []
        for feature, rate in enumerate(self.rates):
            values, which = np.unique(others[:, feature], return_inverse=True)
            squares = rate * (values[:, None] - points[:, feature]) ** 2
            parts.append((correlated(squares, self.additive / len(self.rates)), which))
        total = np.empty((len(others), *((len(points),) if weights is None else ())))
        for start in range(0, len(others), ROWS):
            some = slice(start, start + ROWS)
            distance = right[some] @ left.T
            distance *= -2.0
            distance += norms
            distance += (right[some] ** 2).sum(1)[:, None]
            total[some] = correlated(np.maximum(distance, 0.0, out=distance), self.joint)
            for part, which in parts:
                total[some] += part[which[some]]
        return total.T


def negative_log_likelihood(square: Any, cholesky: np.ndarray) -> float:
    """Negative log likelihood of values y of mean 0, up to a constant (Eq. 2.30).

    `square` is y K⁻¹ y, and `cholesky` [n, n] the factor of their covariance K.
    """
    return float(square / 2 + np.log(np.diag(cholesky)).sum())


class Posterior(NamedTuple):
    """A process of mean 0 conditioned on n noisy values."""

    cholesky: np.ndarray  # [n, n] lower factor of the covariance of the known points
    whitened: np.ndarray  # [n]

    @staticmethod
    def of(covariance: np.ndarray, values: np.ndarray) -> "Posterior":
        """Condition on `values` [n] with that `covariance` [n, n], noise included."""
        cholesky = np.linalg.cholesky(covariance)
        return Posterior(cholesky, _solve(cholesky, values))

    @property
    def weights(self) -> np.ndarray:
        """K⁻¹ y, [n]: the mean at other points is their covariance with the known ones times this."""
        return _solve(self.cholesky, self.whitened, transposed=True)

    def explained(self, across: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Predict m other points from their covariance `across` [n, m] with the known values.

        Returns their mean [m] (Eq. 2.23), and a factor [n, m] whose square is the explained part of their
        covariance (Eq. 2.24).
        """
        factor = _solve(self.cholesky, across)
        return self.whitened @ factor, factor

    def left_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Leave-one-out residual of each known value, and its variance: [n] (Eqs. 5.10-5.12)."""
        variance = 1.0 / (_solve(self.cholesky, np.eye(len(self.whitened))) ** 2).sum(0)
        return self.weights * variance, variance  # 1 over the diagonal of K⁻¹


def _solve(cholesky: np.ndarray, right: np.ndarray, transposed: bool = False) -> np.ndarray:
    """Solve `cholesky x = right` for x, or with the factor transposed."""
    return solve_triangular(cholesky, right, lower=True, trans=int(transposed), check_finite=False)


class Points(NamedTuple):
    """N points: the features of the smooth function, and those of the linear one."""

    position: np.ndarray  # [N, d]
    slopes: np.ndarray  # [N, p]

    def rows(self, index: np.ndarray | list[int]) -> "Points":
        """Select points by index."""
        return Points(self.position[index], self.slopes[index])


class Hyperparameters(NamedTuple):
    """Normal priors of the log variances of PARTS, then of each feature's log rate."""

    middles: np.ndarray  # [PARTS + d]
    widths: np.ndarray


@dataclass(frozen=True)
class Process:
    """A process of mean 0 with its hyperparameters, conditioned on values at n points."""

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
        """The process conditioned on the values."""
        known = self.before(self.points, self.points) + self.noise * np.eye(len(self.values))
        return Posterior.of(known, self.values)

    def predict(self, points: Points) -> tuple[np.ndarray, np.ndarray]:
        """Predict mean and variance of the function at m other points, without noise."""
        mean, factor = self._explained(points)
        joint, additive, linear = np.exp(self.settings[:3])
        prior = joint + additive + linear * np.einsum("ij,ij->i", points.slopes, points.slopes)
        return mean, np.maximum(prior - np.einsum("ij,ij->j", factor, factor), 0.0)

    def covariance(self, points: Points, others: Points) -> np.ndarray:
        """Posterior covariance [m, k] of the function, without noise."""
        return self.before(points, others) - self._explained(points)[1].T @ self._explained(others)[1]

    def before(self, points: Points, others: Points) -> np.ndarray:
        """Prior covariance [m, k] of the function, without noise."""
        joint, additive, linear = np.exp(self.settings[:3])
        smooth = Smooth(joint, additive, np.exp(self.settings[PARTS:]), self.correlation)
        covariance = smooth.covariance(points.position, others.position)
        covariance += (others.slopes @ (linear * points.slopes).T).T
        return covariance

    def _explained(self, points: Points) -> tuple[np.ndarray, np.ndarray]:
        return self.posterior.explained(self.before(self.points, points))


def fitted(
    points: Points,
    values: np.ndarray,
    prior: Hyperparameters,
    start: np.ndarray | None = None,
    correlation: Correlation = matern,
) -> tuple[Process, float]:
    """Fit the hyperparameters to `values` [n]; return the process and its negative log density."""
    unit, squares = np.eye(len(values)), (points.position[:, None] - points.position) ** 2
    linear = points.slopes @ points.slopes.T

    def cost(settings: np.ndarray) -> tuple[float, np.ndarray]:
        variances, rates = np.exp(settings[:PARTS]), np.exp(settings[PARTS:])
        distance, apart = squares @ rates, squares * rates
        joint, additive = correlation.of(distance), correlation.of(apart)
        parts = joint, additive.mean(-1), linear, unit
        covariance = sum(v * part for v, part in zip(variances, parts, strict=True)) + JITTER * unit
        try:
            cholesky = np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:
            return 1e10, np.zeros_like(settings)
        inverse = np.linalg.inv(covariance)
        weights = inverse @ values
        outer = (inverse - np.outer(weights, weights)) / 2  # Eq. 5.9
        slope = variances[0] * correlation.slope(distance, joint)[:, :, None]
        slope = slope + variances[1] / len(rates) * correlation.slope(apart, additive)
        deviation = (settings - prior.middles) / prior.widths
        gradient = deviation / prior.widths
        gradient[:PARTS] += [v * (outer * part).sum() for v, part in zip(variances, parts, strict=True)]
        gradient[PARTS:] += rates * np.einsum("ij,ijk,ijk->k", outer, slope, squares)
        likelihood = negative_log_likelihood(values @ weights, cholesky)
        return likelihood + float(deviation @ deviation) / 2, gradient

    bounds = [(-12, 5)] * 3 + [(np.log(1e-7), 1)] + [(-9, 4)] * squares.shape[-1]
    begin, options = prior.middles if start is None else start, {"maxiter": STEPS, "ftol": 1e-4}
    best = minimize(cost, begin, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return Process(points, values, best.x, correlation), float(best.fun)
