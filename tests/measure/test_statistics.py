"""When a measurement is repeated often enough."""

import itertools

import pytest

from dse.measure.statistics import repeat, spread, variation


def test_spread_by_hand():
    # 9 10 10 11 30: the median is 10, the distances from it are 1 0 0 1 20, their median is 1
    assert spread([9, 10, 10, 11, 30]) == pytest.approx(0.1)
    assert spread([5]) == 0
    assert variation([1, 3]) == pytest.approx(0.5)


def test_a_steady_one_is_measured_five_times():
    found = repeat(iter([1.0, 1.001, 0.999, 5.0, 1.0, 7.0]).__next__)
    assert found.values == (1.0, 1.001, 0.999, 5.0, 1.0)
    assert found.settled
    assert found.middle == 1.0


def test_one_that_does_not_settle_says_so():
    found = repeat(itertools.cycle([1.0, 2.0, 3.0]).__next__, most=6)
    assert len(found.values) == 6
    assert not found.settled


def test_time_is_up():
    clock = itertools.count(0.0, 3.0)
    found = repeat(lambda: 1.0, seconds=5.0, now=clock.__next__)
    assert len(found.values) == 2
    assert not found.settled
