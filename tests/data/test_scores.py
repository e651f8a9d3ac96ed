"""Scores against brute force: every subset, every order of equals, SciPy, and sums by hand."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from dse.data.scores import (
    budgets,
    fraction_of_optimum,
    mape,
    mape_shape,
    random_expectation,
    score,
    spearman,
)
from dse.errors import DseError

SOME = st.integers(1, 4).map(float)  # few values: many ties


@st.composite
def measured(draw, values=SOME):
    """Predictions, times, and which ran (one at least)."""
    n = draw(st.integers(1, 6))
    predicted = draw(st.lists(st.one_of(values, st.just(math.inf)), min_size=n, max_size=n))
    times = draw(st.lists(values, min_size=n, max_size=n))
    ok = draw(st.lists(st.booleans(), min_size=n, max_size=n).filter(any))
    return predicted, [t if o else math.nan for t, o in zip(times, ok, strict=True)], ok


def reached(chosen, times, ok):
    """Fraction of the optimum when just these are measured."""
    best = min(t for t, o in zip(times, ok, strict=True) if o)
    ran = [times[i] for i in chosen if ok[i]]
    return best / min(ran) if ran else 0.0


@given(measured(), st.integers(1, 7))
def test_fraction_is_the_mean_over_all_orders_of_equals(case, k):
    predicted, times, ok = case
    orders = [
        order
        for order in itertools.permutations(range(len(times)))
        if all(predicted[a] <= predicted[b] for a, b in itertools.pairwise(order))
    ]
    expected = np.mean([reached(order[:k], times, ok) for order in orders])
    np.testing.assert_allclose(fraction_of_optimum(predicted, times, ok, k), expected, rtol=1e-12)


@given(measured(), st.integers(1, 6))
def test_random_choice_is_the_mean_over_all_subsets(case, k):
    _, times, ok = case
    k = min(k, len(times))
    selected = itertools.combinations(range(len(times)), k)
    expected = np.mean([reached(item, times, ok) for item in selected])
    np.testing.assert_allclose(random_expectation(times, ok, k), expected, rtol=1e-12)


def test_random_choice_of_many():
    # One optimum, all others twice as slow: it is among k of n with probability k / n.
    n = 20_000
    times = np.full(n, 2.0)
    times[1234] = 1.0
    for k in (1, 10, 1000, 19_999, n):
        p = k / n
        np.testing.assert_allclose(random_expectation(times, None, k), p + (1 - p) / 2, rtol=1e-10)
    # Half of them fail: all of 3 fail with probability C(10000, 3) / C(20000, 3).
    ok = np.arange(n) % 2 == 0
    none = math.comb(10_000, 3) / math.comb(20_000, 3)
    np.testing.assert_allclose(random_expectation(np.ones(n), ok, 3), 1 - none, rtol=1e-10)


def assert_close(score: float | None, expected: float, rtol: float = 1e-7, atol: float = 0.0) -> None:
    assert score is not None
    np.testing.assert_allclose(score, expected, rtol=rtol, atol=atol)


def scipys(x: Any, y: Any) -> float:
    result: Any = spearmanr(x, y)
    return result.statistic


@given(measured())
def test_spearman_is_scipys(case):
    predicted, times, ok = case
    x, y = (np.array(values)[ok] for values in (predicted, times))
    if np.unique(x).size < 2 or np.unique(y).size < 2:
        assert spearman(x, y) is None
    else:
        assert_close(spearman(x, y), scipys(x, y), atol=1e-12)


def test_spearman_of_unknowns_and_of_nothing():
    assert spearman([1.0, 2.0, np.nan], [1.0, 2.0, 3.0]) == pytest.approx(1.0)
    assert spearman([1.0, np.nan, np.inf], [1.0, 3.0, 2.0]) == pytest.approx(math.sqrt(3) / 2)
    assert spearman([], []) is mape([], []) is None
    names = ("top_1", "top_10", "top_1_percent", "top_5_percent", "top_10_percent")
    assert budgets(4362) == dict(zip(names, (1, 10, 44, 219, 437), strict=True))
    assert budgets(3) == dict(zip(names, (1, 3, 1, 1, 1), strict=True))


@given(
    st.lists(st.tuples(*[st.floats(0.1, 10)] * 3), min_size=2, max_size=20).filter(
        lambda rows: len({round(x, 3) for *_, x in rows}) > 1
    )
)
def test_mape_shape_is_numpys_least_squares(rows):
    m, r, x = np.array(rows).T
    design = np.column_stack([x, np.ones_like(x)])
    (slope, offset), *_ = np.linalg.lstsq(design, m - r, rcond=None)
    expected = 100 * np.mean(np.abs(m - r - slope * x - offset) / r)
    assert_close(mape_shape(m, r, x), expected, rtol=1e-6, atol=1e-6)


def test_score_puts_it_together():
    predicted = np.array([1.0, 2.0, np.inf, 4.0, np.nan, 3.0])
    times = np.array([np.nan, 2.0, 1.0, 8.0, 10.0, 4.0])
    ok = np.array([False, True, True, True, True, True])
    occupancy = np.array([0.5, 0.5, 0.5, 1.0, 1.0, 0.5])
    scores = score(predicted, times, ok, occupancy)
    assert (scores.configurations, scores.failed, scores.unpredicted) == (6, 1, 2)
    assert_close(scores.mape_percent, 100 * (0 + 0.5 + 0.25) / 3)
    # errors 0, -4, -1 at 0.5, 1, 0.5: the line goes through -0.5 and -4
    assert_close(scores.mape_shape_percent, 100 * (0.5 / 2 + 0 / 8 + 0.5 / 4) / 3)
    assert_close(scores.spearman, scipys([2, 5, 4, 5, 3], times[1:]))
    assert scores.top_1 == 0.0  # the one that was predicted fastest failed
    assert scores.top_10 == 1.0
    assert scores.top_1_percent == scores.top_10_percent == 0.0
    assert fraction_of_optimum(predicted, times, ok, 2) == 0.5
    assert score(predicted, times, ok).mape_shape_percent is None
    assert score(predicted, times, None) == score(predicted, times, ok)
    # a row of unknown occupancy: errors 0, -4 at 0.5, 1 leave nothing beside the line
    unknown = np.array([0.5, 0.5, 0.5, 1.0, 1.0, np.nan])
    assert_close(score(predicted, times, ok, unknown).mape_shape_percent, 0, atol=1e-12)


def test_mistakes():
    with pytest.raises(DseError, match="found no configuration that ran"):
        score([1.0], [np.nan])
    with pytest.raises(ValueError, match="length"):
        score([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="at least 1"):
        random_expectation([1.0], None, 0)
