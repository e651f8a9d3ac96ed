"""Pruning as Triton's own autotuner calls it, which needs no GPU for that."""

from importlib import import_module
from typing import Any, ClassVar

import numpy as np
import pytest

from dse.bridges import triton as bridge
from dse.errors import DseError
from dse.explore.prune.keep import keep
from dse.explore.tune.candidates import Candidates
from dse.explore.tune.predictor import Predictor

triton = pytest.importorskip("triton")

SETTINGS: dict[str, Any] = {"model": "roofline", "rename": {"BLOCK": "block", "size": "n"}, "risk": 0.3}
ROWS = [(b, i) for b in (32, 64, 128, 256, 512) for i in (1, 2, 3, 4) if b * i <= 1024]
ARGUMENTS = {"x": "a tensor", "size": 1 << 22}
CONFIGS = [  # of each two that differ in the stages, which the kernel does not know
    triton.Config({"BLOCK": block, "items": items}, num_stages=stages)
    for block, items in ROWS
    for stages in (1, 3)
]


class Counting(Predictor):
    """A predictor that keeps how many configurations it was asked for at a time."""

    calls: ClassVar[list[int]] = []

    def candidates(self, columns: Any, where: str, sizes: Any = None, optional: Any = ()) -> Candidates:
        self.calls.append(len(next(iter(columns.values()))))
        return super().candidates(columns, where, sizes, optional)


@pytest.fixture
def pruned():
    """`pruned(early_config_prune=...)`: what Triton's autotuner keeps of CONFIGS."""

    def kernel(x, n, block, items):
        pass

    def pruned(**by):
        autotuner = import_module("triton.runtime.autotuner").Autotuner
        tuner = autotuner(kernel, ["x", "n"], CONFIGS, ["n"], None, None, prune_configs_by=by)
        tuner.nargs = ARGUMENTS
        return tuner.prune_configs({})

    return pruned


@pytest.fixture
def predicted(toy_kernel):
    block, items = np.repeat(ROWS, 2, axis=0).T
    predictor = Predictor(toy_kernel, "a100-pcie-40gb", "roofline")
    return predictor.candidates({"block": block, "items": items}, "here", {"n": ARGUMENTS["size"]})


def test_early_config_prune(pruned, predicted, toy_kernel):
    prune = bridge.pruner(toy_kernel, "a100-pcie-40gb", **SETTINGS)
    kept = pruned(early_config_prune=prune)
    assert kept == [CONFIGS[place] for place in keep(predicted, 0.3).index]
    assert kept
    of_both_stages = {(item.kwargs["BLOCK"], item.kwargs["items"], item.num_stages) for item in kept}
    assert {(block, items, 4 - stages) for block, items, stages in of_both_stages} == of_both_stages
    prune = bridge.pruner(toy_kernel, "a100-pcie-40gb", **{**SETTINGS, "risk": 0.01})
    kept = pruned(early_config_prune=prune, perf_model=prune.perf_model, top_k=4)
    seconds = [prune.perf_model(**ARGUMENTS, **config.all_kwargs()) for config in CONFIGS]
    np.testing.assert_allclose(np.log(seconds), predicted.log_s, rtol=1e-12)
    assert [predicted.log_s[CONFIGS.index(config)] for config in kept] == sorted(predicted.log_s)[:4]


def test_all_are_predicted_at_once_and_what_was_not_pruned_just_before_anew(toy_kernel):
    rename = {"BLOCK": "block", "size": "n"}
    predictor = Counting(toy_kernel, "a100-pcie-40gb", "roofline", rename=rename)
    prune = bridge.Pruner(predictor, bridge.settings, 0.3, 0.05)
    assert prune(CONFIGS, ARGUMENTS)
    selected = {"BLOCK": 64, "items": 2, "num_warps": 4, "num_stages": 3, "num_ctas": 1}
    large = prune.perf_model(**ARGUMENTS, **selected)
    assert predictor.calls == [36]
    assert prune.perf_model(**ARGUMENTS | {"size": 1 << 20}, **selected) < large
    assert prune.perf_model(**ARGUMENTS | {"size": 1 << 20}, **selected | {"items": 4}) < large
    assert predictor.calls == [36, 1, 1]


def test_a_function_says_what_the_parameters_are(predicted, toy_kernel):
    configs = [triton.Config({"items": items}, block // 32, n) for block, items in ROWS for n in (1, 3)]

    def parameters(config):
        return {"block": 32 * config.num_warps, "items": config.kwargs["items"]}

    prune = bridge.pruner(toy_kernel, "a100-pcie-40gb", "roofline", risk=0.3, parameters=parameters)
    kept = prune(configs, {"n": ARGUMENTS["size"]})
    assert kept == [configs[place] for place in keep(predicted, 0.3).index]


def test_where_nothing_is_possible_all_are_kept(toy_kernel):
    prune = bridge.pruner(toy_kernel, "a100-pcie-40gb", **SETTINGS)
    impossible = [triton.Config({"BLOCK": 4096, "items": 1})] * 2
    assert prune(impossible, ARGUMENTS) == impossible
    assert prune([], {}) == []
    with pytest.raises(DseError, match=r"^configs: found 'BLOCK', no 'block', expected the .* of toy"):
        bridge.pruner(toy_kernel, "a100-pcie-40gb")(CONFIGS, {})
