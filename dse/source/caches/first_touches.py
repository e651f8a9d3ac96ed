"""Count the sectors of global memory that blocks touch for the first time, by phase."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from dse.core.numba_cache import compiled
from dse.hardware.coalescing import SECTOR
from dse.source.caches.sectors import SPREAD
from dse.source.machine.launch import REGION_BITS
from dse.source.machine.memory import changes
from dse.source.machine.recorded import ONCE, Recorded, Stream

_BLOCK_SHIFT = 48  # the block's number is in the highest bits of a sector's
_WITHIN = np.int64((1 << _BLOCK_SHIFT) - 1)  # wild addresses wrap around: they change no block
_FREE = np.iinfo(np.int64).min


def first_touches(machine: Recorded, streams: Sequence[Stream]) -> np.ndarray:
    """Count the sectors that each block touches first, by phase: [phases, blocks]."""
    # Streams of equal bases touch the same sectors, moved: their places by offset within a sector.
    places: dict[tuple[int, int, int], dict[int, int]] = {}
    sectors: list[np.ndarray] = []
    phases: dict[int, int] = {}
    of_phase: list[np.ndarray] = []
    entries: list[tuple[int, int, int]] = []  # (place, sectors moved on, phase), in the order of execution
    for stream in streams:
        phase = phases.setdefault(id(stream.phase), len(of_phase))
        if phase == len(of_phase):
            of_phase.append(stream.phase)
        within = places.setdefault((id(stream.base), id(stream.lanes), stream.size), {})
        for offset in [stream.offset] if stream.trips == ONCE else stream.offsets().tolist():
            if (start := offset % SECTOR) not in within:
                within[start] = len(sectors)
                sectors.append(_sectors(machine, stream, start))
            entries.append((within[start], offset // SECTOR, phase))
    counts = np.zeros((len(machine.phases), machine.shape[0]), np.int64)
    if entries:
        starts = np.concatenate([[0], np.cumsum([len(touched) for touched in sectors])])
        every = np.concatenate(sectors)
        names = np.zeros(machine.shape[0], np.uint64)
        _name(every, starts, names)
        _, first, kind = np.unique(names, return_index=True, return_inverse=True)
        kept = np.isin(every >> _BLOCK_SHIFT, first)  # the first of blocks that touch the same, moved
        by_stream = np.zeros((len(of_phase), machine.shape[0]), np.int64)
        _count(every[kept], np.append(0, np.cumsum(kept))[starts], np.array(entries, np.int64), by_stream)
        np.add.at(counts, (np.stack(of_phase), np.arange(machine.shape[0])), by_stream[:, first[kind]])
    return counts


def by_array(streams: Sequence[Stream]) -> dict[int, list[Stream]]:
    """Return the streams of each array, by its number."""
    arrays: dict[int, list[Stream]] = {}
    of_base: dict[tuple[int, int], int] = {}
    for stream in streams:
        key = id(stream.base), id(stream.lanes)
        if key not in of_base:
            of_base[key] = int(stream.lanes.of(stream.base).min()) >> REGION_BITS
        arrays.setdefault(of_base[key], []).append(stream)
    return arrays


def _sectors(machine: Recorded, stream: Stream, offset: int) -> np.ndarray:
    """List the sectors touched at an offset, with the block's number in the highest bits; may repeat."""
    blocks = np.arange(machine.shape[0], dtype=np.int64)[:, None] << _BLOCK_SHIFT
    sector = stream.lanes.of((stream.base + offset) >> 5 & _WITHIN | blocks)
    return sector[changes(sector)]  # neighbours mostly share one


@partial(compiled, makes_arrays=True)
def _name(sectors: np.ndarray, starts: np.ndarray, names: np.ndarray) -> None:
    """Name blocks by a polynomial of their sectors from the first on: equal if they touch the same, moved.

    **Shapes:** sectors, starts as below; names [blocks], 0 before.
    """
    origin = np.full(len(names), _FREE)
    for place in range(len(starts) - 1):
        for number in range(starts[place], starts[place + 1]):
            block, sector = sectors[number] >> _BLOCK_SHIFT, sectors[number] & _WITHIN
            if origin[block] == _FREE:
                origin[block] = sector
            apart = (sector - origin[block]) & _WITHIN
            names[block] = (names[block] + np.uint64(place + 1)) * SPREAD + np.uint64(apart)


@partial(compiled, makes_arrays=True)
def _count(sectors: np.ndarray, starts: np.ndarray, entries: np.ndarray, counts: np.ndarray) -> None:
    """Add to `counts` the sectors of each entry that none before it touched.

    A hash table has the pages of 64 sectors that were touched, each with its sectors as bits: it stays in a
    cache where one of sectors would not.

    **Shapes:** sectors [n] of all places, of one from starts[place] on; entries [m, 3]; counts [k, blocks].
    """
    size, filled = 1 << 10, 0
    pages, touched = np.full(size, _FREE, np.int64), np.zeros(size, np.int64)
    slot, last = 0, np.int64(_FREE)  # neighbours are mostly in one page
    for entry in range(len(entries)):
        place, moved, phase = entries[entry]
        for number in range(starts[place], starts[place + 1]):
            key = sectors[number] & ~_WITHIN | (sectors[number] + moved) & _WITHIN
            page, bit = key >> 6, np.int64(1) << (key & 63)
            if page != last:
                slot, last = _slot(pages, page), page
            if touched[slot] & bit:
                continue
            touched[slot] |= bit
            block = key >> _BLOCK_SHIFT
            counts[phase, block] += 1
            if pages[slot] == page:
                continue
            pages[slot] = page
            filled += 1
            if 2 * filled > size:
                size *= 4
                larger, moved_on = np.full(size, _FREE, np.int64), np.zeros(size, np.int64)
                for known in range(len(pages)):
                    if pages[known] != _FREE:
                        slot = _slot(larger, pages[known])
                        larger[slot], moved_on[slot] = pages[known], touched[known]
                pages, touched, last = larger, moved_on, np.int64(_FREE)


@partial(compiled, makes_arrays=True)
def _slot(table: Any, key: Any) -> Any:
    """Return the slot of a page in a hash table, or the first free one from its own on."""
    mask = len(table) - 1
    slot = np.int64((np.uint64(key) * SPREAD) >> np.uint64(32)) & mask
    while table[slot] != key and table[slot] != _FREE:
        slot = (slot + 1) & mask
    return slot
