"""Blocks that stand for a grid."""

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.source.machine.alike import Boxes
from dse.source.machine.blocks import TOLERANCE, Sample, representative, sampled
from dse.source.machine.launch import Dimensions

Controlled = tuple[np.ndarray, np.ndarray, int, int]
Control = Callable[[Sequence[Dimensions]], Controlled]
Prove = Callable[[int, int], Boxes | str]
GRIDS = st.tuples(st.integers(1, 40), st.integers(1, 40), st.integers(1, 5))


@given(grid=GRIDS, inside=st.integers(1, 3))
def test_edges_stand_for_edges(grid, inside):
    """Whatever depends on which edges a block touches, and on nothing else, comes out exactly."""

    def work(block: tuple[int, int, int]) -> int:
        value = 1
        for place, size in zip(block, grid, strict=True):
            value = 7 * value + (place == 0) + 3 * (place == size - 1)
        return value

    sample = representative(grid, inside)
    assert sum(sample.weights) == pytest.approx(prod(grid))
    assert len(set(sample.blocks)) == len(sample.blocks)
    actual = sum(weight * work(block) for block, weight in zip(sample.blocks, sample.weights, strict=True))
    every = ((x, y, z) for x in range(grid[0]) for y in range(grid[1]) for z in range(grid[2]))
    expected = sum(map(work, every))
    assert abs(actual - expected) < 1e-9 * expected


def blocks_of(grid: Dimensions) -> list[Dimensions]:
    return [(x, y, z) for x in range(grid[0]) for y in range(grid[1]) for z in range(grid[2])]


WORK = {
    "alike": lambda x, y, grid: 20,
    "period 2": lambda x, y, grid: (10, 100)[x % 2],
    "triangle": lambda x, y, grid: x + y + 1,
    "saw": lambda x, y, grid: 4 * (x % 32) + 1,
    "masked end": lambda x, y, grid: (1, 50)[7 * x < 5 * grid[0]],
    "few first": lambda x, y, grid: (1, 50)[6 * x < grid[0]],
    # Seldom others: seen where blocks execute otherwise, but hardly where only their accesses cost more.
    "period 16": lambda x, y, grid: (40, 10)[x % 16 > 0],
    "period 64": lambda x, y, grid: (100, 10)[x % 64 > 0],
    "last row": lambda x, y, grid: (y, 3)[y < grid[1] - 1],
}


@pytest.mark.parametrize("grid", [(4096, 1, 1), (64, 300, 1)])
@pytest.mark.parametrize(
    ("name", "executed"), [*((name, True) for name in WORK), *((name, False) for name in list(WORK)[:6])]
)
def test_what_blocks_differ_in_comes_out_within_the_stated_spread(name, executed, grid):
    """Whatever blocks differ in: how much they execute, or what their accesses cost."""
    work, ran = WORK[name], []

    def of(blocks: Sequence[Dimensions], differ: bool) -> np.ndarray:
        return np.array([[work(x, y, grid) if differ else 7.0 for x, y, _ in blocks]], float)

    def run(blocks: Sequence[Dimensions]) -> Sequence[Dimensions]:
        ran.append(len(blocks))
        return blocks

    def control(blocks: Sequence[Dimensions]) -> Controlled:
        return of(blocks, executed), np.ones(1), 10, 0

    alike = name == "alike" or not executed
    proof = Boxes.alike(1) if alike else "not tried"
    blocks, sample = sampled(
        grid, 128, control, run, lambda blocks: of(blocks, not executed), lambda steps, most: proof
    )
    assert blocks == sample.blocks
    assert max(ran) < 2**9 + 90
    assert sample.spread <= TOLERANCE or max(ran) > 2**9
    assert sum(sample.weights) == pytest.approx(prod(grid))
    assert (sample.unseen > 0) == (prod(grid) > 2**13 and not alike)
    mean = of(blocks, True)[0] @ sample.weights / prod(grid)
    expected = of(blocks_of(grid), True).mean()
    assert abs(mean - expected) <= (4 * sample.spread + 1e-9) * expected


def looked_at(grid: Dimensions, most: int, control: Control, prove: Prove) -> tuple[list[Dimensions], Sample]:
    """Blocks whose accesses all cost the same."""
    return sampled(grid, most, control, list, lambda blocks: np.zeros((1, len(blocks))), prove)


def test_blocks_may_execute_as_much_in_other_ways():
    def control(blocks: Sequence[Dimensions]) -> Controlled:
        odd = np.array([x % 2 for x, _, _ in blocks])
        return np.array([odd, 1 - odd]) * 0.1, np.array([3.0, 3.0]), 10, 0

    blocks, sample = looked_at((1024, 1, 1), 128, control, lambda steps, most: "not tried")
    assert sample.spread == 0
    odd = sum(weight for (x, _, _), weight in zip(blocks, sample.weights, strict=True) if x % 2)
    assert odd == pytest.approx(512)
    assert sum(sample.weights) == pytest.approx(1024)


def test_fewer_blocks_are_looked_at_where_memory_ends():
    def control(blocks: Sequence[Dimensions]) -> Controlled:
        if len(blocks) > 100:
            raise MemoryError
        return np.array([[1 + x % 5 for x, _, _ in blocks]]), np.ones(1), 1, 1

    blocks, sample = looked_at((2000, 1, 1), 64, control, lambda steps, most: "by data")
    assert len(blocks) <= 100
    assert sample.unseen >= 1900


def test_few_blocks_that_leave_early_count_among_many_kinds():
    def control(blocks: Sequence[Dimensions]) -> Controlled:
        kinds = np.array([20 if x >= 1000 else x % 20 for x, _, _ in blocks])
        return (kinds == np.arange(21)[:, None]) * 1.0, np.where(np.arange(21) < 20, 100.0, 10.0), 10, 0

    blocks, sample = looked_at((1024, 1, 1), 128, control, lambda steps, most: "not tried")
    assert sum(weight for (x, _, _), weight in zip(blocks, sample.weights, strict=True) if x >= 1000) == 24


@pytest.mark.parametrize(("count", "proven"), [(768, False), (9216, True)])
def test_instructions_and_accesses_are_those_of_all_blocks(count, proven):
    """Of 96 kinds of blocks 16 strata are run: loops unrolled by 4 do not execute as much for each access."""
    grid, alike = (count, 1, 1), count // 96

    def amounts(blocks: Sequence[Dimensions]) -> np.ndarray:
        trips = np.array([1 + x // alike for x, _, _ in blocks])
        return np.array([trips // 4, trips % 4], float)

    def prove(steps: int, most: int) -> Boxes | str:
        firsts = [(alike * kind, 0, 0) for kind in range(96)]
        return Boxes(np.array(firsts), np.full(96, alike), amounts(firsts), False) if proven else "not tried"

    lengths = np.array([[14.0, 8.0], [4.0, 1.0]])
    blocks, sample = looked_at(grid, 128, lambda blocks: (amounts(blocks), lengths, 10, 0), prove)
    every = lengths @ amounts(blocks_of(grid)).sum(axis=1)
    np.testing.assert_allclose(lengths @ amounts(blocks) @ sample.weights, every)
