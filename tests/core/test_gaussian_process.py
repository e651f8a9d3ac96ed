"""The shared parts against the textbook's formulas, one number at a time, in NumPy and in JAX."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from dse.core.gaussian_process import Posterior, Smooth, matern, unlikeliness

N, M, D = 9, 5, 3
RANDOM = np.random.default_rng(0)
SEEN, OTHERS, VALUES = RANDOM.normal(size=(N, D)), RANDOM.normal(size=(M, D)), RANDOM.normal(size=N)
SMOOTH = Smooth(0.7, 0.4, np.array([0.5, 2.0, 0.1]))
NOISE = 0.05


def correlation(square: float) -> float:
    r = np.sqrt(5 * square)
    return (1 + r + r**2 / 3) * np.exp(-r)


def covariance(points: np.ndarray, others: np.ndarray) -> np.ndarray:
    whole = np.zeros((len(points), len(others)))
    for i, j in np.ndindex(whole.shape):
        squares = SMOOTH.rates * (points[i] - others[j]) ** 2
        whole[i, j] = SMOOTH.together * correlation(squares.sum())
        whole[i, j] += SMOOTH.single * np.mean([correlation(square) for square in squares])
    return whole


def known() -> np.ndarray:
    return covariance(SEEN, SEEN) + NOISE * np.eye(N)


@pytest.mark.parametrize("xp", [np, jnp], ids=["numpy", "jax"])
class TestParts:
    def test_covariance(self, xp):
        found = SMOOTH.covariance(xp.asarray(SEEN), xp.asarray(OTHERS), xp)
        np.testing.assert_allclose(found, covariance(SEEN, OTHERS), rtol=1e-9)
        assert SMOOTH.variance == pytest.approx(covariance(SEEN[:1], SEEN[:1])[0, 0])

    def test_prediction(self, xp):
        posterior = Posterior.of(xp.asarray(known()), xp.asarray(VALUES), xp)
        across = covariance(SEEN, OTHERS)
        mean, factor = posterior.explained(xp.asarray(across))
        np.testing.assert_allclose(mean, across.T @ np.linalg.solve(known(), VALUES))
        np.testing.assert_allclose(factor.T @ factor, across.T @ np.linalg.solve(known(), across))
        np.testing.assert_allclose(across.T @ posterior.weights, mean)

    def test_likelihood(self, xp):
        posterior = Posterior.of(xp.asarray(known()), xp.asarray(VALUES), xp)
        found = unlikeliness(posterior.whitened @ posterior.whitened, posterior.cholesky, xp)
        prior: Any = multivariate_normal  # its stubs take a number only for the covariance
        expected = -prior.logpdf(VALUES, np.zeros(N), known()) - N / 2 * np.log(2 * np.pi)
        assert float(found) == pytest.approx(expected)

    def test_left_out_is_what_others_tell_without_each(self, xp):
        above, variance = Posterior.of(xp.asarray(known()), xp.asarray(VALUES), xp).left_out(xp)
        for i in range(N):
            rest = np.arange(N) != i
            across = known()[i, rest]
            inverse = np.linalg.inv(known()[np.ix_(rest, rest)])
            assert float(above[i]) == pytest.approx(VALUES[i] - across @ inverse @ VALUES[rest])
            assert float(variance[i]) == pytest.approx(known()[i, i] - across @ inverse @ across)

    def test_derivative_of_the_correlation(self, xp):
        squares = xp.asarray([0.01, 0.3, 2.0])
        above, below = matern(squares + 1e-6, xp)[0], matern(squares - 1e-6, xp)[0]
        np.testing.assert_allclose(matern(squares, xp)[1], (above - below) / 2e-6, rtol=1e-5)


def test_the_gradient_is_finite_where_points_coincide():
    slope = jax.grad(
        lambda rate: Smooth(1.0, 1.0, rate[None]).covariance(jnp.ones((2, 1)), jnp.ones((2, 1)), jnp).sum()
    )
    assert np.isfinite(slope(jnp.asarray(2.0)))
