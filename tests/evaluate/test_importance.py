"""Shares of the variance of log time, against plain Python."""

import itertools

import numpy as np
import pytest

from dse.evaluate.importance import importance


def grid(*sizes):
    return {f"p{i}": x.ravel() for i, x in enumerate(np.meshgrid(*map(np.arange, sizes), indexing="ij"))}


def shares(codes, times):
    return importance(codes, {"m": times})["m"]


def test_equals_plain_python_on_a_space_with_constraints():
    rng = np.random.default_rng(2)
    keep = rng.permutation(120)[:90]
    codes = {name: values[keep] for name, values in grid(4, 5, 6).items()}
    times = rng.lognormal(size=90)
    times[3], times[5] = np.nan, np.inf
    rows = [(tuple(row), np.log(t)) for row, t in zip(zip(*codes.values(), strict=True), times, strict=True)]
    rows = [(row, y) for row, y in rows if np.isfinite(y)]
    variance = np.var([y for _, y in rows])
    actual = shares(codes, times)
    for place, name in enumerate(codes):
        means = {key: [y for row, y in rows if row[place] == key] for key in set(codes[name].tolist())}
        first = np.mean(
            [(np.mean(group) - np.mean([y for _, y in rows])) ** 2 for group in means.values() for _ in group]
        )
        others = [row[:place] + row[place + 1 :] for row, _ in rows]
        groups = {k: [y for (_, y), other in zip(rows, others, strict=True) if other == k] for k in others}
        total = np.mean([np.var(groups[other]) for other in others])
        np.testing.assert_allclose(actual[name], [first / variance, total / variance], rtol=1e-9)


def test_equal_times_no_parameters_and_few_configurations_have_no_shares():
    assert shares(grid(4, 4), np.ones(16)) == {}
    assert shares(grid(4, 4), np.full(16, np.nan)) == {}
    assert shares(grid(3, 3), np.arange(1.0, 10.0)) == {}
    assert importance({}, {"m": np.ones(1)}) == {"m": {}}
    rng = np.random.default_rng(0)
    codes = {f"p{i}": rng.integers(0, 1000, 400) for i in range(9)}
    codes = {name: np.concatenate([values, values]) for name, values in codes.items()}
    codes["two"] = np.repeat([0, 1], 400)
    actual = shares(codes, np.exp(codes["two"] + codes["p0"] / 1000))
    assert actual["two"].total == pytest.approx(0.25 / np.var(codes["two"] + codes["p0"] / 1000))
    for name in itertools.islice(codes, 9):
        assert np.isnan(actual[name].total)
