"""What is kept, in spaces that are known, and how often a nearly fastest configuration is among it."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2

from dse.errors import DseError
from dse.explore.prune.calibration import LEVELS, KnownSpace, KnownSpaces, load
from dse.explore.prune.keep import FEWEST, Explained, conformal, keep
from dse.explore.tune.candidates import Candidates, bare
from dse.explore.tune.tuner import Tuner

SIDE = 8
A, B = (axis.ravel() for axis in np.meshgrid(2 ** np.arange(SIDE), 2 ** np.arange(SIDE), indexing="ij"))
N = len(A)
HALF = np.repeat([0.0, 1.0], N // 2)  # of the space: the larger of A
X_Y = np.log2(np.column_stack([A, B])) / (SIDE - 1)
NONE = (0.0,) * len(LEVELS)
SHALLOW = KnownSpaces(  # many, whose models were right, so that the first one predicted was the fastest
    "none",
    0.05,
    1,
    tuple(KnownSpace("s", "k", "g", 64, 0.9, 1.0, spread, NONE, NONE) for spread in (0.1, 0.2, 0.4) * 8),
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
    """With the places of some measurements of each, taken at random."""
    random = np.random.default_rng(3)
    return [(*space(random), random.permutation(N)[:TELL].tolist()) for _ in range(16)]


def measured(true, places):
    return {place: float(np.exp(true[place])) for place in places}


# Measured log times for predicted and true ones, calibration, risk; the share of spaces in which the promise
# is kept, at least, and of those that say that the model is of little use.
DISTORTED = {
    "as the surrogate has it": (lambda predicted, true: true, SHALLOW, 0.1, 0.8, 0.0),
    "off tenfold": (lambda predicted, true: predicted + 10 * (true - predicted), None, 0.05, 0.9, 0.5),
    "reversed": (lambda predicted, true: -14 - predicted + (true - predicted), None, 0.05, 0.9, 0.5),
    "half three times slower": (lambda predicted, true: true + np.log(3) * HALF, None, 0.05, 0.9, 0.5),
}


@pytest.mark.slow
@pytest.mark.quick("tenfold")
@pytest.mark.parametrize("kind", DISTORTED)
def test_a_nearly_fastest_one_is_kept_whatever_the_model_is_worth(spaces, kind):
    distort, calibration, risk, promised, explained = DISTORTED[kind]
    holds, shares, reasons = [], [], []
    for predicted, true, places in spaces:
        log_s = distort(predicted, true)
        kept = keep(candidates(predicted), risk, 0.05, measured(log_s, places), calibration)
        holds.append(log_s[kept.index].min() <= log_s.min() + np.log(1.05))
        shares.append(kept.share)
        reasons.append(f": keeping {kept.share:.0%}" in kept.reason)
        assert kept.share == len(kept.index) / N
    assert np.mean(holds) >= promised
    assert np.mean(reasons) >= explained
    assert np.mean(shares) < 0.5 or explained  # and that by leaving out most


def expected(some, known, kept):
    """What is promising by the margin, and what could still win, by the tuner's own prediction."""
    tuner = Tuner(some, times=known)
    mean, deviation = tuner.predict()
    below = np.sort(-tuner.surrogate.left_out())
    spreads = max(load().spreads(0.05), below[min(TELL, int(np.ceil(0.95 * (TELL + 1)))) - 1])
    assert kept.spreads == pytest.approx(spreads)
    off = np.log(list(known.values())) - some.log_s[list(known)]
    widest = off.std(ddof=1) * np.sqrt((TELL - 1) / chi2.ppf(0.1, TELL - 1))
    assert kept.margin == pytest.approx(load().margin_in_spreads(0.05) * widest)
    lower = mean - spreads * deviation
    assert np.all(np.diff(lower[kept.index]) >= 0)  # the most promising first
    best = min(known, key=lambda place: known[place])
    promising = some.log_s <= some.log_s.min() + kept.margin
    return promising, lower <= max(np.log(known[best] / 1.05), lower.min()), np.arange(N) == best


@pytest.mark.parametrize("explains", [True, False])
def test_what_is_kept_is_promising_and_could_win_or_one_of_both_if_the_model_explains_little(
    spaces, explains
):
    others = 0
    for predicted, true, places in spaces[:5]:
        some = candidates(predicted + 0.9 * (true - predicted) if explains else -predicted - 14)
        known = measured(true, range(0, N, N // TELL) if explains else places)
        kept = keep(some, 0.1, 0.05, known)
        promising, winning, best = expected(some, known, kept)
        wanted = promising & winning if explains else promising | winning
        assert set(kept.index) == set(np.flatnonzero(wanted | best))
        assert ("model does not explain this space (" in kept.reason) != explains
        fewest = min(promising.mean(), winning.mean())
        others += kept.share < fewest if explains else kept.share > fewest
    assert others >= (1 if explains else 2)


def test_bounds_are_exceeded_with_the_risk():
    """By as much as keeps the true spread inside, but for the risk."""
    spreads = np.random.default_rng(0).normal(size=(2_000, 12)).std(1, ddof=1)
    inside = [Explained(12, 0.0, float(spread), 0.0).spread_at_most(0.1) >= 1.0 for spread in spreads]
    assert np.mean(inside) == pytest.approx(0.9, abs=0.025)
    off = np.arange(1.0, 20.0) / 2  # 19 values
    assert conformal(off, 0.1) == off[17]  # the 18th of 19: ceil(0.9 · 20)
    assert conformal(off, 0.01) == off[18]  # none is large enough: the last
    random = np.random.default_rng(0)
    over = [random.normal() > conformal(random.normal(size=19), 0.1) for _ in range(4_000)]
    assert np.mean(over) == pytest.approx(0.1, abs=0.015)


def test_without_measurements_those_predicted_within_the_margin():
    log_s = np.random.default_rng(0).permutation(np.linspace(0.0, 0.9, N))
    kept = keep(candidates(log_s), 0.05)
    assert kept.spreads is None
    assert kept.margin == load().margin(0.05, float(log_s.std()))
    inside = log_s <= log_s.min() + kept.margin
    assert 1 < inside.sum() < N
    np.testing.assert_array_equal(kept.index, np.argsort(log_s)[: inside.sum()])
    few = dict.fromkeys(range(FEWEST - 1), 1.0)
    np.testing.assert_array_equal(keep(candidates(log_s), 0.05, 0.05, few).index, kept.index)
    log_s, runs = np.linspace(-7, -3, N), np.ones(N)
    runs[:8], runs[8:10] = 0.01, 0.3
    kept = keep(replace(candidates(log_s), runs=runs))
    assert kept.margin is not None
    inside = (log_s <= log_s[10] + kept.margin) & (runs >= 0.05)
    np.testing.assert_array_equal(np.sort(kept.index), np.flatnonzero(inside))
    assert {8, 9, 10} <= set(kept.index)


def test_what_cannot_run_or_failed_is_left_out(spaces):
    predicted, true, places = spaces[2]
    best = int(predicted.argmin())
    assert best not in keep(candidates(predicted, np.arange(N) != best), 0.01).index
    messages = measured(true, places)
    failed = next(n for n in keep(candidates(predicted), measured=messages).index if n not in messages)
    after = keep(candidates(predicted), measured=messages | {int(failed): np.inf}).index
    assert failed not in after
    assert len(after)
    with pytest.raises(DseError, match="configurations: found none that is possible"):
        keep(candidates(predicted, np.zeros(N, bool)))
    with pytest.raises(DseError, match="found none"):
        keep(candidates(predicted), measured=dict.fromkeys(range(N), np.inf))


def test_the_fastest_that_ran_is_kept_whatever_the_model_holds(spaces):
    predicted, true, places = spaces[3]
    best = min(places, key=lambda place: true[place])
    messages = measured(true, places) | {best: 0.5 * float(np.exp(true[best]))}
    assert best in keep(candidates(predicted, np.arange(N) != best), measured=messages).index
    slowest = int(np.argmax(predicted))  # even alone, with too few to refit
    assert slowest in keep(candidates(predicted), measured={slowest: 1.0}).index
    _, true, places = spaces[4]
    blind, messages = candidates(np.zeros(N), modelled=False), measured(true, places)
    few = measured(true, [place for place in places if place != 63][: FEWEST - 1]) | {63: np.inf}
    with pytest.raises(DseError, match=f"found {FEWEST - 1} that ran and no model, expected 10"):
        keep(blind, measured=few)
    kept = keep(blind, measured=messages)
    assert 0 < kept.share < 1
    assert min(messages, key=lambda place: messages[place]) in kept.index


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_shares_that_are_none(share):
    with pytest.raises(DseError, match=f"risk: found {share}, expected a share between 0 and 1"):
        keep(candidates(np.zeros(N)), risk=share)
    with pytest.raises(DseError, match=f"within: found {share}"):
        keep(candidates(np.zeros(N)), within=share)
