"""Which configurations are compiled first."""

import numpy as np

from dse.source.estimate.active_sampling import choose
from dse.source.estimate.features import KnownFacts


def facts(code: np.ndarray, **names: np.ndarray) -> KnownFacts:
    """Configurations of which nothing else is known."""
    ones = np.ones(len(code), int)
    return KnownFacts(ones, ones, np.ones((len(code), 3), int), None, ones == 0, names, code)


def _distance(points: np.ndarray, chosen: list[int]) -> float:
    """From a point to the nearest chosen one, on average."""
    return float(np.linalg.norm(points[:, None] - points[chosen], axis=-1).min(1).mean())


def test_the_first_lie_amid_the_others_as_shares_of_the_space_are():
    rng = np.random.default_rng(1)
    guarded = rng.random(1000) < 0.8
    code = rng.normal(size=(1000, 3))
    code[~guarded] *= 3.0  # the few lie at the corners
    known = facts(code, guarded=guarded.astype(int))
    selected = choose(known, 48, {})
    assert len(set(selected)) == 24  # a half of those that are asked for
    assert 8 <= guarded[selected].sum() <= 22
    at_random = [_distance(known.features, rng.choice(1000, 24, replace=False).tolist()) for _ in range(20)]
    assert _distance(known.features, selected) < min(at_random)


def test_of_many_some_stand_for_all():
    known = facts(np.random.default_rng(2).normal(size=(5000, 2)))
    selected = choose(known, 18, {})
    assert len(set(selected)) == 9
    assert _distance(known.features, selected) < 1.0
