"""What is learned of a measured space: slices of it, and how far their fastest lie from the first."""

from dataclasses import replace

import numpy as np
from calibrate_pruning import FEWEST, slices

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
