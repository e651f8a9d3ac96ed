"""The parts against the textbook's formulas, one number at a time; fits against steps in each direction."""

import numpy as np
import pytest
from scipy.optimize import check_grad

from dse.core.gaussian_process import (
    PARTS,
    Hyperparameters,
    Points,
    Posterior,
    Process,
    exponential,
    fitted,
    matern,
)

N, M, D, P = 9, 5, 3, 2
RANDOM = np.random.default_rng(0)
SEEN = Points(RANDOM.normal(size=(N, D)), 0.3 * RANDOM.normal(size=(N, P)))
OTHERS = Points(RANDOM.normal(size=(M, D)), 0.3 * RANDOM.normal(size=(M, P)))
VALUES, RATES = RANDOM.normal(size=N), np.array([0.5, 2.0, 0.1])
TOGETHER, SINGLE, LINEAR, NOISE = 0.7, 0.4, 1.5, 0.05
SETTINGS = np.log([TOGETHER, SINGLE, LINEAR, NOISE, *RATES])


def smooth_in_r(square: float) -> float:
    r = np.sqrt(5 * square)
    return (1 + r + r**2 / 3) * np.exp(-r)


def rough_in_r(square: float) -> float:
    return np.exp(-np.sqrt(square))


CORRELATIONS = pytest.mark.parametrize(
    ("correlation", "of"), [(matern, smooth_in_r), (exponential, rough_in_r)], ids=["matern", "exponential"]
)


def covariance(points: Points, others: Points, of=smooth_in_r, settings=SETTINGS) -> np.ndarray:
    together, single, linear, _, *rates = np.exp(settings)
    whole = np.zeros((len(points.position), len(others.position)))
    for i, j in np.ndindex(whole.shape):
        squares = np.array(rates) * (points.position[i] - others.position[j]) ** 2
        whole[i, j] = together * of(squares.sum()) + single * np.mean([of(square) for square in squares])
        whole[i, j] += linear * points.slopes[i] @ others.slopes[j]
    return whole


def known(of=smooth_in_r) -> np.ndarray:
    return covariance(SEEN, SEEN, of) + NOISE * np.eye(N)


@CORRELATIONS
def test_prediction(correlation, of):
    process = Process(SEEN, VALUES, SETTINGS, correlation)
    across, before = covariance(SEEN, OTHERS, of), covariance(OTHERS, OTHERS, of)
    np.testing.assert_allclose(process.before(SEEN, OTHERS), across, rtol=1e-9)
    mean, variance = process.predict(OTHERS)
    left = before - across.T @ np.linalg.solve(known(of), across)
    np.testing.assert_allclose(mean, across.T @ np.linalg.solve(known(of), VALUES), rtol=1e-5)
    np.testing.assert_allclose(process.covariance(OTHERS, OTHERS), left, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(variance, np.diag(left), rtol=1e-5)
    np.testing.assert_allclose(across.T @ process.posterior.weights, mean, rtol=1e-9)


def test_left_out_is_what_others_tell_without_each():
    above, variance = Posterior.of(known(), VALUES).left_out()
    for i in range(N):
        rest = np.arange(N) != i
        across = known()[i, rest]
        inverse = np.linalg.inv(known()[np.ix_(rest, rest)])
        assert above[i] == pytest.approx(VALUES[i] - across @ inverse @ VALUES[rest])
        assert variance[i] == pytest.approx(known()[i, i] - across @ inverse @ across)


@CORRELATIONS
def test_derivative_of_the_correlation(correlation, of):
    squares = np.array([0.01, 0.3, 2.0])
    above, below = correlation.of(squares + 1e-6), correlation.of(squares - 1e-6)
    slope = correlation.slope(squares, correlation.of(squares))
    np.testing.assert_allclose(slope, (above - below) / 2e-6, rtol=1e-5)
    assert np.isfinite(correlation.slope(np.zeros(1), np.ones(1))).all()


@CORRELATIONS
def test_what_is_fitted_is_the_most_probable(correlation, of):
    """No step along any of the settings leads to a higher density, by the density one number at a time."""
    prior = Hyperparameters(SETTINGS, np.full(PARTS + D, 1.0))
    start = SETTINGS + 0.5
    process, unlikely = fitted(SEEN, VALUES, prior, start, correlation)

    def density(settings: np.ndarray) -> float:
        whole = covariance(SEEN, SEEN, of, settings) + np.exp(settings[3]) * np.eye(N)
        off = (settings - SETTINGS) @ (settings - SETTINGS) / 2
        return off + 0.5 * VALUES @ np.linalg.solve(whole, VALUES) + 0.5 * np.linalg.slogdet(whole)[1]

    assert unlikely == pytest.approx(density(process.settings), rel=1e-5)
    assert unlikely < density(start)
    for step in (*np.eye(PARTS + D), *-np.eye(PARTS + D)):
        assert unlikely < density(process.settings + 0.2 * step)
    slope = check_grad(density, lambda _: np.zeros(PARTS + D), process.settings)
    assert slope < 0.2  # where the search ended it is flat
