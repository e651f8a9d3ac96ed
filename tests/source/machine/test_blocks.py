"""Blocks that stand for a grid."""

from hypothesis import given
from hypothesis import strategies as st

from dse.source.machine.blocks import representative

GRIDS = st.tuples(st.integers(1, 40), st.integers(1, 40), st.integers(1, 5))


@given(grid=GRIDS, inside=st.integers(1, 3))
def test_weights_add_up_to_the_grid(grid, inside):
    sample = representative(grid, inside)
    assert abs(sum(sample.weights) - grid[0] * grid[1] * grid[2]) < 1e-6 * grid[0] * grid[1] * grid[2]
    assert len(set(sample.blocks)) == len(sample.blocks)
    assert all(0 <= place < size for block in sample.blocks for place, size in zip(block, grid, strict=True))


@given(grid=GRIDS)
def test_edges_stand_for_edges(grid):
    """Whatever depends on which edges a block touches, and on nothing else, comes out exactly."""

    def work(block: tuple[int, int, int]) -> int:
        value = 1
        for place, size in zip(block, grid, strict=True):
            value = 7 * value + (place == 0) + 3 * (place == size - 1)
        return value

    sample = representative(grid)
    found = sum(weight * work(block) for block, weight in zip(sample.blocks, sample.weights, strict=True))
    every = ((x, y, z) for x in range(grid[0]) for y in range(grid[1]) for z in range(grid[2]))
    expected = sum(map(work, every))
    assert abs(found - expected) < 1e-9 * expected


def test_small_grids_are_taken_whole_large_ones_have_a_check():
    assert representative((3, 2, 1)).weights == (1.0,) * 6
    sample = representative((100, 100, 1))
    assert len(sample.blocks) == 10
    assert sample.weights[-1] == 0.0
    assert len(sample.inside) == 2
