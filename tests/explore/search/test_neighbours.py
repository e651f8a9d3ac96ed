"""Points near another one: valid, new, and not far; and the parts of a sampler that is kept to them."""

from dataclasses import replace

import numpy as np
import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.distributions import BaseDistribution, IntDistribution
from optuna.samplers import RandomSampler, TPESampler
from optuna.trial import create_trial

from dse import kernels
from dse.core.space import Space, parse
from dse.errors import DseError
from dse.explore.search import samplers
from dse.explore.search.feasible import Feasible
from dse.explore.search.neighbours import Neighbours, Point, Variant


def variant(toy_kernel, constraint, **values):
    toy = kernels.load(toy_kernel)
    return Variant(replace(toy, space=Space(values, (parse(constraint, "here"),))), toy.sizes())


@pytest.fixture(scope="module")
def even(toy_kernel):
    """64 x 8 points, of which every other one is valid."""
    return variant(toy_kernel, "(block + items) % 2 == 0", block=list(range(1, 65)), items=list(range(1, 9)))


def test_points_anywhere_are_valid_and_all_are_drawn_while_there_are_some(even, toy_kernel):
    actual = Neighbours(even, 1)
    points = {actual.anywhere() for _ in range(256)}
    assert len(points) == 256
    assert all(sum(point) % 2 == 0 for point in points)  # places begin with 0, values with 1
    assert Neighbours(variant(toy_kernel, "block < 3", block=[1, 2, 3]), 1).near((2,), {(0,), (1,)}) is None
    none = Variant(replace(kernels.load(toy_kernel), space=Space({})), {})
    assert Neighbours(none, 1).anywhere() == ()
    assert Neighbours(none, 1).near((), {()}) is None
    with pytest.raises(DseError, match=r"constraints: found no valid configuration of 2"):
        Neighbours(variant(toy_kernel, "block > 2", block=[1, 2]), 1).anywhere()


def test_powers_of_two_are_tried(toy_kernel):
    """From a point none of whose values is one, to one all of whose values are: no step leads there."""
    spread = variant(toy_kernel, "block > 0", block=list(range(1, 1001)), items=list(range(1, 1001)))
    actual = Neighbours(spread, 1)
    tried: set[Point] = {(119, 499)}
    for _ in range(60):
        near = actual.near((119, 499), tried)  # of values 120 and 500
        assert near is not None
        tried.add(near)
    assert (127, 511) in tried  # 128 and 512


def asked(study, names=("toy",), time: float | None = 1.0):
    """The point of the next trial, whose variant is one of these; its time is told."""
    trial = study.ask()
    name = names[0] if len(names) == 1 else trial.suggest_categorical("variant", names)
    point = trial.suggest_int(f"{name}.block", 0, 63), trial.suggest_int(f"{name}.items", 0, 7)
    study.tell(trial, time or float(sum(point)))
    return point


@pytest.mark.parametrize("name", ["tpe", "random", "qmc"])
def test_trials_are_valid_and_new_while_there_are_some(even, name):
    study = optuna.create_study(sampler=Feasible(samplers.sampler(name, 1), {"toy": even}, 1))
    points = {asked(study, time=None) for _ in range(80)}
    assert len(points) == 80
    assert all(sum(point) % 2 == 0 for point in points)


class OfOneMind(RandomSampler):
    """Suggests the same again and again."""

    def __init__(self, suggestion):
        super().__init__(seed=1)
        self.suggestion = suggestion

    def infer_relative_search_space(self, study, trial) -> dict[str, BaseDistribution]:
        return {}

    def sample_relative(self, study, trial, search_space):
        return self.suggestion


@settings(max_examples=20)
@given(name=st.sampled_from("ab"), block=st.integers(0, 63), items=st.integers(0, 7))
def test_a_valid_suggestion_is_taken_once_and_its_variant_always(even, name, block, items):
    suggestion = {"variant": name, f"{name}.block": block, f"{name}.items": items}
    study = optuna.create_study(sampler=Feasible(OfOneMind(suggestion), {"a": even, "b": even}, 1))
    points = [asked(study, ["a", "b"]) for _ in range(3)]
    assert {trial.params["variant"] for trial in study.trials} == {name}
    assert len(set(points)) == 3
    assert all(sum(point) % 2 == 0 for point in points)
    assert (points[0] == (block, items)) == ((block + items) % 2 == 0)


def test_what_is_suggested_is_tried_then_what_is_near_then_any_other(even):
    inner = OfOneMind({"toy.block": 10, "toy.items": 4})
    study = optuna.create_study(sampler=Feasible(inner, {"toy": even}, 1))
    points = [asked(study) for _ in range(40)]
    assert points[0] == (10, 4)
    assert (np.abs(np.array(points)[:, 0] - 10) <= 2).mean() > 0.2  # 8 % of all
    assert {1, 3, 5, 7} & {items for _, items in points}  # two changes where one breaks the constraint
    inner.suggestion = {}
    assert len({*points, *(asked(study) for _ in range(80))}) == 120


def test_the_variant_can_be_named(even):
    sampler = Feasible(RandomSampler(seed=1), {"a": even, "b": even}, 1)
    study = optuna.create_study(sampler=sampler)
    for name in ("b", "a", "b"):
        sampler.variant = name
        asked(study, ["a", "b"])
    assert [trial.params["variant"] for trial in study.trials] == ["b", "a", "b"]


@pytest.mark.parametrize(("times", "kept"), [(range(200, 100, -1), 101), (range(100, 200), 1)])
def test_a_family_that_finds_nothing_better_makes_way_for_another(even, times, kept):
    feasible = Feasible(TPESampler(), {"toy": even}, 1)
    names, points = ("toy.block", "toy.items"), [divmod(i, 8) for i in range(100)]
    ranges: dict[str, BaseDistribution] = {names[0]: IntDistribution(0, 63), names[1]: IntDistribution(0, 7)}
    done = [
        create_trial(params=dict(zip(names, point, strict=True)), distributions=ranges, value=float(time))
        for point, time in zip(points, times, strict=True)
    ]
    feasible._tried["toy"] = set(points)
    feasible._family = {("toy", point) for point in points}
    name, point = feasible._of_family(done)
    assert (name, point) in feasible._family
    assert len(feasible._family) == kept
