"""Groups of predictions that cannot be told apart."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.evaluate.ties import EQUAL, diverse, tied


def test_the_indistinguishable_fastest_are_counted():
    assert tied(np.array([1.0, 1.0, 1.0009, 1.0011, 2.0])) == 3
    assert tied(np.array([])) == 0


def test_of_each_group_the_one_that_differs_most():
    seconds = np.array([1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 3.0])
    parameters = {"x": np.array([1, 1, 2, 1, 1, 4, 1]), "y": np.array([1, 2, 1, 1, 2, 2, 1])}
    assert diverse(seconds, parameters, 10).tolist() == [0, 5, 6]
    assert diverse(seconds, parameters, 2).tolist() == [0, 5]


@settings(max_examples=20)
@given(st.lists(st.floats(0.5, 2.0), min_size=1, max_size=40), st.integers(1, 10), st.integers(0, 100))
def test_one_of_each_group(times, most, seed):
    seconds = np.sort(np.array(times))
    x = np.random.default_rng(seed).integers(0, 4, len(seconds))
    selected = diverse(seconds, {"x": x}, most)
    assert selected[0] == 0
    assert len(selected) <= most
    assert np.all(np.diff(selected) > 0)
    firsts, start = [], 0
    while start < len(seconds) and len(firsts) < most:
        firsts.append(start)
        start += int(np.sum(seconds[start:] <= seconds[start] * (1 + EQUAL)))
    assert len(selected) == len(firsts)
    for place, first in zip(selected, firsts, strict=True):
        assert seconds[place] <= seconds[first] * (1 + EQUAL)
