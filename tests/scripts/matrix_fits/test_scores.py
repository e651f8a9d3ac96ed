"""Scores of rankings: hits and depths by hand, chance, and that knowing the answer scores fully."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from matrix_fits.records import NearBest, Recorded
from matrix_fits.scores import Trained, depths, near_best_hits, rates, recorded_depths, tried

from dse.explore.matrix.devices import gpu_file
from dse.explore.matrix.prior import Prior
from dse.explore.matrix.rank import predict
from dse.models.matrix.configuration import space
from dse.models.matrix.constants import default
from dse.models.matrix.problem import Product

WIDE, MOE = space("wide"), space("moe")
TRIED = frozenset(map(tuple, WIDE[:, :4].tolist()))
PRODUCT = Product(64, 4096, 2048, 16, 2, routing="even")


def trained(*counted: tuple[int, ...]) -> Trained:
    return Trained(default(), Prior({}, {}), 0.02, Counter(counted))


def predicted(table: np.ndarray) -> np.ndarray:
    return predict([gpu_file("A100")], [PRODUCT], table, default())[0, 0]


def case(place: int) -> NearBest:
    """A case whose only best configuration stands at `place` of the predicted order."""
    times = predicted(WIDE)
    selected = int(np.argsort(times, kind="stable")[place])
    return NearBest("A100", PRODUCT, (tuple(WIDE[selected].tolist()),), (2 * float(times.min()),), TRIED)


def test_hits_of_what_is_predicted_first_and_far_behind():
    actual, errors = near_best_hits([case(0), case(2000)], trained())
    np.testing.assert_array_equal(actual["physics"], [[1, 1, 1], [0, 0, 0]])
    np.testing.assert_array_equal(actual["both"], actual["physics"])  # no opinion changes nothing
    np.testing.assert_allclose(errors, -0.5, rtol=1e-5)
    assert rates([actual])["physics"] == {"top1": 0.5, "top3": 0.5, "top10": 0.5}


def test_space_of_sets_has_their_tiles_with_their_groups_alone():
    searched = replace(case(0), tried=frozenset({(16, 16, 256, 4), (64, 128, 64, 16)}))
    table = tried([searched])
    assert {tuple(row) for row in table[:, :4].tolist()} == searched.tried
    assert len(table) == 2 * 2 * 4  # warps and stages


def test_popularity_is_what_was_counted_and_chance():
    single = case(2000)
    actual, _ = near_best_hits([single], trained(*single.configurations))
    np.testing.assert_array_equal(actual["popularity"], [[1, 1, 1]])
    single = case(0)
    actual, _ = near_best_hits([single], trained())
    there = int(np.isfinite(predicted(WIDE)).sum())
    np.testing.assert_allclose(actual["random"], [[1 / there, 3 / there, 10 / there]])


@pytest.mark.parametrize("place", [0, 192, 960])
def test_depth_is_the_share_ranked_before(place: int):
    times = predicted(MOE)
    selected = MOE[np.argsort(times, kind="stable")[place]]
    single = Recorded("A100", "moe", True, (PRODUCT,), tuple(selected.tolist()), ())
    actual, tiles = recorded_depths([single], trained())
    assert actual["physics"][0] == pytest.approx(place / len(MOE), abs=2e-3)  # some times are equal
    assert actual["random"][0] == pytest.approx(0.5, abs=1e-3)
    assert tiles["physics"][0] == (selected[:3].tolist() == MOE[np.argmin(times)][:3].tolist())


def test_depths_in_short():
    actual = depths({"physics": np.array([0.0, 0.04, 0.08, 0.5])})["physics"]
    assert actual == {"median_percentile": 0.06, "top_5_percent": 0.5, "top_10_percent": 0.75}
