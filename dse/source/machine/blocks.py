"""Chooses the blocks of a grid that are run, and how many of the others each represents."""

from dataclasses import dataclass

from dse.source.machine.launch import Dimensions


@dataclass(frozen=True)
class Sample:
    """Blocks to run, and their weights; `checks` are of the inside too, but weigh nothing.

    A check whose counts differ from those of its fellows tells that blocks inside the grid are not alike.
    """

    blocks: tuple[Dimensions, ...]
    weights: tuple[float, ...]  # they add up to the blocks of the grid
    inside: tuple[int, ...]  # indices of the blocks that touch no edge, with a weight or without


def representative(grid: Dimensions, inside: int = 1) -> Sample:
    """Choose the corners, edges and the inside of a grid: first, middle and last block along each dimension.

    `inside` is the number of blocks taken from the inside of each dimension, spread over it: more where
    blocks differ with the data. A second one of the inside is run as a check. A dimension of up to `inside`
    + 2 blocks is taken whole.
    """
    axes = [_along(size, inside) for size in grid]
    blocks: dict[Dimensions, float] = {}
    within: set[Dimensions] = set()
    for x, weight_x, edge_x in axes[0]:
        for y, weight_y, edge_y in axes[1]:
            for z, weight_z, edge_z in axes[2]:
                blocks[x, y, z] = weight_x * weight_y * weight_z
                if not (edge_x or edge_y or edge_z):
                    within.add((x, y, z))
    if within:
        taken = [{block[axis] for block in within} for axis in range(3)]
        check = (_other(grid[0], taken[0]), _other(grid[1], taken[1]), _other(grid[2], taken[2]))
        if check not in blocks:
            blocks[check] = 0.0
            within.add(check)
    indices = tuple(index for index, block in enumerate(blocks) if block in within)
    return Sample(tuple(blocks), tuple(blocks.values()), indices)


def _along(size: int, inside: int) -> list[tuple[int, float, bool]]:
    """(index, how many it represents, whether it is an edge) of those taken along one dimension."""
    if size <= inside + 2:
        return [(index, 1.0, size > 1 and index in (0, size - 1)) for index in range(size)]
    apart = (size - 2) / inside
    middle = [(1 + int((part + 0.5) * apart), apart, False) for part in range(inside)]
    return [(0, 1.0, True), *middle, (size - 1, 1.0, True)]


def _other(size: int, taken: set[int]) -> int:
    """Find an index inside a dimension that is not taken, if there is one."""
    for index in (size // 3, 2 * size // 3, *range(1, min(size - 1, 8))):
        if 0 < index < size - 1 and index not in taken:
            return index
    return next(iter(taken))
