"""Find the distance of many blocks' addresses from those of the first, in one execution of an instruction."""

from functools import partial

import numpy as np

from dse.core.numba_cache import compiled
from dse.hardware.coalescing import SECTOR
from dse.source.caches.sectors import ALONE, FAR, SPREAD

_ONE = np.uint64(1)


@partial(compiled, makes_arrays=True)
def distances(
    base: np.ndarray,
    mask: np.ndarray,
    row: np.ndarray,
    moved: np.ndarray,
    shift: np.ndarray,
    there: np.ndarray,
) -> bool:
    """Fill in the distance in sectors of each block from the first, and which touch any: [blocks - 1] both.

    Return whether there is such a distance. Blocks whose lanes move differently are `FAR`, one kind of
    addresses after another; two kinds are told apart by 64 bits of a polynomial of their addresses.

    **Shapes:** base, mask [rows, 32]; row, moved [blocks], distance of a block from its row in bytes.
    """
    origin, blocks = row[0], len(row)
    first, touches = np.zeros(len(base), np.int64), np.zeros(len(base), np.bool_)
    uneven, name = np.zeros(len(base), np.bool_), np.zeros(len(base), np.uint64)
    by_byte = np.zeros(len(base), np.uint64)  # what a move by one byte adds to the name
    for number in range(len(base)):
        for lane in range(base.shape[1]):
            name[number] *= SPREAD
            by_byte[number] *= SPREAD
            if not (mask[number, lane] and mask[origin, lane]):
                name[number] -= _ONE
                continue
            apart = base[number, lane] - base[origin, lane]
            if not touches[number]:
                touches[number], first[number] = True, apart
            uneven[number] |= apart != first[number]
            name[number] += np.uint64(base[number, lane])
            by_byte[number] += _ONE
    touching, differing = 0, 0
    for block in range(1, blocks):
        number = row[block]
        there[block - 1] = touches[number]
        touching += touches[number]
        differing += uneven[number]
        shift[block - 1] = 0
        if touches[number]:
            shift[block - 1] = (first[number] + moved[block] - moved[0]) // SECTOR
    size, kinds, single = 2, 0, 0
    while size < 2 * differing:
        size *= 2
    names, kind_of = np.zeros(size, np.uint64), np.zeros(size, np.int64)  # a hash table, 0 where it is free
    times = np.zeros(size, np.int64)
    for block in range(1, blocks) if differing else range(0):
        number = row[block]
        if not uneven[number]:
            continue
        its_name = name[number] + by_byte[number] * np.uint64(moved[block] - moved[0])
        slot = np.int64((its_name * SPREAD) >> np.uint64(32)) & (size - 1)
        while kind_of[slot] and names[slot] != its_name:
            slot = (slot + 1) & (size - 1)
        if not kind_of[slot]:
            kinds += 1
            names[slot], kind_of[slot] = its_name, kinds
        times[slot] += 1
        single += (times[slot] == 1) - (times[slot] == 2)
        shift[block - 1] = FAR * kind_of[slot]
    few = 2 * differing < touching
    return bool(touching > 0 and (few or single <= ALONE * differing))
