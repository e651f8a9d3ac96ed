"""Samplers by name, and which suits."""

import sys
from importlib.util import find_spec
from types import ModuleType

import pytest
from optuna.samplers import BaseSampler

from dse.errors import DseError
from dse.explore.search import samplers


@pytest.mark.parametrize("name", samplers.SAMPLERS)
def test_each_name_is_a_sampler(name):
    if name == "gp" and find_spec("torch") is None:
        with pytest.raises(DseError, match=r"^torch: found none, expected for the sampler gp the extra"):
            samplers.sampler(name, 1)
    else:
        assert isinstance(samplers.sampler(name, 1), BaseSampler)


def test_another_name():
    with pytest.raises(DseError, match="expected one of tpe, gp"):
        samplers.sampler("grid", None)


@pytest.mark.parametrize(
    ("trials", "goals", "variants", "torch", "expected"),
    [
        (100, 1, 1, True, "GPSampler"),
        (100, 1, 1, False, "TPESampler"),
        (100, 1, 3, True, "TPESampler"),
        (2_000, 1, 1, True, "TPESampler"),
        (100, 2, 1, True, "TPESampler"),
        (5_000, 2, 1, True, "NSGAIISampler"),
        (5_000, 4, 1, True, "NSGAIIISampler"),
    ],
)
def test_auto_goes_by_the_search(monkeypatch, trials, goals, variants, torch, expected):
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch") if torch else None)
    found = samplers.sampler("auto", 1, trials, goals, variants)
    assert type(getattr(found, "inner", found)).__name__ == expected


def test_which_learn_from_constraints():
    learn = {
        name
        for name in ("tpe", "nsga2", "nsga3", "cmaes", "qmc", "random")
        if samplers.constrained(samplers.sampler(name, 1))
    }
    assert learn == {"tpe", "nsga2", "nsga3"}
