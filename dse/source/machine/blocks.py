"""Choose the blocks of a grid to execute, and the number of blocks that each represents.

First comes a census: the control flow of many random blocks is executed, which is cheap. If all blocks of the
grid's inside, of an edge or of a corner execute the same code, one represents the others. Otherwise blocks
that execute the same are a stratum, and one of each is run in full. Some more of the largest are compared
with it: if they differ in the accessed sectors and banks, more blocks are run until the mean is known.

A census that leaves blocks out may miss a few that do far more. So boxes of blocks that provably execute the
same (`alike`), if they make up the grid, give the number of blocks of each stratum. Without a proof, and
without strata in the census, a warning says so.

Source: Cochran, Sampling Techniques, 1977, sections 5.5 and 12.2 (strata, two phases); McKay, Beckman &
Conover, Technometrics 21, 1979 (Latin hypercubes); Wolter, Introduction to Variance Estimation, 2007, section
8.2 (successive differences); Deville & Särndal, JASA 87, 1992 (calibrated weights).
"""

import gc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeVar

import numpy as np

from dse.source.machine.alike import Boxes
from dse.source.machine.launch import Dimensions

TOLERANCE = 0.02  # relative standard error of counts: more blocks are run while it is larger
_FIRST = 32  # blocks of the first census, which measures the cost of more
_MOST = 2**12  # blocks of a census
_WORK = 2**23, 2**25, 2**27  # threads times basic blocks executed, of a census; more if a spread remains
_BYTES = 2**31  # of memory, of a census
_BOXES = 2**8  # that a grid may be cut into even if blocks execute much
_STRATA = 16  # blocks of more kinds are ordered by their instructions, and cut into this many
_CHECKS = 6  # blocks whose accesses are compared
_MEMBERS = 32  # blocks run if accesses differ; more if a spread remains
_MOST_MEMBERS = 2**9

Ran = TypeVar("Ran")
# Runs the control flow of blocks: (how often each executes each piece of code, [pieces, blocks];
# instructions of a piece, and those that access global memory, [2, pieces]; pieces executed one after
# another; bytes of memory).
Control = Callable[[Sequence[Dimensions]], tuple[np.ndarray, np.ndarray, int, int]]
# Proves which blocks execute the same, given the pieces that one executes and the most blocks to run: their
# boxes, each within a cell of the grid, or why not; None if not tried.
Proof = Callable[[int, int], Boxes | str]


@dataclass(frozen=True)
class Sample:
    """Blocks to run, and their weights; those of weight 0 are run to compare their accesses."""

    blocks: tuple[Dimensions, ...]
    weights: tuple[float, ...]  # they add up to the blocks of the grid
    typical: int  # index of the block that represents most work, for detailed views
    largest: int  # of the one that does what most do, and more, for caches
    spread: float = 0.0  # relative standard error of the counts from these blocks
    unseen: int = 0  # blocks without a proof of how much they execute
    doubtful: bool = False  # whether the census does not explain that either


def representative(grid: Dimensions, inside: int = 1) -> Sample:
    """Choose the corners, edges and the inside of a grid: first, middle and last block along each dimension.

    `inside` is the number of blocks taken from the inside of each dimension, spread over it. A dimension of
    up to `inside` + 2 blocks is taken whole.
    """
    axes = [_along(size, inside) for size in grid]
    blocks: dict[Dimensions, float] = {
        (x, y, z): of_x * of_y * of_z for (x, of_x), (y, of_y), (z, of_z) in product(*axes)
    }
    weights = tuple(blocks.values())
    inner = int(np.argmax(weights))
    return Sample(tuple(blocks), weights, inner, inner)


def _along(size: int, inside: int) -> list[tuple[int, float]]:
    """Return (index, number represented) of blocks along one dimension."""
    if size <= inside + 2:
        return [(index, 1.0) for index in range(size)]
    apart = (size - 2) / inside
    return [(0, 1.0), *((1 + int((part + 0.5) * apart), apart) for part in range(inside)), (size - 1, 1.0)]


def sampled(
    grid: Dimensions,
    threads: int,
    control: Control,
    run: Callable[[Sequence[Dimensions]], Ran],
    accessed: Callable[[Ran], np.ndarray],
    prove: Proof,
    cluster: Dimensions = (1, 1, 1),
) -> tuple[Ran, Sample]:
    """Run blocks that represent a grid of blocks of this many threads; whole clusters are drawn.

    `accessed` returns the costs of each block's accesses, [ways, blocks]. `prove` may cover the blocks of a
    large grid that `control` leaves out.

    **Raises:** DseError as `control` and `run`.
    """
    census, members = _Census(grid, threads, control, prove, cluster), 0
    while True:
        sample, strata = census.sample(members)
        ran = run(sample.blocks)
        apart = _spread(accessed(ran), strata, sample.weights)
        wanted = math.ceil(members * (apart / TOLERANCE) ** 2) if members else _MEMBERS
        wanted = min(wanted, census.most_members)
        if apart <= TOLERANCE or wanted <= members:
            break
        members = wanted
    spread = float(np.hypot(census.error, apart))
    return ran, replace(sample, spread=spread, unseen=census.unseen, doubtful=census.doubtful)


def _spread(costs: np.ndarray, strata: np.ndarray, weights: Sequence[float]) -> float:
    """Return the relative standard error of the mean cost: the largest of all ways.

    **Shapes:** costs [ways, blocks], strata [blocks]: -1 for no stratum.
    """
    weighed, seen = np.array(weights), strata >= 0
    used, number = np.unique(strata[seen], return_inverse=True)
    of_stratum = np.eye(len(used))[number]  # [blocks, strata]
    members, of_seen = of_stratum.sum(axis=0), costs[:, seen]
    apart = (of_seen - of_seen @ of_stratum / members @ of_stratum.T) ** 2 @ of_stratum
    several = members > 1
    # A stratum with one block varies as the others do.
    mean = apart.sum(axis=1, keepdims=True) / max((members - 1).sum(), 1)
    within = np.where(several, apart / np.maximum(members - 1, 1), mean)
    sizes, counted = weighed[seen] @ of_stratum, (weighed[seen] > 0.0) @ of_stratum
    left_out = 1.0 - np.minimum(counted / np.maximum(sizes, 1e-300), 1.0)
    variance = within @ (left_out * (weighed[seen] ** 2 @ of_stratum))
    total = costs @ weighed
    return float(np.max(np.sqrt(variance) / np.maximum(total, 1.0), initial=0.0))


class _Census:
    """The code executed by many blocks of a grid. Arrays are [blocks], including those of `corners`."""

    def __init__(
        self, grid: Dimensions, threads: int, control: Control, prove: Proof, cluster: Dimensions
    ) -> None:
        self.cluster = cluster
        self.grid, self.corners, self.count = grid, representative(grid), int(np.prod(grid))
        self.random = np.random.default_rng(_FIRST)
        steps = self._take(_FIRST, control)
        self.most_members = max(_MEMBERS, min(_MOST_MEMBERS, _WORK[0] // (threads * steps)))
        for work in _WORK:
            wanted = min(_MOST, self.count, work // (threads * steps), int(_BYTES / self.bytes))
            if wanted > self.drawn.sum() < self.count:
                self._take_more(wanted, control)
            if self.error <= TOLERANCE / 2:
                break
        self.weights, self.unseen, self.doubtful = self.drawn, 0, False
        if self.drawn.sum() < self.count:
            work = threads * steps
            most = max(_FIRST, min(_BOXES, _WORK[2] // work), min(_MOST, _WORK[1] // work))
            boxes = prove(steps, most)
            if isinstance(boxes, Boxes) and len(boxes.sizes):
                self._take_over(boxes)
            elif isinstance(boxes, str) or not self.alike:  # atomics may part equal code
                self.unseen = self.count - len(self.places)
                few_kinds = not self.alike and bool(self.kind.max() < _STRATA)
                self.doubtful = bool(boxes) and (self.count > 2 * _MOST or not few_kinds)
                if self.doubtful and self.count <= min(most, int(_BYTES / self.bytes)):  # then look at all
                    self._take_more(self.count, control)
                if not self.drawn.sum() < self.count:
                    self.weights, self.unseen, self.doubtful = self.drawn, 0, False

    def _take(self, count: int, control: Control) -> int:
        """Run this many blocks, at most all; return the pieces of code executed."""
        drawn = _drawn(self.grid, self.cluster, count, self.random)
        places, _, where = self._distinct([*drawn, *self.corners.blocks])
        self.counts, self.lengths, steps, held = control(_as_blocks(places))
        self.places, self.corner = places, where[len(drawn) :]  # indices of the corners
        self.drawn = np.bincount(where[: len(drawn)], minlength=len(places))  # how often
        self.bytes = max(held, 1) / len(self.places)  # of a block
        self.proven = False
        self._compare()
        self.means = self.amounts @ self.drawn / len(drawn)
        return max(steps, 1)

    def _take_more(self, count: int, control: Control) -> None:
        """Run more blocks, if memory suffices: so many may look back at each other, one by one."""
        try:
            self._take(count, control)
        except MemoryError:
            self.bytes = np.inf
        if np.isinf(self.bytes):
            gc.collect()  # machines and their instructions know each other

    def _compare(self) -> None:
        """Compute how much each block executes, and which blocks execute the same."""
        self.amounts = np.atleast_2d(self.lengths) @ self.counts
        self.insts = self.amounts[0]
        differing = self.counts[(self.counts != self.counts[:, :1]).any(1)]  # mostly none, or few kinds
        rows = [*{row.tobytes(): row for row in differing}.values()]  # comparing all takes far longer
        self.kind = np.zeros(len(self.places), int)
        if rows:
            self.kind = np.unique(rows, axis=1, return_inverse=True)[1].ravel()
        first, last = self.places == 0, self.places == np.array(self.grid) - 1
        self.cell = (2 * first + last) @ np.array([1, 4, 16])

    def _take_over(self, boxes: Boxes) -> None:
        """Take the means from proven boxes, and the blocks, too, unless the drawn ones agree with them.

        Most blocks of a small grid were drawn: they represent the others well enough.
        """
        own = self.places, self.counts
        places, index, where = self._distinct([*self.places, *boxes.firsts])
        weights = np.bincount(where[len(self.places) :], boxes.sizes, len(places))
        self.places, self.counts = places, np.hstack([self.counts, boxes.counts])[:, index]
        self._compare()
        drawn, self.means = self.means[0], self.amounts @ weights / self.count
        large, apart = self.count > 2 * _MOST and boxes.exact, abs(self.means[0] - drawn)
        if self.alike or not (large or apart > TOLERANCE / 2 * self.means[0]):
            self.places, self.counts = own
            self._compare()
            return
        self.proven, self.weights = True, weights
        self.corner = where[self.corner]

    def _distinct(
        self, blocks: Sequence[np.ndarray | Dimensions]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the distinct blocks in order, the first index of each, and the inverse."""
        places = np.array(blocks).reshape(-1, 3)
        _, y, z = self.grid
        numbers = (places[:, 0] * y + places[:, 1]) * z + places[:, 2]  # faster than to compare rows
        _, index, which = np.unique(numbers, return_index=True, return_inverse=True)
        return places[index], index, which

    @property
    def alike(self) -> bool:
        """Whether the blocks of the inside, of each edge and of each corner execute the same."""
        return len(np.unique(self.kind * 64 + self.cell)) == len(np.unique(self.cell))

    @property
    def error(self) -> float:
        """Relative standard error of a block's mean instructions.

        Draws are in strata along each dimension; neighbours along the most important one differ by chance.
        """
        if self.proven or self.drawn.sum() == self.count:
            return 0.0
        insts, places = (np.repeat(values, self.drawn, axis=0) for values in (self.insts, self.places))
        variance = min(
            float(np.mean(np.diff(insts[np.argsort(places[:, axis], kind="stable")]) ** 2)) / 2
            for axis in range(3)
            if self.grid[axis] > 1
        )
        return float(np.sqrt(variance / len(insts)) / max(self.means[0], 1.0))

    def sample(self, members: int) -> tuple[Sample, np.ndarray]:
        """Choose blocks, and return the stratum of each, -1: none.

        One block of each stratum is chosen, or `members` of all strata together.
        """
        alike = self.alike
        if alike:
            strata, sizes = self.cell, np.bincount(self.cell[self.corner], self.corners.weights)
        else:
            strata = self._strata()
            sizes = np.bincount(strata, self.weights) * self.count / self.weights.sum()
        if alike and not members:
            selected = dict(zip(self.corner.tolist(), self.corners.weights, strict=True))
            typical = largest = int(self.corner[self.corners.typical])
        else:
            selected = self._chosen(strata, sizes, members)
            insts = self.insts[list(selected)]
            work = insts * list(selected.values())  # blocks that leave early represent little of it
            typical = list(selected)[int(np.argmin(np.abs(insts - work @ insts / work.sum())))]
            # A few blocks that do something else, and far more, are none of these.
            largest = list(selected)[int(np.argmax(insts * (2.0 * work >= work.max())))]
        if not members:
            fellows = np.setdiff1d(np.arange(len(strata)), list(selected))
            selected |= dict.fromkeys(self._apart(fellows), 0.0)
        taken = {
            block: (selected[index], strata[index])
            for index, block in zip(selected, _as_blocks(self.places[list(selected)]), strict=True)
        }
        middle, most = _as_blocks(self.places[[typical, largest]])
        for block in _in_line(most, self.grid):  # for the strides of addresses from block to block
            taken.setdefault(block, (0.0, -1))
        blocks = sorted(taken)
        weights, numbers = zip(*(taken[block] for block in blocks), strict=True)
        return Sample(tuple(blocks), weights, blocks.index(middle), blocks.index(most)), np.array(numbers)

    def _apart(self, fellows: np.ndarray) -> list[int]:
        """Choose a few of some blocks, near places that are apart along each dimension of the grid."""
        if not len(fellows):
            return []
        ranks = np.stack([self.random.permutation(_CHECKS) for _ in self.grid], axis=-1)
        places = (ranks + self.random.random(ranks.shape)) / _CHECKS * np.array(self.grid)
        far = np.abs(self.places[fellows] - places[:, None] + 0.5) / np.array(self.grid)
        return np.unique(fellows[far.sum(axis=2).argmin(axis=1)]).tolist()

    def _strata(self) -> np.ndarray:
        """Number the strata of blocks by the code that they execute or, if there are many, by its amount."""
        if self.kind.max() < _STRATA:
            return self.kind
        amounts, amount = np.unique(self.insts, return_inverse=True)
        if len(amounts) <= _STRATA:  # else blocks that leave early may be too few for a stratum
            return amount
        if self.proven:  # by shares of all instructions: a few blocks with many of them are a stratum
            order = np.argsort(self.insts, kind="stable")
            share = np.cumsum((self.insts * self.weights)[order]) / (self.means[0] * self.count)
            bounds = self.insts[order][np.searchsorted(share, np.arange(1, _STRATA) / _STRATA)]
            return np.searchsorted(np.unique(bounds), self.insts)
        bounds = np.quantile(np.repeat(self.insts, self.drawn), np.arange(1, _STRATA) / _STRATA)
        return np.searchsorted(bounds, self.insts)

    def _chosen(self, strata: np.ndarray, sizes: np.ndarray, members: int) -> dict[int, float]:
        """Choose some blocks of each stratum: {index: weight}, with the right means of `amounts`."""
        selected: dict[int, float] = {}
        for stratum in np.flatnonzero(sizes).tolist():
            fellows = self.random.permutation(np.flatnonzero(strata == stratum))
            if not members:
                apart = np.abs(self.insts[fellows] - self.insts[fellows].mean())
                fellows = fellows[np.argsort(apart, kind="stable")]
            fellows = fellows[: max(1, math.ceil(members * sizes[stratum] / self.count))]
            selected |= dict.fromkeys(fellows.tolist(), float(sizes[stratum]) / len(fellows))
        weights = np.array(list(selected.values()))
        relative = self.amounts[:, list(selected)] / np.maximum(self.means, 1e-300)[:, None]
        apart = relative - (relative @ weights / self.count)[:, None]
        apart[np.abs(apart).max(axis=1) < 1e-9] = 0.0
        for ways in range(len(relative), 0, -1):  # if not all of them, instructions
            varies, missing = apart[:ways] * weights @ apart[:ways].T, self.count - relative[:ways] @ weights
            change, _, rank, _ = np.linalg.lstsq(varies, missing, rcond=1e-9)
            factors = 1.0 + change @ apart[:ways]
            if rank == ways and (factors > 0.0).all():
                weights = weights * factors
                break
        return dict(zip(selected, weights.tolist(), strict=True))


def _in_line(block: Dimensions, grid: Dimensions) -> list[Dimensions]:
    """Return the first, next and last blocks of the grid along each dimension through a block."""
    x, y, z = block
    along = [(0, min(at + 1, size - 1), size - 1) for at, size in zip(block, grid, strict=True)]
    return [*((i, y, z) for i in along[0]), *((x, i, z) for i in along[1]), *((x, y, i) for i in along[2])]


def _as_blocks(places: np.ndarray) -> list[Dimensions]:
    return [(x, y, z) for x, y, z in places.tolist()]


def _drawn(grid: Dimensions, cluster: Dimensions, count: int, random: np.random.Generator) -> np.ndarray:
    """Draw this many blocks, each cluster in its own stratum along each dimension; all, if half or more."""
    if 2 * count >= math.prod(grid):
        return np.stack(np.meshgrid(*map(np.arange, grid), indexing="ij"), axis=-1).reshape(-1, 3)
    count = -(-count // math.prod(cluster))
    ranks = np.stack([random.permutation(count) for _ in grid], axis=-1)
    clusters = ((ranks + random.random(ranks.shape)) / count * np.array(grid) // cluster).astype(int)
    return (clusters[:, None] * cluster + np.indices(cluster).reshape(3, -1).T).reshape(-1, 3)
