"""What the surrogate learns of measurements, and where configurations are for it."""

import numpy as np
import pytest

from dse.core.gaussian_process import Points, Process, exponential
from dse.explore.fit.surrogate import SLOW, learnt, positions, prior

M, N, D, P = 12, 20, 2, 3  # measured, others, tuning parameters, slopes
RANDOM = np.random.default_rng(1)
SEEN = Points(RANDOM.uniform(size=(M, D)), RANDOM.normal(size=(M, P)) * 0.3)
OTHERS = Points(RANDOM.uniform(size=(N, D)), RANDOM.normal(size=(N, P)) * 0.3)
OFF = np.sort(RANDOM.normal(size=M) * 0.2 + 3.0)
SCALES = prior(D).middles


def expected(off, level):
    """Mean and deviation by a process that knows what is off some level."""
    mean, variance = Process(SEEN, off - level, SCALES, exponential).predict(OTHERS)
    return level + mean, np.sqrt(variance)


@pytest.mark.parametrize("absolute", [False, True])
def test_what_is_off_its_median_is_learnt_or_off_what_was_expected(absolute):
    actual = learnt(SEEN, OFF, absolute, SCALES, fit=False)
    for single, other in zip(actual(OTHERS), expected(OFF, 0.0 if absolute else np.median(OFF)), strict=True):
        np.testing.assert_allclose(single, other)
    assert actual.rough == pytest.approx(np.exp(SCALES[3] / 2), rel=1e-4)


def test_far_too_slow_counts_as_slow():
    middle = np.median(OFF)
    far = np.where(np.arange(M) == M - 1, OFF + 50.0, OFF)
    limit = middle + max(SLOW, 3 * 1.4826 * np.median(np.abs(OFF - middle)))
    mean, _ = learnt(SEEN, far, scales=SCALES, fit=False)(OTHERS)
    np.testing.assert_allclose(mean, expected(np.minimum(far, limit), middle)[0], rtol=1e-9)
    # nor does SLOW cut what is within it where all others agree, and what is fast is never cut
    level = np.where(np.arange(M) == 0, 0.9 * SLOW, 0.0)
    for factor in (1.0, -10.0):
        mean, _ = learnt(SEEN, factor * level, scales=SCALES, fit=False)(OTHERS)
        np.testing.assert_allclose(mean, expected(factor * level, 0.0)[0], atol=1e-9)


def test_left_out_and_draws_are_those_of_the_process():
    actual = learnt(SEEN, OFF, scales=SCALES, fit=False)
    above, variance = actual.process.posterior.left_out()
    np.testing.assert_allclose(actual.left_out(), above / np.sqrt(variance))
    draws = actual.drawn(OTHERS, 20_000, np.random.default_rng(0))
    covariance = actual.process.covariance(OTHERS, OTHERS)
    np.testing.assert_allclose(draws.mean(0), 0.0, atol=0.02)
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.02)


@pytest.mark.parametrize(("slope", "taken"), [(0, False), (P - 1, True)])
def test_slopes_that_are_doubted_count_only_where_they_bring_others_nearer(slope, taken):
    off = SEEN.slopes[:, slope]
    actual = learnt(SEEN, off, scales=SCALES, fit=False, doubted=1)
    without = Points(SEEN.position, SEEN.slopes[:, :-1]), Points(OTHERS.position, OTHERS.slopes[:, :-1])
    whole, fewer = (learnt(seen, off, scales=SCALES, fit=False) for seen in (SEEN, without[0]))
    assert (whole.missed < fewer.missed) == taken
    for single, other in zip(actual(OTHERS), whole(OTHERS) if taken else fewer(without[1]), strict=True):
        np.testing.assert_allclose(single, other)
    two = learnt(SEEN.rows([0, 1]), off[:2], scales=SCALES, fit=False, doubted=1)
    assert two.process.points.slopes.shape == (2, P - 1)


def test_positions():
    actual = positions(
        {
            "logs": np.array([1, 2, 4, 16]),
            "constant": np.array([7, 7, 7, 7]),
            "words": np.array(["b", "c", "a", "a"]),
            "with_zero": np.array([0, 100, 1, 0]),
            "flag": np.array([True, False, True, True]),
        }
    )
    expected = [[0, 0.5, 0, 1], [0.25, 1, 1, 0], [0.5, 0, 0.5, 1], [1, 0, 0, 1]]
    np.testing.assert_allclose(actual, expected, atol=1e-15)
    np.testing.assert_array_equal(positions({"a": np.array([3, 3])}), [[0.0], [0.0]])
