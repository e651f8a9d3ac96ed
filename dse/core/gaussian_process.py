"""Gaussian processes: the parts that all of them here are made of, for arrays of NumPy and of JAX (`xp`).

A process is a smooth function of d features, what its user adds that is linear in others, and noise. The
smooth function has a covariance that falls with the distance in all features together, and one that falls
with the distance in each by itself, since what is measured is mostly a product of what single parameters do.

Source: Rasmussen & Williams, Gaussian Processes for Machine Learning, 2006: Eqs. 2.23-2.25 (prediction), 2.30
(likelihood), 4.17 (Matérn, ν = 5/2), 5.10-5.12 (leave-one-out).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg


def matern(squares: Any, xp: Any) -> tuple[Any, Any]:
    """Return the correlation at a squared distance, ν = 5/2 (Eq. 4.17), and its derivative by that square."""
    root = xp.sqrt(5.0 * squares + (1e-12 if xp is jnp else 0.0))  # JAX needs a finite gradient at 0
    fall = xp.exp(-root)
    return (1.0 + root + root * root / 3.0) * fall, -5.0 / 6.0 * (1.0 + root) * fall


class Smooth(NamedTuple):
    """The variances of the two parts of a smooth function, and how fast it changes with each feature."""

    together: Any
    single: Any
    rates: Any  # [d], 1 / length²

    def covariance(self, points: Any, others: Any, xp: Any) -> Any:
        """Return the covariance between values at points [m, d] and others [k, d]: [m, k]."""
        features = points.shape[1]
        distance = single = xp.zeros((len(points), len(others)))
        for feature in range(features):
            squares = self.rates[feature] * (points[:, feature, None] - others[None, :, feature]) ** 2
            single = single + matern(squares, xp)[0]
            distance = distance + squares
        return self.together * matern(distance, xp)[0] + self.single / features * single

    @property
    def variance(self) -> Any:
        """The variance at any point."""
        return self.together + self.single


def unlikeliness(square: Any, cholesky: Any, xp: Any) -> Any:
    """Return minus the log of the likelihood of values y of mean 0, up to a constant (Eq. 2.30).

    `square` is y K⁻¹ y, where `cholesky` [n, n] is the factor of their covariance K.
    """
    return square / 2 + xp.log(xp.diag(cholesky)).sum()


class Posterior(NamedTuple):
    """A process of mean 0 whose value is known at n points, with noise."""

    cholesky: Any  # [n, n] lower factor of the covariance of what is known
    whitened: Any  # [n]

    @staticmethod
    def of(covariance: Any, values: Any, xp: Any) -> "Posterior":
        """Condition on `values` [n] with that `covariance` [n, n], noise included."""
        cholesky = xp.linalg.cholesky(covariance)
        return Posterior(cholesky, _solve(cholesky, values))

    @property
    def weights(self) -> Any:
        """The weights of known values: times the covariance with others they give these their mean, [n]."""
        return _solve(self.cholesky, self.whitened, transposed=True)

    def explained(self, across: Any) -> tuple[Any, Any]:
        """Predict other points from the covariance `across` [n, m] of known values and these.

        Returns their mean [m] (Eq. 2.23), and a factor [n, m] whose square is the part of their covariance
        that is explained (Eq. 2.24).
        """
        factor = _solve(self.cholesky, across)
        return factor.T @ self.whitened, factor

    def left_out(self, xp: Any) -> tuple[Any, Any]:
        """Return each known value less its mean after all others, and the variance of that: [n]."""
        unit = xp.eye(len(self.whitened))
        variance = 1.0 / (_solve(self.cholesky, unit) ** 2).sum(0)  # 1 over the diagonal of K⁻¹
        return self.weights * variance, variance


def _solve(cholesky: Any, right: Any, transposed: bool = False) -> Any:
    """The solution x of `cholesky x = right`, or of that with the factor transposed."""
    linalg: Any = scipy.linalg if isinstance(cholesky, np.ndarray) else jax.scipy.linalg
    return linalg.solve_triangular(
        cholesky, right, lower=True, trans="T" if transposed else 0, check_finite=False
    )
