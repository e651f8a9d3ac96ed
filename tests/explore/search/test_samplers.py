"""Samplers by name, and which suits."""

import sys
from importlib.util import find_spec
from types import ModuleType

import numpy as np
import optuna
import pytest
from optuna.distributions import BaseDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.trial import create_trial

from dse.errors import DseError
from dse.explore.search import samplers


@pytest.mark.parametrize("name", samplers.SAMPLERS)
def test_each_name_is_a_sampler(name):
    if name == "gp" and find_spec("torch") is None:
        with pytest.raises(DseError, match=r"^torch: found none, expected for the sampler gp the extra"):
            samplers.suitable(name)
    else:
        assert isinstance(samplers.sampler(samplers.suitable(name), 1), BaseSampler)


@pytest.mark.parametrize(
    ("trials", "goals", "variants", "torch", "expected"),
    [
        (100, 1, 1, True, "gp"),
        (100, 1, 1, False, "tpe"),
        (100, 1, 3, True, "tpe"),
        (2_000, 1, 1, True, "tpe"),
        (100, 2, 1, True, "tpe"),
        (5_000, 2, 1, True, "nsga2"),
        (5_000, 4, 1, True, "nsga3"),
    ],
)
def test_auto_goes_by_the_search(monkeypatch, trials, goals, variants, torch, expected):
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch") if torch else None)
    assert samplers.suitable("auto", trials, goals, variants) == expected
    with pytest.raises(DseError, match="expected one of tpe, gp"):
        samplers.suitable("grid", trials, goals, variants)


def test_cma_es_goes_on_from_the_best_of_the_known_trials():
    kind: dict[str, BaseDistribution] = {"x": IntDistribution(0, 1000), "y": IntDistribution(0, 1000)}
    known = [
        create_trial(params={"x": x, "y": y}, distributions=kind, value=abs(x - 800) + abs(y - 100))
        for x in range(0, 1001, 100)
        for y in range(0, 1001, 100)
    ]
    study = optuna.create_study(sampler=samplers.sampler("cmaes", 1, known=known))
    study.add_trials(known[:1])
    asked = [study.ask(kind).params for _ in range(20)]
    np.testing.assert_allclose(np.mean([[item["x"], item["y"]] for item in asked], 0), (800, 100), atol=100)
