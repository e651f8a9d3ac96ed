"""Find the sectors of a block that other blocks of the grid touch too: earlier on the same SM, or anywhere.

Addresses are linear in the block's position in the grid, so the footprints of other blocks are that of this
one, moved. So it is known for each sector how many blocks ago it was last touched. Blocks run on any SM with
equal probability, which gives the number of earlier blocks on the same SM. The L2 holds the sectors of all
blocks as far back as their footprints fit together; blocks that run at the same time share what they load.
Addresses that are not linear are followed through many blocks (`dse.source.caches.reuse`) or, if that is
impossible, assumed to be anywhere in their array, more often where a sample of other blocks' addresses are.

Source: growth of footprints with the window, after Xiang, Ding, Luo & Bao, HOTL, ASPLOS 2013.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from dse.hardware.coalescing import LINE, SECTOR
from dse.source.caches.reuse import NOTHING_FOLLOWED, Followed, Sharing
from dse.source.caches.sectors import (
    APART,
    IN_LINE,
    MOST_ACCESSES,
    SectorAccesses,
    ranges,
    touched,
)
from dse.source.machine.blocks import Sample, representative
from dse.source.machine.launch import Dimensions

ROUNDS = 50  # of a fixed-point iteration

# Limits of the work: earlier blocks considered, and runs of their footprint that are tried first. Kernels
# above them lose sharing between distant blocks.
_MOST_BLOCKS = 2**13
_TRIED_RUNS = 64
_NEVER = 2**40  # blocks ago
_FETCHED = 2  # minimum sectors per fetch from DRAM


@dataclass
class _Cover:
    """The parts of a footprint that other blocks, moved by a shift, touch: pairs of a sector and a shift."""

    sector: np.ndarray  # [pairs] index in the footprint
    shift: np.ndarray  # [pairs]
    of_block: np.ndarray  # [blocks] shift of each other block; -1 if it touches nothing
    shifts: int

    def count(self, amounts: np.ndarray, sectors: int) -> np.ndarray:
        """Sum the `amounts` of the blocks that touch each sector: [sectors]."""
        there = self.of_block >= 0
        of_shift = np.bincount(self.of_block[there], amounts[there], minlength=self.shifts)
        return np.bincount(self.sector, of_shift[self.shift], minlength=sectors)

    def least(self, amounts: np.ndarray, covered: np.ndarray) -> None:
        """Lower `covered` to the minimum of `amounts` over the blocks that touch each sector."""
        of_shift = np.full(self.shifts, _NEVER)
        there = self.of_block >= 0
        np.minimum.at(of_shift, self.of_block[there], amounts[there])
        np.minimum.at(covered, self.sector, of_shift[self.shift])


class Footprint:
    """The distinct sectors of a block, and the other blocks that touch them too.

    Both later and earlier blocks are considered: in a chain of blocks that share a sector one is the first,
    and one the last. Either direction alone would depend on this block's position in the chain.
    """

    def __init__(
        self,
        accesses: SectorAccesses,
        grid: Dimensions,
        followed: Followed = NOTHING_FOLLOWED,
        relative: Mapping[int, float] = MappingProxyType({}),
    ) -> None:
        """An average block touches `relative` times as much of an array."""
        first = accesses.first
        self.grid, self.phases = grid, accesses.phases
        self.sector, self.phase, self.times = (
            column[first] for column in (accesses.sector, accesses.phase, accesses.times)
        )
        self.arrays, self.array = np.unique(accesses.array[first], return_inverse=True)
        if followed.sectors:  # skipped trips touch as many, wherever they lie
            insts = accesses.inst[first]
            for inst, sectors in followed.sectors.items():
                self.times[insts == inst] *= sectors / max(self.times[insts == inst].sum(), 1e-300)
        self.of_run = _of_run(self.sector, accesses.turn[first] * self.phases + self.phase)
        self.cached = np.zeros(len(first), bool)
        self.cached[np.searchsorted(self.sector, accesses.sector[accesses.cached])] = True
        before, distance = _before(grid)
        moves, distance = np.concatenate([before, -before]), np.concatenate([distance, distance])
        by_step: dict[tuple[int, ...], list[int]] = {}
        for number, step in enumerate(accesses.families.step.tolist()):
            by_step.setdefault(tuple(step), []).append(number)
        covers = [
            _cover(self.sector, moves @ np.array(step), *accesses.runs_of(families), accesses.together)
            for step, families in by_step.items()
        ]
        reached = np.zeros(len(moves), bool)
        for cover in covers:
            reached |= cover.of_block >= 0
        self.covers = [replace(cover, of_block=cover.of_block[reached]) for cover in covers]
        self.moves, self.distance = moves[reached], distance[reached]  # [blocks, 3], [blocks]
        self.later = (np.arange(len(moves)) >= len(before))[reached]
        self.scattered, self.near, self.within = _scattered(
            accesses, first, self.times, int(np.prod(grid)), followed.shared, relative
        )
        step = np.where(np.isin(accesses.families.step, APART), 0, accesses.families.step)
        parted = (step % (SECTOR * accesses.together)).max(axis=1) > 0  # blocks take parts of a sector
        self.parted = parted[accesses.family[first]]
        every = np.ones(len(self.moves), bool)
        self.nearest = self._nearest(every)
        as_one = 2 / (self._sharing(every) + 1)  # blocks that move together, either way, meet as one
        self.scattered, self.near = self.scattered * as_one, self.near * as_one
        self.reuse, self.evenly = followed.reuse, np.ones(len(first))  # 1 for the sectors handled here
        if self.reuse is not None:
            self.evenly[accesses.of(self.reuse.steps)[first]] = 0.0

    def _nearest(self, there: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Count blocks since each sector was touched, and until it is again, of those `there`: [sectors]."""
        distances = []
        for later in (False, True):
            distance = np.where(there & (self.later == later), self.distance, _NEVER)
            nearest = np.full(len(self.sector), _NEVER)
            for cover in self.covers:
                cover.least(distance, nearest)
            distances.append(nearest)
        return distances[0], distances[1]

    def _sharing(self, there: np.ndarray) -> np.ndarray:
        """Count the blocks, of those `there` and this one, that touch each sector: [sectors]."""
        counts = (cover.count(there.astype(float), len(self.sector)) for cover in self.covers)
        return sum(counts, np.ones(len(self.sector)))

    def _left(self, chance: np.ndarray) -> np.ndarray:
        """Sum the probabilities that other blocks, earlier and later ones, leave each sector: [sectors]."""
        total = np.zeros(len(self.sector))
        for cover in self.covers:
            total += cover.count(chance, len(total))
        return total

    def chance(self, l1_bytes: float, sm_count: int) -> np.ndarray:
        """Return the probability that a block ran on the same SM, and is still in its L1: [2, blocks]."""
        if int(np.prod(self.grid)) <= sm_count:  # each block has an SM of its own
            return np.zeros((2, len(self.distance)))
        lines = len(np.unique(self.sector // IN_LINE)) / max(l1_bytes / LINE, 1e-9)
        ran = kept = np.full(len(self.distance), 1.0 / sm_count)
        new, of_ran = 1.0, self._left(ran)
        for _ in range(ROUNDS if len(self.sector) else 0):  # hits fill no line
            kept = ran * np.exp(-self.distance * (new * lines / sm_count))
            before, new = new, float(_not_left(of_ran, self._left(kept)).mean())
            if new == before:
                break
        return np.stack([ran, kept])

    def first(
        self,
        sample: Sample,
        weights: Mapping[int, np.ndarray],
        l1_chance: np.ndarray,
        back: float,
        wave: int,
        own: float | np.ndarray = 0.0,
        gone: float = 0.0,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Count the first touches of sectors, in the L1 of their SM and in the L2, and runs of these:
        all [phases].

        Each block of the sample touches this footprint, moved to its position in the grid, times its weight,
        of each array: [blocks], or blocks at the grid's ends and inside do, if the sample has none there.
        `own` is the probability that the block itself has stored a sector in the L2 before: [sectors].
        `gone` is that of replacement between the requests of two blocks of a wave.
        """
        of_l1, of_l2, runs, requested = np.zeros((4, self.phases))
        times = self.evenly * self.times * (1.0 - own)
        of_blocks = np.array([weights[array] for array in self.arrays.tolist()]).reshape(
            -1, len(sample.blocks)
        )
        for block, weight in zip(*_placed(sample, of_blocks, self.grid), strict=True):
            if not weight.any():
                continue
            weight = weight[self.array]
            at = self.moves + np.array(block)
            there = np.asarray(((at >= 0) & (at < np.array(self.grid))).all(axis=1))
            alone = _not_left(*map(self._left, there * l1_chance)) * self.cached
            before, after = (self._new(nearest, back, wave) for nearest in self._nearest(there))
            of_l1 += np.bincount(self.phase, weight * self.times * alone, minlength=self.phases)
            requests = weight * self.times * np.where(self.cached, alone, 1.0)
            requested += np.bincount(self.phase, requests, minlength=self.phases)
            mean = (before + after) / 2
            if self.parted.any():  # which part a block takes decides whether it is the first
                sharing = self._sharing(there & (self.distance <= max(back, wave)))
                mean = np.where(self.parted & (self.scattered == 0), 1.0 / sharing, mean)
            new = weight * times * mean
            of_l2 += np.bincount(self.phase, new, minlength=self.phases)
            runs += np.bincount(self.phase, new * self.of_run, minlength=self.phases)
        if self.reuse is not None:
            followed = self.reuse.new(back)
            of_l2[: len(followed)] += followed
            per_sector = self._runs_of(self.times * (1.0 - self.evenly))[: len(followed)]
            runs[: len(followed)] += followed * per_sector
        again = gone * np.maximum(requested - of_l2, 0.0)
        return of_l1, of_l2 + again, runs + again * self._runs_of(self.times)

    def _runs_of(self, sectors: np.ndarray) -> np.ndarray:
        """Return the runs per sector, for an amount of each of the `sectors`: [phases].

        A phase without any, as the last trip of a loop that loads ahead, has those of the block.
        """
        of_all, of_runs = (
            np.bincount(self.phase, weights, minlength=self.phases)
            for weights in (sectors, sectors * self.of_run)
        )
        mean = of_runs.sum() / max(of_all.sum(), 1e-300)
        return np.where(of_all > 0.0, of_runs / np.maximum(of_all, 1e-300), mean)

    def _new(self, nearest: np.ndarray, back: float, wave: int) -> np.ndarray:
        """Return the probability that a sector is not in the L2, or no longer: [sectors].

        Blocks of one wave run together and share what they load. If the L2 cannot hold what a wave touches,
        nothing is left of the previous wave.
        """
        blocks = int(np.prod(self.grid))
        if back < wave:
            # A wave may end between two blocks: always, if they are as far apart as a wave.
            near = np.minimum(nearest, wave - 1)
            ends = np.where(nearest < wave, near * (blocks - wave) / (wave * (blocks - near)), 1.0)
            return ends * _mean_new(self._touched(wave))
        touched = self._touched(min(back, blocks))
        # the share of blocks that look back to the first that they meet
        early = touched / np.maximum(self._touched(blocks), 1e-300)
        return (nearest > back) * (early * _mean_new(touched) + (1.0 - early) * np.exp(-touched))

    def _touched(self, blocks: float, far: bool = True) -> np.ndarray:
        """Return how often other ones of so many consecutive blocks, or nearby ones only, touch a sector, by
        chance: [sectors].
        """
        return far * self.scattered * blocks + self.near * np.minimum(blocks / self.within, 1.0)

    def grown(self, blocks: float, far: bool = True) -> float:
        """Return the number of distinct sectors that this many consecutive blocks touch.

        Without `far`, what blocks share by chance at any time counts for each.
        """
        if not self.evenly.any():  # all are followed
            return 0.0 if self.reuse is None else self.reuse.grown(blocks)
        before, after = (np.minimum(nearest, blocks) for nearest in self.nearest)
        apiece = (before + after) / 2 * _mean_new(self._touched(blocks, far))
        if self.parted.any():
            apart = blocks / self._sharing(self.distance < blocks)
            apiece = np.where(self.parted & (self.scattered == 0), np.maximum(apart, 1.0), apiece)
        even = float((self.evenly * self.times * apiece).sum())
        return even if self.reuse is None else even + self.reuse.grown(blocks)


def _placed(sample: Sample, weights: np.ndarray, grid: Dimensions) -> tuple[Sequence[Dimensions], np.ndarray]:
    """Return blocks and their weights, [blocks, arrays], with as many at the ends of the grid as there are.

    Those of a sample may have been chosen by what they do: then the grid's ends and its inside, all alike.
    **Shapes:** weights [arrays, blocks].
    """
    places, own = np.array(sample.blocks), np.array(sample.weights) / np.prod(grid)
    ends = [own @ (places[:, axis] == at) * size for axis, size in enumerate(grid) for at in (0, size - 1)]
    if min(ends) > 0.5 and max(ends) < 2.0:
        return sample.blocks, weights.T
    corners = representative(grid)
    return corners.blocks, np.outer(np.array(corners.weights) / np.prod(grid), weights.sum(axis=1))


def _not_left(ran: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Return the probability that no earlier block on the SM left a sector, by sums over others: [sectors].

    One block of an SM is the first that touches it, also if nothing is ever replaced: `ran`.
    """
    return np.maximum(np.exp(-kept / 2), _mean_new(ran))  # half of the blocks are earlier ones


def _cover(
    sector: np.ndarray, shift: np.ndarray, start: np.ndarray, end: np.ndarray, together: int = 1
) -> _Cover:
    """Find the sectors of a footprint covered by runs of bytes [start, end), moved by each block's shift."""
    shifts, of_block = np.unique(shift, return_inverse=True)

    def reached(runs: np.ndarray, by: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (first sector, number of sectors): [shifts, runs]."""
        low, high = touched(start[runs] + by[:, None], end[runs] + by[:, None], together)
        low = np.searchsorted(sector, low)
        return low, np.maximum(np.searchsorted(sector, high, side="right") - low, 0)

    near = np.flatnonzero(np.abs(shifts) < end[-1] - start[0] + SECTOR * together)
    # Shifts by which none of the tried runs reaches a sector are assumed to reach none with the others.
    tried = np.random.default_rng(_TRIED_RUNS).permutation(len(start))[:_TRIED_RUNS]  # rows have a period
    near = near[reached(tried, shifts[near])[1].any(axis=1)]
    closest = np.argsort(np.abs(shifts[near]), kind="stable")
    near = near[closest[: max(1, MOST_ACCESSES // len(start))]]
    low, counts = reached(np.arange(len(start)), shifts[near])
    high = low + counts
    low[:, 1:] = np.maximum(low[:, 1:], high[:, :-1])  # several runs may touch one sector
    counts = np.maximum(high - low, 0)
    number = np.full(len(shifts), -1)
    number[near] = np.arange(len(near))
    return _Cover(
        sector=ranges(low.ravel(), counts.ravel()),
        shift=np.repeat(np.arange(len(near)), counts.sum(axis=1)),
        of_block=number[of_block],
        shifts=len(near),
    )


def _scattered(
    accesses: SectorAccesses,
    first: np.ndarray,
    times: np.ndarray,
    blocks: int,
    shared: Mapping[int, Sharing],
    relative: Mapping[int, float],
) -> np.ndarray:
    """Return the probability that another block touches a sector if their addresses are unrelated, else 0;
    how often nearby ones do in addition, and how many these are: [3, sectors].

    They are assumed to be anywhere in the part of an array that the executed blocks use, but shared `shared`
    times as often, by array and touch: at most once if they are linear along some dimension of the grid, so
    that only some blocks meet. Where that is not known, blocks that move as a whole share no more than they
    have to: their tiles make up the array, in some order. What all have to share and is not seen is shared by
    nearby ones, if any is; each of these touches a sector once at most.

    **Shapes:** first, times [sectors].
    """
    families = accesses.families
    chance, near, within = np.zeros(len(first)), np.zeros(len(first)), np.ones(len(first))
    unrelated = ~families.linear
    for array in np.unique(families.array[unrelated]).tolist():
        low, high = accesses.spanned(array)
        members = unrelated & (families.array == array)
        inside = members[accesses.family[first]]
        touched = float(times[inside].sum()) * relative.get(array, 1.0)
        evenly = min(1.0, touched * SECTOR / max(high - low, SECTOR))
        by_chance = Sharing(np.array([not families.as_whole[members].all()], float))
        sharing = shared.get(array, by_chance)
        least = touches = evenly * blocks
        for _ in range(ROUNDS):  # blocks together touch no more than there is, so they share some
            least = touches * -float(np.expm1(-least))
        of_near = min(max(evenly * sharing.near, least), sharing.within) if sharing.near else 0.0
        near[inside], within[inside] = of_near, sharing.within
        middle = (np.arange(np.count_nonzero(inside)) + 0.5) / np.count_nonzero(inside)
        partly = not np.isin(families.step[members], (*APART, 0)).all()
        often = np.quantile(sharing.often, middle)
        often = np.minimum(often, 1.0) if partly else often
        chance[inside] = np.maximum(evenly * often, max((least - of_near) / blocks, 1e-300))
    return np.stack([chance, near, within])


def _mean_new(touches: np.ndarray) -> np.ndarray:
    """Return the mean probability that no earlier block touched a sector, of those that so many touch."""
    touches = np.maximum(touches, 1e-300)
    return -np.expm1(-touches) / touches


def _of_run(sector: np.ndarray, turn: np.ndarray) -> np.ndarray:
    """Return the share of each sector, in order, in its run: adjacent ones touched in the same turn.

    A turn ends at a barrier, too: stages that are loaded ahead come one after the other. DRAM fetches at
    least two sectors: the second is in the L2 when another turn requests it.
    """
    if not len(sector):
        return np.zeros(0)
    apart = (np.diff(sector) != 1) | (np.diff(turn) != 0)
    run = np.append(0, np.cumsum(apart))
    return 1.0 / np.maximum(np.bincount(run)[run], _FETCHED)


def _before(grid: Dimensions) -> tuple[np.ndarray, np.ndarray]:
    """List the positions of earlier blocks relative to a block: ([n, 3], number of blocks before [n])."""
    x, y, _ = grid
    back = np.arange(1, min(int(np.prod(grid)), _MOST_BLOCKS + 1))
    moves, distances = [], []
    for over_x in range(2 if x > 1 and back.size else 1):
        for over_y in range(2 if y > 1 and back.size else 1):
            along_x = over_x * x - back % x
            rest = back // x + over_x
            along_y = over_y * y - rest % y
            along_z = -(rest // y + over_y)
            possible = (along_x < x) & (along_y < y) & (-along_z < grid[2])
            moves.append(np.stack([along_x, along_y, along_z], axis=1)[possible])
            distances.append(back[possible])
    return np.concatenate(moves), np.concatenate(distances)


def blocks_back(footprints: Sequence[Footprint], room: float, blocks: int) -> float:
    """Return how many consecutive blocks, of all `blocks`, fit together in a `room` of sectors.

    The result may be fractional if touches are followed in time.
    """

    def fits(some: float) -> bool:
        return sum(footprint.grown(some) for footprint in footprints) <= room

    low, high = blocks if fits(blocks) else 0, min(blocks, _MOST_BLOCKS)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    part = 0.0
    if low < blocks and any(footprint.reuse is not None for footprint in footprints):
        for power in range(1, 11):
            part += 2.0**-power if fits(low + part + 2.0**-power) else 0.0
    return low + part
