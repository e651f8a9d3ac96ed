"""The Gaussian process against one in plain NumPy, written from the docstring."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dse.explore.fit import surrogate
from dse.explore.fit.surrogate import (
    FEWEST,
    OFFSET,
    SLOW,
    Points,
    Scales,
    conditioned,
    fitted,
    positions,
    prior,
)

M, N, D, P = 12, 20, 2, 3  # measured, others, tuning parameters, GPU parameters
JOINT, SINGLE, NOISE, LENGTHS = 0.3, 0.2, 0.05, np.array([0.7, 0.4])


def matern(r):
    return (1 + np.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-np.sqrt(5) * r)


def covariance(a, b, slopes_a, slopes_b, joint=JOINT, single=SINGLE):
    """Of log t - log f at two lists of configurations, one pair at a time."""
    found = np.zeros((len(a), len(b)))
    for i, j in np.ndindex(found.shape):
        apart = np.abs(a[i] - b[j]) / LENGTHS
        found[i, j] = OFFSET**2 + slopes_a[i] @ slopes_b[j]
        found[i, j] += joint**2 * matern(np.sqrt(np.sum(apart**2)))
        found[i, j] += single**2 * np.mean([matern(x) for x in apart])
    return found


def process(seen, off, others, slopes, other_slopes):
    """Mean and standard deviation of others after what is off by so much."""
    inverse = np.linalg.inv(covariance(seen, seen, slopes, slopes) + NOISE**2 * np.eye(len(seen)))
    across = covariance(others, seen, other_slopes, slopes)
    own = np.diag(covariance(others, others, other_slopes, other_slopes))
    return across @ inverse @ off, np.sqrt(own - np.sum(across @ inverse * across, axis=1))


@pytest.fixture(scope="module")
def scales():
    return Scales(
        jnp.asarray(np.log(JOINT)),
        jnp.asarray(np.log(SINGLE)),
        jnp.asarray(np.log(NOISE)),
        jnp.asarray(np.log(LENGTHS)),
    )


@pytest.fixture(scope="module")
def data():
    random = np.random.default_rng(1)
    seen, others = random.uniform(size=(M, D)), random.uniform(size=(N, D))
    slopes, other_slopes = random.normal(size=(M, P)) * 0.3, random.normal(size=(N, P)) * 0.3
    return seen, random.normal(size=M) * 0.2 + 3.0, others, slopes, other_slopes


def test_prediction(scales, data):
    seen, off, others, slopes, other_slopes = data
    mean, deviation = conditioned(scales, Points(seen, slopes), off)(Points(others, other_slopes))
    middle = np.median(off)  # only what is off it is a Gaussian process
    expected, spread = process(seen, off - middle, others, slopes, other_slopes)
    np.testing.assert_allclose(mean, middle + expected, rtol=1e-8)
    np.testing.assert_allclose(deviation, spread, rtol=1e-7)


def test_padding_changes_nothing(scales, data, monkeypatch):
    seen, off, others, slopes, other_slopes = data
    answers = []
    for room in (FEWEST, 2 * FEWEST):
        monkeypatch.setattr(surrogate, "FEWEST", room)
        found = conditioned(scales, Points(seen, slopes), off)
        assert found.posterior.cholesky.shape == (room, room)
        answers.append([*found(Points(others, other_slopes)), found.left_out(), found.gpu_parameters()])
    for one, other in zip(*answers, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    monkeypatch.undo()
    full = conditioned(scales, Points(np.tile(seen, (2, 1))[:16], np.tile(slopes, (2, 1))[:16]), np.ones(16))
    assert np.asarray(full.there).all()


def test_left_out_is_a_refit_without_each(scales, data):
    seen, off, _, slopes, _ = data
    found = conditioned(scales, Points(seen, slopes), off).left_out()
    centred = off - np.median(off)
    expected = []
    for i in range(M):
        rest = np.arange(M) != i
        mean, deviation = process(seen[rest], centred[rest], seen[[i]], slopes[rest], slopes[[i]])
        expected.append((centred[i] - mean[0]) / np.hypot(deviation[0], NOISE))
    assert found.shape == (M,)
    np.testing.assert_allclose(found, expected, rtol=1e-7)


def test_gpu_parameters_are_recovered(data):
    """Where the model misses nothing but them."""
    seen, _, _, _, _ = data
    slopes = np.random.default_rng(2).normal(size=(M, P))
    planted = np.array([0.5, -1.0, 0.2])
    small = jnp.asarray(np.log(1e-4))
    scales = Scales(small, small, small, jnp.asarray(np.log(LENGTHS)))
    found = conditioned(scales, Points(seen, slopes), np.clip(slopes @ planted, -3, 3))
    np.testing.assert_allclose(found.gpu_parameters(), planted, rtol=1e-3)


def test_far_too_slow_counts_as_slow(scales, data):
    seen, off, others, slopes, other_slopes = data
    off = np.sort(off)
    far = np.where(np.arange(M) == M - 1, off + 50.0, off)
    middle = np.median(off)
    limit = middle + max(SLOW, 3 * 1.4826 * np.median(np.abs(off - middle)))
    mean, _ = conditioned(scales, Points(seen, slopes), far)(Points(others, other_slopes))
    expected, _ = process(seen, np.minimum(far, limit) - middle, others, slopes, other_slopes)
    np.testing.assert_allclose(mean, middle + expected, rtol=1e-8)
    # nor does SLOW cut what lies within it where all others agree
    level = np.where(np.arange(M) == 0, 0.9 * SLOW, 0.0)
    above, _ = conditioned(scales, Points(seen, slopes), level)(Points(seen, slopes))
    expected, _ = process(seen, level, seen, slopes, slopes)
    np.testing.assert_allclose(above, expected, atol=1e-9)
    fast, _ = conditioned(scales, Points(seen, slopes), -10 * level)(Points(seen, slopes))
    np.testing.assert_allclose(fast, -10 * expected, atol=1e-8)  # what is fast is never cut


def test_fitted_scales_are_the_most_probable(data):
    """No step along any of them leads to a higher density, by the density in plain NumPy."""
    seen, _, _, slopes, _ = data
    random = np.random.default_rng(5)
    truth = covariance(seen, seen, slopes, slopes) + NOISE**2 * np.eye(M)
    off = np.linalg.cholesky(truth) @ random.normal(size=M)
    before = prior(D, 0.3)
    with jax.enable_x64(True):
        found = fitted(before, before.mean, Points(seen, slopes), off).scales
    clipped = off - np.median(off)
    clipped = np.minimum(clipped, max(SLOW, 3 * 1.4826 * np.median(np.abs(clipped))))

    def flat(scales):
        return np.concatenate([np.atleast_1d(x) for x in jax.tree.leaves(scales)])

    mean, deviation = flat(before.mean), flat(before.deviation)

    def unlikely(at):
        joint, single, noise, *lengths = np.exp(at)
        r = np.abs(seen[:, None] - seen[None]) / np.array(lengths)
        c = OFFSET**2 + slopes @ slopes.T + joint**2 * matern(np.sqrt(np.sum(r**2, axis=-1)))
        c += single**2 * np.mean(matern(r), axis=-1) + noise**2 * np.eye(M)
        own = 0.5 * clipped @ np.linalg.solve(c, clipped) + 0.5 * np.linalg.slogdet(c)[1]
        return own + 0.5 * np.sum(((at - mean) / deviation) ** 2)

    at = flat(found)
    assert unlikely(at) < unlikely(mean)
    for step in (*np.eye(len(at)), *-np.eye(len(at))):
        assert unlikely(at) < unlikely(at + 0.1 * step)


def test_positions():
    found = positions(
        {
            "logs": np.array([1, 2, 4, 16]),
            "constant": np.array([7, 7, 7, 7]),
            "words": np.array(["b", "c", "a", "a"]),
            "with_zero": np.array([0, 100, 1, 0]),
            "flag": np.array([True, False, True, True]),
        }
    )
    expected = [[0, 0.5, 0, 1], [0.25, 1, 1, 0], [0.5, 0, 0.5, 1], [1, 0, 0, 1]]
    np.testing.assert_allclose(found, expected, atol=1e-15)
    np.testing.assert_array_equal(positions({"a": np.array([3, 3])}), [[0.0], [0.0]])
