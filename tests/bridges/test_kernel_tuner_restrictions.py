"""A pruned space is what Kernel Tuner's own solver finds with the restriction."""

from typing import Any

import numpy as np
import pytest
from kernel_tuner.searchspace import Searchspace

from dse.bridges.kernel_tuner import configurations, restrictions
from dse.explore.prune.keep import keep
from dse.explore.tune.predictor import Predictor

TUNE = {"block_size_x": [32, 64, 128, 256, 512], "items": [1, 2, 3, 4]}
SETTINGS = {"model": "roofline", "rename": {"block_size_x": "block"}}
OWN = "block_size_x * items <= 1024"


@pytest.fixture
def expected(toy_kernel):
    """What is kept of those that keep to OWN, and the logs of their predicted times."""
    rows = [
        (block, items) for block in TUNE["block_size_x"] for items in TUNE["items"] if block * items <= 1024
    ]
    columns: Any = dict(zip(("block", "items"), np.array(rows).T, strict=True))
    candidates = Predictor(toy_kernel, "a100-pcie-40gb", "roofline").candidates(columns, "here")
    kept = {rows[place]: candidates.log_s[place] for place in keep(candidates, 0.5, 0.1).index}
    assert 0 < len(kept) < len(rows)
    return kept


@pytest.mark.parametrize("own", [OWN, [OWN], [lambda p: p["block_size_x"] * p["items"] <= 1024]])
def test_a_restriction(toy_kernel, expected, own):
    actual = restrictions(toy_kernel, "a100-pcie-40gb", TUNE, own, 0.5, 0.1, **SETTINGS)
    assert set(Searchspace(TUNE, actual, 1024).list) == set(expected)


def test_the_configurations_fastest_first(toy_kernel, expected):
    predictor = Predictor(toy_kernel, "a100-pcie-40gb", **SETTINGS)
    actual = list(zip(*configurations(predictor, TUNE, OWN, 0.5, 0.1).values(), strict=True))
    assert set(actual) == set(expected)
    assert [expected[item] for item in actual] == sorted(expected.values())
