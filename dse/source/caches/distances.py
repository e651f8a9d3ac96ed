"""Find the distances of many blocks' addresses from those of the first, execution by execution."""

from functools import partial
from typing import Any

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
    names: np.ndarray,
) -> None:
    """Fill in the distance in sectors of each block from the first, and which touch any, of each execution.

    Equal ones have equal `names`, 64 bits of a polynomial; 0 if there is no such distance. Blocks whose lanes
    move differently are `FAR`, one kind of addresses after another, which are told apart likewise.

    **Shapes:** base, mask [n, rows, 32]; row, moved [blocks], distance of a block from its row in bytes;
    shift, there [n, blocks - 1]; names [n].
    """
    for number in range(len(base)):
        even = _distances(base[number], mask[number], row, moved, shift[number], there[number])
        names[number] = _name(shift[number], there[number]) if even else np.uint64(0)


@partial(compiled, makes_arrays=True)
def of_both(shift: np.ndarray, of_last: np.ndarray, there: np.ndarray, last_there: np.ndarray) -> np.uint64:
    """Set the distances of the first warp to `FAR` where the last moves by another, as lanes may.

    Return the name of the result, 0 if there is no such distance. **Shapes:** all [blocks].
    """
    names, differing = np.zeros(len(shift), np.uint64), np.zeros(len(shift), np.bool_)
    for block in range(len(shift)):
        differing[block] = there[block] and last_there[block] and shift[block] != of_last[block]
        names[block] = np.uint64(shift[block]) * SPREAD + np.uint64(of_last[block])
    even = _number(names, differing, there, max(shift.max(), 0) // FAR, shift)
    return _name(shift, there) if even else np.uint64(0)


@partial(compiled, makes_arrays=True)
def _distances(base: Any, mask: Any, row: Any, moved: Any, shift: Any, there: Any) -> Any:
    """Fill in the distances of one execution, and return whether there are any."""
    origin, blocks = row[0], len(row) - 1
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
    names, differing = np.zeros(blocks, np.uint64), np.zeros(blocks, np.bool_)
    for block in range(blocks):
        number, further = row[block + 1], moved[block + 1] - moved[0]
        there[block], differing[block] = touches[number], uneven[number]
        shift[block] = (first[number] + further) // SECTOR if touches[number] else 0
        if uneven[number]:
            names[block] = name[number] + by_byte[number] * np.uint64(further)
    return there.any() and _number(names, differing, there, 0, shift)


@partial(compiled, makes_arrays=True)
def _number(names: Any, differing: Any, there: Any, kind: Any, shift: Any) -> Any:
    """Set the distance of `differing` blocks to a multiple of `FAR` above `kind`, by their names.

    Return whether that tells what blocks share: few differ, or few of them from all others.
    **Shapes:** [blocks].
    """
    alone, differ, size = 0, differing.sum(), 2
    while size < 2 * differ:
        size *= 2
    table, kind_of = np.zeros(size, np.uint64), np.zeros(size, np.int64)  # a hash table, 0 where it is free
    times = np.zeros(size, np.int64)
    for block in range(len(names)) if differ else range(0):
        if not differing[block]:
            continue
        slot = np.int64((names[block] * SPREAD) >> np.uint64(32)) & (size - 1)
        while kind_of[slot] and table[slot] != names[block]:
            slot = (slot + 1) & (size - 1)
        if not kind_of[slot]:
            kind += 1
            table[slot], kind_of[slot] = names[block], kind
        times[slot] += 1
        alone += (times[slot] == 1) - (times[slot] == 2)
        shift[block] = FAR * kind_of[slot]
    return 2 * differ < there.sum() or alone <= ALONE * differ


@partial(compiled, makes_arrays=True)
def _name(shift: Any, there: Any) -> Any:
    """Return 64 bits that equal distances share, not 0."""
    name = _ONE
    for block in range(len(shift)):
        name = name * SPREAD + (np.uint64(shift[block]) << _ONE | np.uint64(there[block]))
    return max(name, _ONE)
