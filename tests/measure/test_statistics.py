"""When a measurement is repeated often enough."""

import itertools

import pytest

from dse.measure.statistics import repeat, spread, variation


def test_spread_and_when_it_is_small_enough():
    # 9 10 10 11 30: the median is 10, the distances from it are 1 0 0 1 20, their median is 1
    assert spread([9, 10, 10, 11, 30]) == pytest.approx(0.1)
    assert spread([5]) == 0
    assert variation([1, 3]) == pytest.approx(0.5)
    actual = repeat(iter([1.0, 1.001, 0.999, 5.0, 1.0, 7.0]).__next__)
    assert (actual.values, actual.settled) == ((1.0, 1.001, 0.999, 5.0, 1.0), True)
    assert actual.middle == 1.0
    actual = repeat(itertools.cycle([1.0, 2.0, 3.0]).__next__, most=6)
    assert (len(actual.values), actual.settled) == (6, False)
    clock = itertools.count(0.0, 3.0)
    actual = repeat(lambda: 1.0, seconds=5.0, now=clock.__next__)
    assert (len(actual.values), actual.settled) == (2, False)
