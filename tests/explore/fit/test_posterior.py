"""Samples of a normal density have its mean and its covariance."""

import jax
import jax.numpy as jnp
import numpy as np

from dse.explore.fit.posterior import sampled


def test_of_a_normal_density():
    mean, covariance = np.array([1.0, -2.0]), np.array([[4.0, 1.5], [1.5, 1.0]])
    precision = jnp.asarray(np.linalg.inv(covariance))

    def log_density(at):
        off = at - jnp.asarray(mean)
        return -0.5 * off @ precision @ off

    # far off, and as wide as the other way round: the walkers have to find the density
    walkers = jnp.asarray(np.random.default_rng(0).normal(size=(32, 2)) * [1.0, 2.0] + [3.0, 1.0])
    actual = np.asarray(sampled(log_density, walkers, 2_000, jax.random.key(1)))
    assert actual.shape == (1_000 * 32, 2)
    # some 30 steps are one independent walker: 1,000 draws, whose mean is off by 3 % of the deviation
    np.testing.assert_allclose(actual.mean(axis=0), mean, atol=0.25)
    np.testing.assert_allclose(np.cov(actual.T), covariance, rtol=0.2)
    left, right = actual.reshape(1_000, 2, 16, 2).swapaxes(0, 1)
    assert not (left == right).any()  # each half of the walkers has its turn
