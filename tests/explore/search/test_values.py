"""Trials of places and trials of values, there and back."""

import pytest
from optuna.distributions import CategoricalDistribution, IntDistribution
from optuna.trial import create_trial

from dse.errors import DseError
from dse.explore.search.values import Lists

LISTS = Lists({"k.block": (32, 64, 128), "k.tile": (4, 8, 12), "k.ratio": (0.5, 1.0), "k.down": (3, 2, 1)})

PLACES = create_trial(
    params={"variant": "k", "k.block": 2, "k.tile": 1, "k.ratio": 0, "k.down": 1},
    distributions={
        "variant": CategoricalDistribution(["j", "k"]),
        "k.block": IntDistribution(0, 2),
        "k.tile": IntDistribution(0, 2),
        "k.ratio": IntDistribution(0, 1),
        "k.down": IntDistribution(0, 2),
    },
    value=1.0,
    user_attrs={"note": "kept"},
)


def test_values_stand_in_the_place_of_places():
    trial = LISTS.with_values(PLACES)
    assert trial.params == {"variant": "k", "k.block": 128, "k.tile": 8, "k.ratio": 0.5, "k.down": 2}
    assert trial.distributions == {
        "variant": CategoricalDistribution(["j", "k"]),
        "k.block": CategoricalDistribution([32, 64, 128]),
        "k.tile": IntDistribution(4, 12, step=4),
        "k.ratio": CategoricalDistribution([0.5, 1.0]),
        "k.down": CategoricalDistribution([3, 2, 1]),
    }
    trial._validate()  # what Optuna asks of a trial that is added to a study
    assert (trial.values, trial.user_attrs) == (PLACES.values, PLACES.user_attrs)
    assert PLACES.params["k.block"] == 2  # the sampler's own trial stays


def test_there_and_back():
    back = LISTS.with_indices(LISTS.with_values(PLACES))
    assert back == PLACES


def test_places_are_not_taken_for_values():
    with pytest.raises(DseError, match=r"k\.block: found a list"):
        LISTS.with_indices(PLACES)
