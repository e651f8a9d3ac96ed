"""Which configurations are compiled first."""

import numpy as np

from dse.source.estimate.active_sampling import _amid


def _distance(points: np.ndarray, chosen: list[int]) -> float:
    """From a point to the nearest chosen one, on average."""
    return float(np.linalg.norm(points[:, None] - points[chosen], axis=-1).min(1).mean())


def test_the_first_lie_amid_the_others_as_shares_of_the_space_are():
    rng = np.random.default_rng(1)
    guarded = rng.random(1000) < 0.8
    points = np.c_[2.0 * guarded, rng.normal(size=(1000, 3))]
    points[~guarded] *= 3.0  # the few lie at the corners
    chosen = _amid(points, 24)
    assert len(set(chosen)) == 24
    assert 8 <= guarded[chosen].sum() <= 22
    at_random = [_distance(points, rng.choice(1000, 24, replace=False).tolist()) for _ in range(20)]
    assert _distance(points, chosen) < min(at_random)


def test_of_many_some_stand_for_all():
    points = np.random.default_rng(2).normal(size=(5000, 2))
    chosen = _amid(points, 9)
    assert len(set(chosen)) == 9
    assert _distance(points, chosen) < 1.0
