"""Kernel Tuner itself tunes, in simulation mode: its runner looks times up in a cache that is made here."""

import itertools
import json
from typing import Any

import numpy as np
import pytest
from kernel_tuner import tune_kernel
from kernel_tuner.searchspace import Searchspace

from dse.bridges.kernel_tuner import configurations, restrictions, strategy
from dse.errors import DseError
from dse.explore.prune.keep import keep
from dse.explore.tune.predictor import Predictor

TUNE = {"block_size_x": [32, 64, 128, 256, 512], "items": [1, 2, 3, 4]}
OWN = "block_size_x * items <= 1024"
GUIDED: dict[str, Any] = {"model": "roofline", "rename": {"block_size_x": "block"}}


def time_ms(block, items):
    """The fastest is 128, 2; large blocks with one item fail."""
    return None if block == 512 and items == 1 else 1.0 + abs(block - 128) / 64 + abs(items - 2)


def cache(path):
    """What Kernel Tuner leaves behind where it has measured all of them."""
    entries = {}
    for values in itertools.product(*TUNE.values()):
        time = time_ms(*values)
        entry = dict(zip(TUNE, values, strict=True)) | {"time": time or "RuntimeFailedConfig", "times": []}
        entry |= {"compile_time": 1.0, "verification_time": 0.0, "benchmark_time": 1.0}
        entries[",".join(map(str, values))] = entry | ({"rate": 1.0 / time} if time else {})
    header = {"device_name": "a GPU", "kernel_name": "toy", "problem_size": 1048576}
    header |= {"tune_params_keys": list(TUNE), "tune_params": TUNE, "objective": "time"}
    path.write_text(json.dumps(header | {"cache": entries}))
    return path


@pytest.fixture
def tune(tmp_path):
    replayed = {"simulation_mode": True, "cache": str(cache(tmp_path / "toy.json")), "quiet": True}

    def run(chosen, most=12, **options):
        options |= {"strategy_options": {} if most is None else {"max_fevals": most}} | replayed
        results, environment = tune_kernel("toy", "", 1048576, [], TUNE, strategy=chosen, **options)
        return [(result["block_size_x"], result["items"]) for result in results], environment["best_config"]

    return run


@pytest.mark.slow
def test_a_strategy_of_kernel_tuner(tune, toy_kernel):
    tried, best = tune(strategy(toy_kernel, "a100-pcie-40gb", **GUIDED), restrictions=[OWN])
    assert len(tried) == len(set(tried)) == 12
    assert all(block * items <= 1024 for block, items in tried)
    assert (best["block_size_x"], best["items"]) == (128, 2)


def test_without_a_kernel_and_without_a_budget(tune):
    tried, _ = tune(strategy(None, seed=1), 4)
    assert len(set(tried)) == 4
    assert len(tune(strategy(None), None)[0]) == len(list(itertools.product(*TUNE.values())))


def test_a_throughput_is_to_be_high(tune, toy_kernel):
    guided = strategy(toy_kernel, "a100-pcie-40gb", **GUIDED)
    _, best = tune(guided, restrictions=[OWN], objective="rate", objective_higher_is_better=True)
    assert best["rate"] == 1.0
    with pytest.raises(DseError, match=r"^tune_params: found 'block_size_x', no 'block', expected"):
        tune(strategy(toy_kernel, "a100-pcie-40gb"))
    with pytest.raises(DseError, match=r"^objective: found time, rate, expected one"):
        tune(strategy(None), objectives={"time": False, "rate": True})


# A pruned space is what Kernel Tuner's own solver finds with the restriction


@pytest.fixture
def expected(toy_kernel):
    """What is kept of those that keep to OWN, and the logs of their predicted times."""
    rows = [row for row in itertools.product(*TUNE.values()) if row[0] * row[1] <= 1024]
    columns: Any = dict(zip(("block", "items"), np.array(rows).T, strict=True))
    candidates = Predictor(toy_kernel, "a100-pcie-40gb", "roofline").candidates(columns, "here")
    kept = {rows[place]: candidates.log_s[place] for place in keep(candidates, 0.5, 0.1).index}
    assert 0 < len(kept) < len(rows)
    return kept


@pytest.mark.parametrize("own", [OWN, [OWN], [lambda p: p["block_size_x"] * p["items"] <= 1024]])
def test_a_restriction(toy_kernel, expected, own):
    actual = restrictions(toy_kernel, "a100-pcie-40gb", TUNE, own, 0.5, 0.1, **GUIDED)
    assert set(Searchspace(TUNE, actual, 1024).list) == set(expected)


def test_the_configurations_fastest_first(toy_kernel, expected):
    predictor = Predictor(toy_kernel, "a100-pcie-40gb", **GUIDED)
    actual = list(zip(*configurations(predictor, TUNE, OWN, 0.5, 0.1).values(), strict=True))
    assert set(actual) == set(expected)
    assert [expected[item] for item in actual] == sorted(expected.values())
