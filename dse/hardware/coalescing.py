"""How many transactions the addresses of a warp become in global memory, and how many bytes these move.

Half a warp with strict rules on compute capability 1.0 and 1.1; segments of 32 to 128 bytes for half a warp
on 1.2 and 1.3; lines of 128 bytes on 2.x; sectors of 32 bytes since. Elements are aligned to their size,
arrays to 256 bytes.

Gap: where a half warp of 1.0 does not coalesce, each thread has a transaction of 32 bytes, as the guide says;
Baghsorkhi et al. count 64.
Source: NVIDIA, CUDA C Programming Guide 5.0, Secs. F.3.2, F.4.2; Baghsorkhi et al., PPoPP 2010, Sec. 3.3.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from dse.hardware.lanes import distinct, first, sorted_places

SECTOR = 32  # bytes
LINE = 128
HALF = 16  # lanes


class Traffic(NamedTuple):
    """What one access of a warp becomes: [...]."""

    transactions: Any
    bytes: Any


def sectors_and_lines(address: Any, mask: Any, xp: Any = jnp) -> tuple[Any, Any]:
    """32-byte sectors and 128-byte lines that the accesses of a warp begin in, each counted once.

    **Shapes:** address (in bytes) and mask [..., lanes], results [...].
    """
    if xp is not np:
        return distinct(address // SECTOR, mask, xp), distinct(address // LINE, mask, xp)
    sector, first_of_sector = sorted_places(address >> 5, mask)  # shifts are faster
    line = sector >> 2
    first_of_line = first_of_sector.copy()
    first_of_line[..., 1:] &= line[..., 1:] != line[..., :-1]
    return np.count_nonzero(first_of_sector, axis=-1), np.count_nonzero(first_of_line, axis=-1)


def transactions(index: Any, mask: Any, size: int, capability: tuple[int, int], xp: Any = jnp) -> Traffic:
    """Of elements of 1, 2, 4, 8 or 16 bytes, on a GPU of that compute capability.

    **Shapes:** index and mask [..., 32]; results [...].
    """
    address = index * size
    if capability >= (3, 0):
        count = distinct(address // SECTOR, mask, xp)
        return Traffic(count, SECTOR * count)
    if capability >= (2, 0):
        lanes = 32 if size <= 4 else 128 // size  # 16 of 8 bytes, 8 of 16
        count = distinct(_parts(address // LINE, lanes), _parts(mask, lanes), xp).sum(-1)
        return Traffic(count, LINE * count)
    address, mask = _parts(address, HALF), _parts(mask, HALF)
    traffic = _segments if capability >= (1, 2) else _in_sequence
    return Traffic(*(each.sum(-1) for each in traffic(address, mask, size, xp)))


def _parts(values: Any, lanes: int) -> Any:
    return values.reshape(*values.shape[:-1], 32 // lanes, lanes)


def _in_sequence(address: Any, mask: Any, size: int, xp: Any) -> Traffic:
    """1.0, 1.1: lane k has to ask for word k of an aligned segment; else each lane goes alone."""
    active = mask.sum(-1)
    some = active > 0
    if size < 4:
        return Traffic(active, SECTOR * active)
    lane = xp.arange(HALF).reshape((1,) * (address.ndim - 1) + (HALF,))
    start = address - size * lane
    same = distinct(start, mask, xp) == 1
    segment = min(HALF * size, LINE)
    coalesced = same & ((start % segment == 0) | ~mask).all(-1)
    whole = xp.where(some, HALF * size // segment, 0)
    count = xp.where(coalesced, whole, active)
    return Traffic(count, xp.where(coalesced, HALF * size * some, SECTOR * active))


def _segments(address: Any, mask: Any, size: int, xp: Any) -> Traffic:
    """1.2, 1.3: a transaction for each segment, halved as long as all it serves lies in one half."""
    segment = min(32 * size, LINE)
    number = address // segment
    chosen = first(number, mask, xp)
    together = (number[..., :, None] == number[..., None, :]) & mask[..., None, :]
    within = (address % segment)[..., None, :]
    lowest = xp.where(together, within, segment).min(-1)
    highest = xp.where(together, within, 0).max(-1)  # aligned elements end in the half where they begin
    moved = xp.full_like(lowest, segment)
    for half in (64, 32):
        if half < segment:
            moved = xp.where(lowest // half == highest // half, half, moved)
    return Traffic(chosen.sum(-1), xp.where(chosen, moved, 0).sum(-1))
