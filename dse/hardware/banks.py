"""Passes of a shared memory access through the 32 banks of 4 bytes.

Lanes that access the same word share a pass. Elements are aligned to their size. Those of 8 (16) bytes are
served half (a quarter of) a warp at a time, or twice as many if each lane accesses the same element as its
neighbour, or as the lane after that.

Source: NVIDIA, CUDA C Programming Guide 5.0, Sec. F.4.3; wide accesses: an NVIDIA engineer in NVIDIA's
developer forum.
"""

import math
from typing import Any

import numpy as np

from dse.hardware.lanes import WARP, sorted_places

BANKS = 32
WORD = 4  # bytes of a bank
MOST_PARTS = 8  # of a warp served one after another, at 32 bytes a lane


def passes(address: np.ndarray, mask: np.ndarray, size: Any) -> np.ndarray:
    """Count the passes of an access of `size` bytes a lane; 0 without an active lane.

    **Shapes:** address (in bytes) and mask [..., 32], size [...] or a number; result [...].
    """
    if isinstance(size, int) and size <= WORD:
        return _busiest(address >> 2, mask, BANKS, 1)  # words; a shift is faster
    parts = size // WORD if isinstance(size, int) else MOST_PARTS
    size = np.asarray(size, int)
    size = size[..., None] if size.ndim else size
    unit = np.maximum(size, WORD)  # banks as wide as an element, whose words are always accessed together
    element = address // unit
    at_a_time = np.minimum(BANKS * WORD // unit, BANKS)
    lane = np.arange(WARP).reshape((1,) * (address.ndim - 1) + (WARP,))
    paired = np.zeros(mask.shape[:-1], bool)
    for apart in (1, 2):
        other = [number ^ apart for number in range(WARP)]
        same = (element == element[..., np.asarray(other)]) | ~mask | ~mask[..., np.asarray(other)]
        paired = paired | same.all(-1)
    part = lane // at_a_time
    part = np.where(paired[..., None], part // 2, part)
    return _busiest(element * parts + part, mask, at_a_time, parts)  # parts share no element


def passes_of_atomics(address: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Count the passes of an atomic on words: lanes in the same bank are serialized, even on the same word.

    **Shapes:** address (in bytes) and mask [..., 32], result [...].
    """
    bank = BANKS * _warps(address.shape) + (address // WORD & (BANKS - 1))
    counts = np.bincount(bank[mask], minlength=BANKS * math.prod(address.shape[:-1]))
    return counts.reshape(*address.shape[:-1], BANKS).max(-1)


def _busiest(keys: np.ndarray, mask: np.ndarray, banks: Any, parts: int) -> np.ndarray:
    """Distinct elements in the busiest bank, summed over the parts of the warp, the last digit of a key."""
    keys, firsts = sorted_places(keys, mask)
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
