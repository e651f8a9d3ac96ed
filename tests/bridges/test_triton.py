"""Pruning as Triton's autotuner calls it.

The autotuner here is a stand-in, written after the contract of `triton.runtime.autotuner.Autotuner` of Triton
3.9.0: `early_config_prune(configs, named_args, **kwargs)` gives a list that is not empty, and `perf_model`
gets all arguments by name and gives a time, of which the `top_k` smallest stay. Where Triton is installed the
same tests run on its own one too, which needs no GPU to prune.
"""

import importlib.util
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from dse.bridges import triton as bridge
from dse.errors import DseError
from dse.explore.prune.keep import keep
from dse.explore.tune.candidates import bare
from dse.explore.tune.predictor import Predictor


@dataclass(eq=False)
class Config:
    kwargs: dict
    num_warps: int = 4
    num_stages: int = 3
    num_ctas: int = 1
    maxnreg: int | None = None

    def all_kwargs(self):
        options = {"num_warps": self.num_warps, "num_stages": self.num_stages, "num_ctas": self.num_ctas}
        return self.kwargs | options | ({} if self.maxnreg is None else {"maxnreg": self.maxnreg})


class Autotuner:
    def __init__(self, configs, prune_configs_by):
        self.configs, self.by = configs, prune_configs_by

    def pruned(self, named_args, **kwargs):
        configs = self.configs
        if "early_config_prune" in self.by:
            configs = self.by["early_config_prune"](configs, named_args, **kwargs)
            assert configs
        if "perf_model" in self.by and len(configs) > self.by["top_k"]:
            times = {
                each: self.by["perf_model"](**named_args, **kwargs, **each.all_kwargs()) for each in configs
            }
            configs = sorted(times, key=lambda each: times[each])[: self.by["top_k"]]
        return configs


def the_real_one(configs, prune_configs_by):
    autotuner = importlib.import_module("triton.runtime.autotuner")

    def kernel(x, n, block, items):
        pass

    tuner = autotuner.Autotuner(
        kernel, ["x", "n"], configs, ["n"], None, None, prune_configs_by=prune_configs_by
    )

    def pruned(named_args, **kwargs):
        tuner.nargs = named_args
        return tuner.prune_configs(kwargs)

    tuner.pruned = pruned
    return tuner


THERE = ["stand-in", *(["triton"] if importlib.util.find_spec("triton") else [])]


@pytest.fixture(params=THERE)
def triton(request):
    if request.param == "stand-in":
        return Config, Autotuner
    return importlib.import_module("triton").Config, the_real_one


SETTINGS: dict[str, Any] = {"model": "roofline", "rename": {"BLOCK": "block", "size": "n"}, "risk": 0.3}
ROWS = [
    (block, items) for block in (32, 64, 128, 256, 512) for items in (1, 2, 3, 4) if block * items <= 1024
]
ARGUMENTS = {"x": "a tensor", "size": 1 << 22}


def configurations(config):
    """Of each two that differ in the stages, which the kernel does not know."""
    return [
        config({"BLOCK": block, "items": items}, num_stages=stages)
        for block, items in ROWS
        for stages in (1, 3)
    ]


def predicted(kernel):
    block, items = np.repeat(ROWS, 2, axis=0).T
    settings = Predictor(kernel, "a100-pcie-40gb", "roofline")
    return settings.candidates({"block": block, "items": items}, "here", {"n": ARGUMENTS["size"]})


def named(config):
    return config.kwargs["BLOCK"], config.kwargs["items"], config.num_stages


def test_early_config_prune(triton, toy_kernel, monkeypatch):
    config, autotuner = triton
    calls = []
    monkeypatch.setattr(
        Predictor, "candidates", lambda *given, call=Predictor.candidates: calls.append(given) or call(*given)
    )
    configs = configurations(config)
    prune = bridge.pruner(toy_kernel, "a100-pcie-40gb", **SETTINGS)
    kept = autotuner(configs, {"early_config_prune": prune}).pruned(ARGUMENTS)
    assert len(calls) == 1  # all at once
    assert kept == [configs[place] for place in keep(predicted(toy_kernel), 0.3).places]
    assert kept
    assert {(block, items, 4 - stages) for block, items, stages in map(named, kept)} == set(map(named, kept))


def test_perf_model(triton, toy_kernel):
    config, autotuner = triton
    configs = configurations(config)
    settings: dict[str, Any] = {**SETTINGS, "risk": 0.01}
    prune = bridge.pruner(toy_kernel, "a100-pcie-40gb", **settings)
    by = {"early_config_prune": prune, "perf_model": prune.perf_model, "top_k": 4}
    kept = autotuner(configs, by).pruned(ARGUMENTS)
    log_s = predicted(toy_kernel).log_s
    np.testing.assert_allclose(
        [np.log(prune.perf_model(**ARGUMENTS, **each.all_kwargs())) for each in configs], log_s, rtol=1e-12
    )
    assert [log_s[configs.index(each)] for each in kept] == sorted(log_s)[:4]


def test_perf_model_of_what_was_not_pruned_just_before_is_worked_out_anew(triton, toy_kernel, monkeypatch):
    def as_long_as_its_size(predictor, columns, where, sizes, optional):
        calls.append(len(columns["items"]))
        found = bare({"items": np.array(columns["items"])})
        return replace(found, log_s=np.log(np.multiply(columns["items"], sizes["size"])))

    config, _ = triton
    calls: list[int] = []
    monkeypatch.setattr(Predictor, "candidates", as_long_as_its_size)
    prune = bridge.Pruner(Predictor(toy_kernel), bridge.settings, 0.3, 0.05)
    with pytest.raises(DseError, match="no model"):  # it stops after the prediction
        prune(configurations(config), ARGUMENTS)
    chosen = {"BLOCK": 64, "items": 2, "num_warps": 4, "num_stages": 3, "num_ctas": 1}
    assert prune.perf_model(**ARGUMENTS, **chosen) == pytest.approx(2 * ARGUMENTS["size"])
    assert calls == [36]
    assert prune.perf_model(**ARGUMENTS | {"size": 10}, **chosen) == pytest.approx(20)
    assert prune.perf_model(**ARGUMENTS | {"size": 10}, **chosen | {"items": 4}) == pytest.approx(40)
    assert calls == [36, 1, 1]


def test_a_function_says_what_the_parameters_are(triton, toy_kernel):
    config, _ = triton
    configs = [config({"items": items}, block // 32, stages) for block, items in ROWS for stages in (1, 3)]
    prune = bridge.pruner(
        toy_kernel,
        "a100-pcie-40gb",
        "roofline",
        risk=0.3,
        parameters=lambda each: {"block": 32 * each.num_warps, "items": each.kwargs["items"]},
    )
    kept = prune(configs, {"n": ARGUMENTS["size"]})
    assert kept == [configs[place] for place in keep(predicted(toy_kernel), 0.3).places]


def test_where_nothing_is_possible_all_are_kept(toy_kernel, monkeypatch):
    nothing = predicted(toy_kernel)
    nothing.possible[:] = False
    monkeypatch.setattr(Predictor, "candidates", lambda *given: nothing)
    configs = configurations(Config)
    assert bridge.pruner(toy_kernel, "a100-pcie-40gb")(configs, {}) == configs
    assert bridge.pruner(toy_kernel, "a100-pcie-40gb")([], {}) == []


def test_a_name_that_the_kernel_does_not_know(toy_kernel):
    prune = bridge.pruner(toy_kernel, "a100-pcie-40gb")
    with pytest.raises(
        DseError, match=r"^configs: found 'BLOCK', no 'block', expected the parameters of toy"
    ):
        prune(configurations(Config), {})


def test_dse_prune_itself_is_light(run_python):
    ran = run_python("import sys, dse.explore.prune\nprint({'jax', 'numpy', 'triton'} & set(sys.modules))")
    assert (ran.err, ran.out) == ("", "set()\n")
