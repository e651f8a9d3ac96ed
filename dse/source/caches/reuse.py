"""Reuse times of sectors in many blocks, and the sectors that a cache keeps that long.

Blocks of one wave start together and stay in step, so an access has a time: its wave, and the progress of its
block. Every k-th sector is followed through all blocks. The times between its touches give the number of
sectors touched in an interval, and so the interval that fills a cache; sectors not touched for longer are
evicted.

Source: footprints from reuse times: Xiang, Ding, Luo & Bao, HOTL, ASPLOS 2013; eviction after the interval
that fills a cache: the working set of Denning, CACM 1968; following a sample of addresses in every block:
Waldspurger et al., SHARDS, FAST 2015.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from dse.errors import DseError
from dse.hardware.coalescing import SECTOR
from dse.source.caches.places import Group, Probe, Window, groups, window
from dse.source.caches.sectors import FAR, SPREAD, Families, SectorAccesses, accesses, ranges
from dse.source.machine.blocks import Sample
from dse.source.machine.memory import changes

_FOLLOWED = 2**16  # followed accesses of all blocks: limits the work
_TOUCHES, _PLACES = 2**17, 2**10  # looked at to see what blocks share
_ENOUGH = 100  # sectors from which their share counts as a probability


@dataclass(frozen=True)
class Sharing:
    """How often blocks share sectors that cannot be followed, over how often if these were anywhere."""

    often: np.ndarray  # [touches] with any other block
    near: float = 0.0  # with nearby ones in addition, summed over these
    within: float = 1.0  # number of nearby blocks


class Reuse:
    """The touches of sectors whose addresses are not linear in the block's number."""

    def __init__(
        self,
        accesses: SectorAccesses,
        groups: Sequence[Group],
        loads: Window,
        relative: Mapping[int, float],
        blocks: int | None = None,
        phases: np.ndarray | None = None,
        ends: np.ndarray | None = None,
        beyond: Mapping[int, float] | None = MappingProxyType({}),
    ) -> None:
        """`blocks` are those of the grid, `ends` the moves to its ends; `phases` renumber phases.

        Others touch some arrays `beyond` the places of the followed block, so many times as much; if None,
        other arrays too.
        """
        self.window, self.blocks = loads, blocks or loads.blocks
        phases = np.arange(accesses.phases) if phases is None else phases
        self.phases = int(phases.max()) + 1
        # the instructions that are followed
        self.steps = accesses.families.steps([number for group in groups for number in group.families])
        self.ticks = max(accesses.ticks, 1)
        members = [np.flatnonzero(np.isin(accesses.family, group.families)) for group in groups]
        total = sum(
            len(member) * int(np.count_nonzero(group.there))
            for member, group in zip(members, groups, strict=True)
        )
        apart = _prime(total // _FOLLOWED)
        empty = np.zeros(0, int)
        parts = [(empty, empty, empty)]
        parts += [
            _followed(accesses, member, group, apart) for member, group in zip(members, groups, strict=True)
        ]
        sector, access, block = map(np.concatenate, zip(*parts, strict=True))
        time = loads.waves[block] * self.ticks + accesses.tick[access]
        order = np.lexsort((time, sector))
        sector, access, block, time = sector[order], access[order], block[order], time[order]
        self.first = changes(sector)
        last = np.roll(self.first, -1)
        # If the window is a part of the grid, its first half is only the past of the second.
        warm = 0 if loads.whole else (int(loads.waves[-1]) + 1) // 2
        times = accesses.times
        arrays, array = np.unique(accesses.array, return_inverse=True)
        of_group = np.array(
            [np.bincount(array[own], times[own], minlength=len(arrays)) for own in members]
        ).reshape(-1, len(arrays))
        followed = np.array([np.count_nonzero(group.there) for group in groups]) @ of_group
        sampled = np.bincount(array[access], times[access], minlength=len(arrays))
        # An average block touches `relative` times what the followed one does, of each array. It leaves out
        # what others touch, as far as there is any: beyond the end of a row begins the next.
        # Of an array that none of the second half touches, all that do are in the window.
        there = np.array([float(np.mean(group.there[loads.waves >= warm])) for group in groups]) @ of_group
        there = np.where(there > 0.0, there, followed / self.blocks)
        wanted = np.array([relative.get(number, 1.0) for number in arrays.tolist()]) * of_group.sum(axis=0)
        scale = accesses.every * followed / np.maximum(sampled, 1e-300)
        weight = (times[access] * scale[array[access]])[self.first]  # of a sector that of its first touch
        part = (wanted / np.maximum(there, 1e-300))[array[access]][self.first]
        number = np.cumsum(self.first) - 1
        touching = np.sort(number * loads.blocks + block)  # np.unique's hash table takes far longer
        sharing = np.bincount(touching[changes(touching)] // loads.blocks)
        own = array[access][self.first]
        touches, sectors = (np.bincount(own, x, minlength=len(arrays)) for x in (weight * sharing, weight))
        every = (touches / np.maximum(sectors, 1e-300))[own] * part
        weight = (weight * np.maximum(part, np.minimum(every, 1.0)))[number]
        end = self.ticks * (int(loads.waves[-1]) + 1)
        since = np.where(self.first, time, np.append(0, np.diff(time))[: len(time)])
        self.since, self.weight, self.end = since, weight, end
        # Intervals without a touch: before the first one, between two, and after the last. In descending
        # order, the cumulated numbers of sectors and lengths.
        gaps, of_gaps = np.append(since, end - time[last]), np.append(weight, weight[last])
        order = np.argsort(-gaps)
        self.gaps = -gaps[order]
        self.gap_sectors, self.gap_sums = (
            np.append(0.0, np.cumsum(column[order])) for column in (of_gaps, of_gaps * gaps)
        )
        self.counted = loads.waves[block] >= warm
        self.counted_blocks = int(np.count_nonzero(loads.waves >= warm))
        self.fresh, self.fresh_blocks = _first_of_all(self.first, block, loads)
        self.phase, self.array = phases[accesses.phase[access]], array[access]
        # No more sectors of an array are touched than lie between the lowest and the highest that are seen,
        # or that the first and the last block of the grid would touch.
        spans = np.array([accesses.spanned(number, ends) for number in arrays.tolist()]).reshape(-1, 2).T
        lowest, highest = spans // SECTOR
        near = sector < FAR
        np.minimum.at(lowest, self.array[near], sector[near])
        np.maximum.at(highest, self.array[near], sector[near])
        more = np.maximum(wanted / np.maximum(there, 1e-300), 1.0)
        if beyond is not None:
            more = np.array([beyond.get(number, 1.0) for number in arrays.tolist()])
        self.most = (highest - lowest + 1.0) * more

    def grown(self, blocks: float) -> float:
        """Return the sectors touched while this many blocks run in order; mean over the window."""
        window = self.window
        if blocks >= window.blocks:
            return float(self._cold(blocks).sum())
        span = blocks / window.wave * self.ticks
        longer = int(np.searchsorted(self.gaps, -span))
        missed = (self.gap_sums[longer] - span * self.gap_sectors[longer]) / max(self.end - span, 1e-300)
        return float(self.weight[self.first].sum() - missed)

    def new(self, back: float) -> np.ndarray:
        """Count the sectors of an average block not touched while the last `back` blocks ran: [phases].

        If the window is a part of the grid, only its second half counts; blocks outside are assumed to
        touch as many sectors first.
        """
        once = self._cold(self.blocks) / self.blocks
        if back >= self.window.blocks:  # nothing that the window touches is lost
            return once if back >= self.blocks else np.maximum(self._fresh().sum(axis=0), once)
        span = back / self.window.wave * self.ticks
        gone = self.counted & (self.first | (self.since > span))
        return np.maximum(self._of_phases(gone).sum(axis=0) / self.counted_blocks, once)

    def _cold(self, blocks: float) -> np.ndarray:
        """Count the sectors that so many blocks touch, all of the window and others: [phases]."""
        cold = self._of_phases(self.first) + (blocks - self.window.blocks) * self._fresh()
        return self.most / np.maximum(cold.sum(axis=1), self.most) @ cold

    def _fresh(self) -> np.ndarray:
        """Count the sectors of an average block that none before it touches: [arrays, phases]."""
        return self._of_phases(self.first, self.fresh) / self.fresh_blocks

    def _of_phases(self, touches: np.ndarray, share: np.ndarray | None = None) -> np.ndarray:
        """Count touches, or the `share` of each: [arrays, phases]."""
        counts = np.zeros((len(self.most), self.phases))
        weight = self.weight if share is None else self.weight * share
        np.add.at(counts, (self.array[touches], self.phase[touches]), weight[touches])
        return counts


class Followed(NamedTuple):
    """What is known of the accesses of a list that are not linear."""

    reuse: Reuse | None = None  # of those that can be followed
    shared: Mapping[int, Sharing] = MappingProxyType({})  # of the others, by array
    sectors: Mapping[int, float] = MappingProxyType({})  # of a block, by instruction, if trips are estimated


NOTHING_FOLLOWED = Followed()


def follow(
    machine: Any,
    sample: Sample,
    block: int,
    accessed: Sequence[SectorAccesses],
    relative: Sequence[Mapping[int, float]],
    wave: int,
    probe: Probe,
    whole: bool = False,
) -> list[Followed]:
    """Follow the accesses of a block that are not linear, of several lists.

    An average block touches `relative` times as much of each array. `wave` is the number of blocks that run
    at the same time; `whole` follows all accesses.
    """
    nothing = [NOTHING_FOLLOWED for _ in accessed]
    uneven = [_uneven(member.families, whole) for member in accessed]
    blocks = machine.launch.blocks
    if not any(uneven) or blocks < 2:
        return nothing
    seen, here = window(blocks, wave, max(len(machine.streams), 1)), sample.blocks[block]
    try:
        if machine.estimated:  # some loops were not run in full
            exact, block = probe([here], None, frozenset().union(*uneven)).machine, 0
            sample = Sample((here,), (1.0,), 0, 0)
        else:
            exact = machine
        streams = [stream for stream in exact.streams if any(stream.step in steps for steps in uneven)]
        touched = [
            accesses(
                *(exact, sample, block, streams, steps),
                thinned=True,
                together=member.together,
                known=None if machine.estimated else member.families,
            )
            for member, steps in zip(accessed, uneven, strict=True)
        ]
        at = [here, *seen.places(machine.launch.grid)]
        placed = groups(exact, block, [member.families for member in touched], at, probe)
    except DseError:  # threads wait for warps that are not run, or there is too much to run
        return nothing
    numbers = {(phase.opened, phase.closed): n for n, phase in enumerate(machine.phases)}
    phases = np.array([numbers.get((phase.opened, phase.closed), 0) for phase in exact.phases])
    ends = np.array([(0, 0, 0), machine.launch.grid]) - ((0, 0, 0), (1, 1, 1)) - here
    return [
        Followed(
            Reuse(member, moving, seen, own, blocks, phases, ends, _beyond(machine, member, own, ends))
            if moving
            else None,
            {
                number: sharing
                for number, sectors in others.items()
                if (sharing := _shared(*sectors, member, number)) is not None
            },
            member.distinct() if machine.estimated else {},
        )
        for member, (moving, others), own in zip(touched, placed, relative, strict=True)
    ]


def _beyond(
    machine: Any, member: SectorAccesses, relative: Mapping[int, float], ends: np.ndarray
) -> Mapping[int, float] | None:
    """Return how much more blocks touch of arrays which others touch beyond the followed one's places.

    None if others touch arrays that it does not: these count as more of its own.
    """
    from dse.source.caches.first_touches import by_array  # imports Numba

    steps, arrays, beyond = machine.program.steps, {*member.families.array.tolist()}, dict[int, float]()
    stores = {steps[stream.step].stores for stream in member.families.streams}
    streams = [
        stream for stream in machine.streams if steps[stream.step].stores in stores and stream.lanes.total
    ]
    for array, of_array in by_array(streams).items():
        if array not in arrays:
            return None
        if (more := relative.get(array, 1.0)) > 1.0:
            low, high = member.spanned(array, ends)
            for stream in of_array:
                addresses, (shortest, longest) = stream.lanes.of(stream.base), stream.reach
                if addresses.min() + shortest < low or addresses.max() + longest >= high:
                    beyond[array] = more
    return beyond


def _shared(
    sectors: np.ndarray, of_first: np.ndarray, of_sample: np.ndarray, member: SectorAccesses, array: int
) -> Sharing | None:
    """Compare how often blocks share sectors of an array with how often they would if anywhere.

    None if they are too few to tell. Rows or bands show by what nearby blocks share more than distant ones;
    one warp of many blocks misses what different warps share, all warps of few miss distant blocks. A table
    that is a small part of the array, or a few frequent words, show by what the first half of the blocks and
    the second both touch: one warp may touch a part of it only, all warps of a sample tell.
    **Shapes:** [blocks, lanes], of some executions: one warp; all warps of the first blocks; of a sample.
    """
    low, high = member.spanned(array)
    every = max((high - low) / (SECTOR * member.together), 1.0)

    def touches(sectors: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        thin = max(1, min(sectors.size // _TOUCHES, int(every) // _PLACES))  # keep one place of so many
        return *_touches(sectors, member.together, thin), every / thin

    def nearby(places: np.ndarray, once: np.ndarray, room: float) -> Sharing | None:
        return _nearby(*_distinct(places, once), len(places), room)

    places, once, room = touches(sectors)
    sharing, of_all = nearby(places, once, room), nearby(*touches(of_first))
    if of_all is not None and of_all.near > (sharing.near if sharing else 0.0):
        return of_all
    if sharing is None or sharing.near:
        return sharing
    steps = np.diff(sectors, axis=1)
    if np.mean(steps == np.median(steps, axis=0)) > 0.5:  # rows: the lanes stand for their part of these only
        return sharing
    half = len(places) // 2
    ours, theirs = places[:half][once[:half]], np.sort(places[half:][once[half:]])
    again = np.searchsorted(theirs, ours, side="right") - np.searchsorted(theirs, ours)
    evenly = max(len(theirs) / room, 1e-300)
    often = _expected(again, evenly) / evenly
    places, once, room = touches(of_sample)
    place, block = _distinct(places, once)
    pairs, by_chance = _pairs(place, 0 * block, block, room)
    if by_chance > _ENOUGH:
        often *= min(1.0, pairs / by_chance / max(often.mean(), 1e-300))
    return Sharing(np.maximum(often, sharing.often))


def _touches(sectors: np.ndarray, together: int, thin: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of sectors, sorted by block, and the touches to count: [blocks, lanes] both.

    These are not of the place before, and of one in `thin` places.
    """
    places = np.sort(sectors // together, axis=1)  # those of no address stay negative
    once = (places >= 0) & (np.diff(places, axis=1, prepend=-1) != 0)
    if thin > 1:
        once &= (places.astype(np.uint64) * SPREAD >> np.uint64(32)) % np.uint64(thin) == 0
    return places, once


def _distinct(places: np.ndarray, once: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return places and blocks of touches, of blocks that do not touch the very same: [touches]."""
    distinct = np.sort(np.unique(places, axis=0, return_index=True)[1])
    block, lane = np.nonzero(once[distinct])
    return places[distinct[block], lane], distinct[block]


def _nearby(place: np.ndarray, block: np.ndarray, blocks: int, room: float) -> Sharing | None:
    """Compare what blocks share with what they would if anywhere, at most that but for nearby ones.

    None if they are too few to tell.
    **Shapes:** place, block [touches], in the order of blocks.
    """
    sizes = [blocks >> level for level in range(blocks.bit_length() - 1)]  # of parts of consecutive blocks
    shared, by_chance = np.array([_pairs(place, block // size, block, room) for size in sizes]).T
    if not len(sizes) or by_chance[0] < 1.0:
        return None
    rate = shared / np.maximum(by_chance, 1e-300)  # parts of one block share nothing
    ends = np.minimum(block * 4 // blocks, 3) % 3 == 0  # the first quarter and the last
    apart = np.subtract(
        _pairs(place[ends], block[ends] * 0, block[ends], room),
        _pairs(place[ends], block[ends] * 2 // blocks, block[ends], room),
    )
    far = apart[0] / max(apart[1], 1e-300)
    closest = float(rate[shared >= _ENOUGH].max(initial=0.0))
    if closest <= 2 * max(far, rate[0]):
        return Sharing(np.array([min(1.0, rate[0])]))
    near = (rate[0] - far) * blocks
    return Sharing(np.array([min(1.0, far)]), near, near / (closest - far))


def _pairs(place: np.ndarray, part: np.ndarray, block: np.ndarray, room: float) -> tuple[float, float]:
    """Count the pairs of touches of a place by blocks of one part: these, and those if anywhere in `room`."""
    touches = np.unique(part * (int(place.max(initial=0)) + 1) + place, return_counts=True)[1]
    of_part = np.maximum(np.bincount(part[changes(block)]), 1)  # blocks
    total = np.bincount(part)
    return float(touches @ (touches - 1)), float(total**2 @ (1.0 - 1.0 / of_part)) / room


def _expected(again: np.ndarray, evenly: float) -> np.ndarray:
    """Return how often a sample touches again what each touch of another did: [touches].

    `again` is how often it did. What is hardly more than `evenly`, by chance in the whole array, counts as 0.
    As many times n + 1 as sectors are touched n + 1 times, over those touched n times, are expected of these;
    frequencies differ, as their squares say, by a gamma distribution. Of few sectors n + 1 itself is taken.

    Source: Robbins, An empirical Bayes approach to statistics, 1956.
    """
    alike = np.bincount(again)
    number = np.arange(len(alike))
    # touches whose sectors the other half touched once more, and twice more
    once_more, twice_more = (np.append(alike[ahead:], np.zeros(ahead))[: len(alike)] for ahead in (1, 2))
    enough = _ENOUGH * (number + 1)  # each sector has about as many touches in either half
    known = alike >= enough
    mean = (number + 1) * np.where(known, once_more / np.maximum(alike, 1), 1.0)
    square = np.where(
        known & (twice_more >= enough), (number + 1) * (number + 2) * twice_more / np.maximum(alike, 1), 0.0
    )
    spread = np.maximum(square / np.maximum(mean**2, 1e-300) - 1.0, 1e-6)
    seen, by_chance = np.where(known, once_more, number), np.where(known, alike / (number + 1), 1.0) * evenly
    sure = seen > by_chance + 3.0 * np.sqrt(by_chance)  # standard deviations
    return np.random.default_rng(_ENOUGH).gamma(1.0 / spread[again]) * (sure * mean * spread)[again]


def _first_of_all(first: np.ndarray, block: np.ndarray, window: Window) -> tuple[np.ndarray, int]:
    """Return the share of each touch's sector that no block before a part of the window touches, and the
    blocks of the part.

    The part is the second half: whole waves, or blocks of a wave that is cut, which has its past in itself.
    Where as many blocks share a few sectors, the mean of both directions depends less on where these begin.

    **Shapes:** first, block [touches], sorted by sector.
    """
    if window.whole:
        return np.ones(len(first)), window.blocks
    past = window.blocks // window.wave // 2 * window.wave or window.blocks // 2
    rows, number = np.flatnonzero(first), np.cumsum(first) - 1
    earliest, latest = (reduce.reduceat(block, rows) for reduce in (np.minimum, np.maximum))
    after = window.blocks - past
    return ((earliest >= past) / 2 + (latest < after) / 2)[number], after


def _uneven(families: Families, whole: bool) -> set[int]:
    """List the instructions to follow: those that are not linear, and others that access the same arrays."""
    array = families.array
    return families.steps(np.flatnonzero(np.isin(array, array[whole | ~families.linear])))


def _followed(
    accesses: SectorAccesses, members: np.ndarray, group: Group, apart: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """List the accesses of all blocks to sampled sectors: (sector, access, block), [n] each."""
    sector = accesses.sector[members]
    order = np.argsort(sector % apart, kind="stable")
    rest = sector[order] % apart
    blocks = np.flatnonzero(group.there)
    shift = group.shift[blocks] // accesses.every * accesses.every
    low, high = (np.searchsorted(rest, -shift % apart, side=side) for side in ("left", "right"))
    rows = order[ranges(low, high - low)]
    of_block = np.repeat(np.arange(len(blocks)), high - low)
    return sector[rows] + shift[of_block], members[rows], blocks[of_block]


def _prime(least: int) -> int:
    """Return the first prime not below a number, or 1: multiples of a prime follow no pattern."""
    number = max(least, 1)
    while any(number % divisor == 0 for divisor in range(2, int(number**0.5) + 1)):
        number += 1
    return number
