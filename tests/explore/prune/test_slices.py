"""What is learned of a measured space: slices of it, and how far their fastest lie from the first."""

from dataclasses import replace

import numpy as np
import pytest
from calibrate_pruning import BEYOND, FEWEST, known, margin, nearly, slices

from dse.explore.tune.candidates import bare

SIDE = 12
A, B = (axis.ravel() for axis in np.meshgrid(2 ** np.arange(SIDE), 2 ** np.arange(SIDE), indexing="ij"))
N = len(A)
LOG_S = 0.1 * np.abs(np.log2(A) - 4) + 0.02 * np.log2(B) - 7
OFF = 0.2 * np.random.default_rng(0).normal(size=N)
SECONDS = np.exp(LOG_S + OFF)
EVERY = np.arange(N)


def candidates(possible=None):
    base = bare({"a": A, "b": B})
    return replace(base, log_s=LOG_S, modelled=True, possible=EVERY >= 0 if possible is None else possible)


def test_slices_hold_parameters_to_some_of_their_values():
    actual = list(slices(candidates(), SECONDS, 20))
    np.testing.assert_array_equal(actual[0], EVERY)
    assert len(actual) == 20
    for selected in actual[1:]:
        assert FEWEST <= len(selected) < N
        assert len(selected) == len(np.unique(A[selected])) * len(np.unique(B[selected]))
    failed = np.where(A > 4, np.inf, SECONDS)
    for selected in list(slices(candidates(), failed, 5))[1:]:
        assert np.isfinite(failed[selected]).mean() >= 0.5


def test_the_margin_is_that_of_the_nearly_fastest_over_the_spread():
    good = nearly(SECONDS, 0.05)
    needed = (LOG_S[good].min() - LOG_S.min()) / OFF.std()
    assert margin(candidates(), SECONDS, EVERY, 0.05) == pytest.approx(needed)
    assert needed > 0
    assert margin(candidates(), np.exp(LOG_S) * 1.0001**OFF, EVERY, 0.05) == 0.0
    assert margin(candidates(~good), SECONDS, EVERY, 0.05) == BEYOND
    ran = A.max() > A
    failed = np.where(ran, SECONDS, np.inf)
    needed = (LOG_S[nearly(failed, 0.05)].min() - LOG_S.min()) / OFF[ran].std()
    assert margin(candidates(), failed, EVERY, 0.05) == pytest.approx(needed)
    single = known("s", "k", "g", candidates(), SECONDS, 0.05, 6)
    assert (single.space, single.kernel, single.gpu, single.configurations) == ("s", "k", "g", N)
    assert (single.predicted, single.spread) == (pytest.approx(LOG_S.std()), pytest.approx(OFF.std()))
    odd = np.where(A == 1, 1e3 * SECONDS, SECONDS)  # held for impossible: tells nothing of what is predicted
    assert known("s", "k", "g", candidates(A > 1), odd, 0.05, 2).spread == pytest.approx(OFF[A > 1].std())
    assert list(single.margins) == sorted(single.margins)
    assert 0.5 < single.spearman < 1
