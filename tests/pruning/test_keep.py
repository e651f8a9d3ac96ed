"""What is kept, in spaces that are known, and how often a nearly fastest configuration is among it."""

import itertools

import numpy as np
import pytest
from scipy.stats import norm, t

from dse.errors import DseError
from dse.pruning.calibration import KnownSpace, KnownSpaces, load
from dse.pruning.keep import FEWEST, SPREADS, first, keep, lower_end, reach
from dse.tuning.candidates import Candidates, bare
from dse.tuning.tuner import Tuner

SIDE = 8
A, B = (axis.ravel() for axis in np.meshgrid(2 ** np.arange(SIDE), 2 ** np.arange(SIDE), indexing="ij"))
N = len(A)
X_Y = np.log2(np.column_stack([A, B])) / (SIDE - 1)
SHALLOW = KnownSpaces(  # one is "the first" in a space this small
    "none",
    0.05,
    50,
    1,
    tuple(KnownSpace("s", "k", "g", 10**6, deep, deep) for deep in (1e-6, 1.1e-6, 0.9e-6)),
)
TELL = 16


def candidates(log_s, possible=None, modelled=True):
    base = bare({"a": A, "b": B})
    possible = np.ones(N, bool) if possible is None else possible
    return Candidates(base.parameters, base.position, log_s, np.zeros((N, 1)), possible, modelled)


def space(random):
    """Predicted and true times: what the model misses is such as the surrogate takes it to be."""
    apart = np.abs(X_Y[:, None] - X_Y[None])

    def matern(r):
        return (1 + np.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-np.sqrt(5) * r)

    covariance = matern(np.sqrt(np.sum((apart / 0.6) ** 2, axis=-1))) + matern(apart / 0.6).mean(axis=-1)
    predicted = -7 + 0.5 * random.normal(size=2) @ X_Y.T + 0.3 * np.sin(6 * X_Y[:, 0] + random.uniform())
    missed = 0.3 * np.linalg.cholesky(covariance + 1e-9 * np.eye(N)) @ random.normal(size=N)
    return predicted, predicted + missed + 0.02 * random.normal(size=N)


@pytest.fixture(scope="module")
def spaces():
    """With some measurements of each, taken at random."""
    random = np.random.default_rng(3)
    found = []
    for _ in range(40):
        predicted, true = space(random)
        places = random.permutation(N)[:TELL].tolist()
        found.append((candidates(predicted), true, {place: float(np.exp(true[place])) for place in places}))
    return found


def test_a_nearly_fastest_one_is_kept_in_most_spaces(spaces):
    hits, shares = [], []
    for some, true, told in spaces:
        kept = keep(some, 0.1, 0.05, told, SHALLOW)
        hits.append(true[kept.places].min() <= true.min() + np.log(1.05))
        shares.append(kept.share)
        assert kept.spreads is not None
        assert kept.spreads >= SPREADS
        assert kept.share == len(kept.places) / N
    assert np.mean(hits) >= 0.85
    assert np.mean(shares) < 0.5  # and that by leaving out most


def test_what_measurements_leave_possible(spaces):
    """The lower ends by the tuner's own prediction."""
    some, _, told = spaces[0]
    kept = keep(some, 0.1, 0.05, told, SHALLOW)
    tuner = Tuner(some, told=told)
    mean, deviation = tuner.predict()
    off = -np.sort(tuner.fit().left_out())[::-1]
    quantile = sorted(-tuner.fit().left_out())[int(np.ceil(0.9 * (TELL + 1))) - 1]
    spreads = max(SPREADS, quantile)
    assert kept.spreads == pytest.approx(spreads)
    assert len(off) == TELL
    lower = mean - spreads * deviation
    could = lower <= np.log(min(told.values()) / 1.05)
    could[[lower.argmin(), some.log_s.argmin(), min(told, key=lambda place: told[place])]] = True
    assert set(kept.places) == set(np.flatnonzero(could))
    assert np.all(np.diff(lower[kept.places]) >= 0)  # the most promising first


def test_a_smaller_risk_keeps_more(spaces):
    some, _, told = spaces[1]
    for measured in (None, told):
        sets = [set(keep(some, risk, 0.05, measured).places) for risk in (0.01, 0.05, 0.2, 0.9)]
        for more, less in itertools.pairwise(sets):
            assert more >= less
        assert len(sets[0]) > len(sets[-1]) >= 1
    for within in (0.01, 0.2):
        assert set(keep(some, 0.05, within, told).places) >= set(keep(some, 0.05, 0.5, told).places)


def test_without_measurements_the_first_by_the_model():
    log_s = np.random.default_rng(0).normal(size=N)
    kept = keep(candidates(log_s), 0.05)
    assert kept.spreads is None
    assert kept.depth == reach(load().by_model, 0.05)
    np.testing.assert_array_equal(kept.places, np.argsort(log_s)[: int(np.ceil(kept.depth * N))])
    few = dict.fromkeys(range(FEWEST - 1), 1.0)
    np.testing.assert_array_equal(keep(candidates(log_s), 0.05, 0.05, few).places, kept.places)


def test_equal_predictions_are_kept_or_left_out_together():
    steps = np.repeat(np.arange(8.0), 8)
    for risk in (0.01, 0.05, 0.3, 0.9):
        kept = keep(candidates(steps), risk)
        assert len(kept.places) % 8 == 0
        assert len(kept.places) >= 8
    assert len(keep(candidates(np.zeros(N)), 0.9).places) == N


def test_what_cannot_run_or_failed_is_left_out(spaces):
    log_s, _ = space(np.random.default_rng(1))
    best = int(log_s.argmin())
    possible = np.arange(N) != best
    assert best not in keep(candidates(log_s, possible), 0.01).places
    some, _true, told = spaces[2]
    places = keep(some, 0.05, 0.05, told).places.tolist()
    failed = next(place for place in places if place not in told)
    after = keep(some, 0.05, 0.05, told | {failed: np.inf}).places
    assert failed not in after
    assert len(after)
    with pytest.raises(DseError, match="configurations: found none that is possible"):
        keep(candidates(log_s, np.zeros(N, bool), modelled=True))
    with pytest.raises(DseError, match="found none"):
        keep(candidates(log_s), told=dict.fromkeys(range(N), np.inf))


def test_only_one_that_is_possible_is_kept():
    for place in (0, 63):
        possible = np.arange(N) == place
        assert keep(candidates(np.zeros(N), possible), 0.9).places.tolist() == [place]


def test_the_fastest_that_ran_is_kept_whatever_the_model_holds(spaces):
    some, _, told = spaces[3]
    best = min(told, key=lambda place: told[place])
    told = told | {best: 0.5 * told[best]}
    possible = np.arange(N) != best
    kept = keep(candidates(some.log_s, possible), 0.05, 0.05, told)
    assert best in kept.places


def test_without_a_model_measurements_are_needed(spaces):
    _, _true, told = spaces[4]
    blind = candidates(np.zeros(N), modelled=False)
    few = dict(list(told.items())[: FEWEST - 1]) | {63: np.inf}
    with pytest.raises(DseError, match=f"found {len(few) - (63 in few)} that ran and no model, expected 10"):
        keep(blind, told=few)
    kept = keep(blind, 0.05, 0.05, told)
    assert 0 < kept.share < 1
    assert min(told, key=lambda place: told[place]) in kept.places


@pytest.mark.parametrize("share", [0.0, 1.0, 2.0, -0.1])
def test_shares_that_are_none(share):
    with pytest.raises(DseError, match=f"risk: found {share}, expected a share between 0 and 1"):
        keep(candidates(np.zeros(N)), risk=share)
    with pytest.raises(DseError, match=f"within: found {share}"):
        keep(candidates(np.zeros(N)), within=share)


def test_reach_is_a_predictive_quantile():
    """By hand for two spaces, by SciPy for the measured ones; and it holds what it says."""
    # logs -2 and -4: mean -3, deviation √2, t of one degree of freedom is tan(π (p - 1/2))
    found = reach((np.exp(-2), np.exp(-4)), 0.25)
    assert found == pytest.approx(np.exp(-3 + 1.0 * np.sqrt(2) * np.sqrt(1.5)))
    for depths in (load().by_model, load().refitted):
        logs = np.log(depths)
        of_next = t(len(logs) - 1, logs.mean(), logs.std(ddof=1) * np.sqrt(1 + 1 / len(logs)))
        for risk, rank in ((0.05, 7), (0.2, 7), (0.3, 6), (0.7, 3)):  # rank: 8 (1 - risk), rounded up
            deeper = max(np.exp(of_next.ppf(1 - risk)), sorted(depths)[rank - 1])
            assert reach(depths, risk) == pytest.approx(deeper)
    assert reach(load().by_model, 0.001) == 1.0
    random = np.random.default_rng(0)
    draws = np.exp(random.normal(-9, 1, size=(400, 6)))
    over = [draw[5] > reach(tuple(draw[:5]), 0.2) for draw in draws]
    assert 0.1 < np.mean(over) < 0.2


def test_lower_end_is_the_conformal_quantile():
    off = np.arange(1.0, 20.0) / 2  # 19 measurements, each below what the others say
    assert lower_end(-off, 0.1) == off[17]  # the 18th of 19: ceil(0.9 · 20)
    assert lower_end(-off, 0.01) == off[18]  # none is low enough: the last
    assert lower_end(off, 0.1) == SPREADS  # all above: SPREADS at least
    random = np.random.default_rng(0)
    ends = [lower_end(random.normal(size=19), 0.05) for _ in range(500)]
    c = norm.cdf(SPREADS)  # the largest of 19 uniform numbers, but this at least
    assert np.mean(norm.cdf(ends)) == pytest.approx(0.95 * (1 - c**20) + c**20, abs=0.005)


def test_first():
    order = np.array([3.0, 1.0, 1.0, 2.0, np.inf])
    assert first(order, 0.0).tolist() == [False, True, True, False, False]  # one at least, and its equal
    assert first(order, 0.6).tolist() == [False, True, True, True, False]
    assert first(order, 0.61).sum() == 4
