"""Rankings: what each is by, and the order in which configurations are tried."""

import numpy as np

from dse.explore.matrix.rank import first, order, predict, scores
from dse.hardware import gpus
from dse.models.matrix.configuration import PARAMETERS, space
from dse.models.matrix.problem import Product

A100, L40 = (gpus.load(name) for name in ("a100-sxm", "l40"))
TABLE = space("moe")
PRODUCTS = [Product(tokens, 4096, 2048, experts=64, topk=6) for tokens in (1, 64, 2048)]


def test_physics_is_the_predicted_time_and_both_lie_between():
    by = {name: scores(A100, PRODUCTS, TABLE, name) for name in ("physics", "prior", "both")}
    np.testing.assert_allclose(by["physics"], np.log(predict([A100], PRODUCTS, TABLE)[0]))
    there = np.isfinite(by["physics"])
    np.testing.assert_allclose(by["both"][there], (by["physics"] + by["prior"])[there])
    assert np.isinf(by["both"][~there]).all()
    last = order(scores(L40, PRODUCTS, TABLE), TABLE)[:, -1]
    assert not np.isfinite(predict([L40], PRODUCTS, TABLE[last])[0]).any()


def test_groups_of_a_tile_come_after_other_tiles_as_good():
    table = np.array([[16, 64, 64, group, 4, 3] for group in (1, 16, 32)] + [[32, 64, 64, 1, 4, 3]])
    score = np.array([[0.0, 0.001, 0.002, 0.01]])
    np.testing.assert_array_equal(order(score, table, alike=[((3,), 0.02)]), [[0, 3, 1, 2]])
    np.testing.assert_array_equal(order(score, table, alike=()), [[0, 1, 2, 3]])
    table[:3, 3], table[:3, 5] = 1, (2, 3, 4)  # stages
    np.testing.assert_array_equal(order(score, table, alike=[((3, 5), 0.02)]), [[0, 3, 1, 2]])


def test_the_first_follow_the_rows():
    ranked = first(A100, PRODUCTS, 3, TABLE)
    tiles = [rows[0]["BLOCK_SIZE_M"] for rows in ranked]
    assert tiles == sorted(tiles)
    assert tiles[0] < tiles[-1]
    for product, rows in zip(PRODUCTS, ranked, strict=True):
        table = np.array([[row[name] for name in PARAMETERS] for row in rows])
        assert len(rows) == len(np.unique(table, axis=0)) == 3
        np.testing.assert_allclose([row["time_s"] for row in rows], predict([A100], [product], table)[0, 0])
