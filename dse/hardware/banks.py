"""Passes of a shared memory access through the 32 banks of 4 bytes.

Lanes that access the same word share a pass. Elements are aligned to their size. Those of 8 (16) bytes are
served half (a quarter of) a warp at a time, or twice as many if each lane accesses the same element as its
neighbour, or as the lane after that.

Source: NVIDIA, CUDA C Programming Guide 5.0, Sec. F.4.3; wide accesses: an NVIDIA engineer in NVIDIA's
developer forum.
"""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from dse.hardware.lanes import WARP, first, once_computed, sorted_places

BANKS = 32
WORD = 4  # bytes of a bank
MOST_PARTS = 8  # of a warp served one after another, at 32 bytes a lane


def passes(address: Any, mask: Any, size: Any, xp: Any = jnp) -> Any:
    """Count the passes of an access of `size` bytes a lane; 0 without an active lane.

    **Shapes:** address (in bytes) and mask [..., 32], size [...] or a number; result [...].
    """
    if isinstance(size, int) and size <= WORD:
        return _busiest(address >> 2, mask, None, BANKS, 1, xp)  # words; a shift is faster
    parts = size // WORD if isinstance(size, int) else MOST_PARTS
    size = xp.asarray(size, int)
    size = size[..., None] if size.ndim else size
    unit = xp.maximum(size, WORD)  # banks as wide as an element, whose words are always accessed together
    element = address // unit
    at_a_time = xp.minimum(BANKS * WORD // unit, BANKS)
    lane = xp.arange(WARP).reshape((1,) * (address.ndim - 1) + (WARP,))
    paired = xp.zeros(mask.shape[:-1], bool)
    for apart in (1, 2):
        other = [number ^ apart for number in range(WARP)]
        same = (element == element[..., xp.asarray(other)]) | ~mask | ~mask[..., xp.asarray(other)]
        paired = paired | same.all(-1)
    part = lane // at_a_time
    part = xp.where(paired[..., None], part // 2, part)
    return _busiest(element, mask, part, at_a_time, parts, xp)


def passes_of_atomics(address: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Count the passes of an atomic on words: lanes in the same bank are serialized, even on the same word.

    **Shapes:** address (in bytes) and mask [..., 32], result [...].
    """
    bank = BANKS * _warps(address.shape) + (address // WORD & (BANKS - 1))
    counts = np.bincount(bank[mask], minlength=BANKS * math.prod(address.shape[:-1]))
    return counts.reshape(*address.shape[:-1], BANKS).max(-1)


def _busiest(element: Any, mask: Any, part: Any, banks: Any, parts: int, xp: Any) -> Any:
    """Distinct elements in the busiest bank, summed over the parts of the warp (None: one part)."""
    key = element if part is None else element * parts + part  # parts share no element
    if xp is np:
        return _busiest_counted(*sorted_places(key, mask), banks, parts)
    bank = once_computed(xp.asarray(element % banks, xp.int8), xp)  # in bytes: several times faster
    firsts = once_computed(first(key, mask, xp), xp)
    same = bank[..., :, None] == bank[..., None, :]
    if part is None:
        return xp.where(mask, (same & firsts[..., None, :]).sum(-1, dtype=xp.int8), 0).max(-1).astype(int)
    same = same & (part[..., :, None] == part[..., None, :])
    counts = once_computed(xp.where(mask, (same & firsts[..., None, :]).sum(-1, dtype=xp.int8), 0), xp)
    return sum(xp.where(part == number, counts, 0).max(-1).astype(int) for number in range(parts))


def _busiest_counted(keys: np.ndarray, firsts: np.ndarray, banks: Any, parts: int) -> np.ndarray:
    """As `_busiest`, by counting sorted `keys`: faster in NumPy."""
    shape, warp = keys.shape[:-1], _warps(keys.shape)[firsts]
    if parts == 1:
        bank = BANKS * warp + (keys[firsts] & (banks - 1))
        return np.bincount(bank, minlength=BANKS * math.prod(shape)).reshape(*shape, BANKS).max(-1)
    bank = (keys // parts & (banks - 1))[firsts]  # banks and parts are powers of two
    bank = BANKS * (parts * warp + (keys & (parts - 1))[firsts]) + bank
    counts = np.bincount(bank, minlength=BANKS * parts * math.prod(shape))
    return counts.reshape(*shape, parts, BANKS).max(-1).sum(-1)


def _warps(shape: tuple[int, ...]) -> np.ndarray:
    """The warp number of each lane; lanes are on the last axis."""
    return np.repeat(np.arange(math.prod(shape[:-1])), shape[-1]).reshape(shape)
