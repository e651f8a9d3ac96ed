"""Products as a caller knows them: rows, experts, and the tiles to expect of random routing."""

import numpy as np
import pytest

from dse.errors import DseError
from dse.models.matrix.problem import Product, active_experts, experts_layer, launched_row_tiles, row_tiles


def test_a_layer_of_experts_is_two_products():
    first, second = experts_layer(64, 8, 2, hidden=4096, intermediate=14336)
    assert (first.columns, first.depth) == (28672, 4096)
    assert (second.columns, second.depth) == (4096, 14336)
    assert first.rows == second.rows == 128
    assert first.shared_rows
    assert not second.shared_rows
    single = Product(128, 64, 64, experts=128, topk=8)
    assert launched_row_tiles([single], (16,))[0, 0] == (1024 + 128 * 15) // 16
    few = Product(4, 64, 64, experts=128, topk=8)  # fewer tokens than rows of a tile: one tile a row at most
    assert launched_row_tiles([few], (16,))[0, 0] == 32


@pytest.mark.parametrize(("tokens", "experts", "topk"), [(1, 8, 2), (48, 16, 4), (512, 64, 6), (4096, 8, 2)])
def test_tiles_at_random_are_those_of_a_simulation(tokens: int, experts: int, topk: int):
    single, heights = Product(tokens, 64, 64, experts, topk), (16, 64, 256)
    random = np.random.default_rng(0)
    tiles, active, draws = np.zeros(3), 0, 400
    for _ in range(draws):
        selected = random.random((tokens, experts)).argpartition(topk - 1, axis=1)[:, :topk]
        rows = np.bincount(selected.ravel(), minlength=experts)
        tiles += [np.ceil(rows / height).sum() for height in heights]
        active += (rows > 0).sum()
    np.testing.assert_allclose(row_tiles([single], heights)[0], tiles / draws, rtol=0.02)  # 400 draws
    np.testing.assert_allclose(active_experts([single])[0], active / draws, rtol=0.02)


def test_tiles_of_even_routing_of_one_expert_and_of_batches():
    single = Product(96, 64, 64, experts=8, topk=2, routing="even")  # 24 rows an expert
    np.testing.assert_array_equal(row_tiles([single], (16, 32)), [[16, 8]])
    few = Product(3, 64, 64, experts=8, topk=1, routing="even")
    np.testing.assert_array_equal(row_tiles([few], (16,)), [[3]])
    assert active_experts([few]) == 3
    single = Product(100, 64, 64)
    np.testing.assert_array_equal(row_tiles([single], (16, 64)), [[7, 2]])
    np.testing.assert_array_equal(launched_row_tiles([single], (16, 64)), [[7, 2]])
    single, batch = Product(100, 64, 64), Product(8 * 100, 64, 64, experts=8, topk=1, routing="batch")
    assert active_experts([batch]) == 8
    np.testing.assert_array_equal(row_tiles([batch], (16, 64)), 8 * row_tiles([single], (16, 64)))
    np.testing.assert_array_equal(launched_row_tiles([batch], (16, 64)), row_tiles([batch], (16, 64)))


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"tokens": 0}, "product: tokens: found 0, expected a whole number from 1 to 2,147,483,647"),
        ({"tokens": 1 << 31}, "product: tokens: found 2147483648, expected a whole number from 1"),
        ({"operands": "fp4"}, "product: operands: found 'fp4', expected one of bf16"),
        ({"routing": "by turns"}, "routing: found 'by turns', expected one of random, even, batch, skewed"),
        ({"skew": 1.0}, "product: skew: found 1.0, expected a number above 1"),
    ],
)
def test_mistakes_are_reported(given: dict, line: str):
    with pytest.raises(DseError, match=line):
        Product(**{"tokens": 1, "columns": 64, "depth": 64, **given})


def test_skewed_loads_are_all_rows_and_spread_unevenly():
    """As many rows as tokens have experts; the busiest expert has far more than its share, no token twice."""
    single = Product(1024, 64, 64, experts=64, topk=4, routing="skewed", skew=1.2)
    even = Product(1024, 64, 64, experts=64, topk=4, routing="even")
    assert row_tiles([single], [1])[0, 0] == single.rows
    assert row_tiles([single], [128])[0, 0] > row_tiles([even], [128])[0, 0] - 64
    assert active_experts([single])[0] <= 64
    few = Product(2, 64, 64, experts=64, topk=4, routing="skewed")
    assert 4 <= active_experts([few])[0] <= 8
