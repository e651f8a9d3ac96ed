"""What one memory instruction asks of the hardware: sectors, lines and passes through the banks, of each
warp.

Addresses come as [blocks, warps, 32], with the mask of the lanes that take part in the same shape (both may
have one block for all).
"""

import numpy as np

SECTOR = 32  # bytes
LINE = 128
BANKS = 32
_NONE = np.int64(2**62)  # sorts behind every address


def distinct(places: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sorted places of each warp, and which of them are there for the first time: (values, first), both [..,
    n].

    Lanes that do not take part are sorted to the end and are never first.
    """
    values = places if mask.all() else np.where(mask, places, _NONE)
    steps = np.diff(values, axis=-1)
    if (steps < 0).any():
        values = np.sort(values, axis=-1)
        steps = np.diff(values, axis=-1)
    first = np.empty(values.shape, bool)
    first[..., 0] = values[..., 0] < _NONE
    np.logical_and(steps > 0, values[..., 1:] < _NONE, out=first[..., 1:])
    return values, first


def sectors(addresses: np.ndarray, mask: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """32-byte sectors that warps touch: as `distinct`. An access of `size` bytes is aligned to it, or taken
    apart.
    """
    if size <= SECTOR:
        return distinct(addresses >> 5, mask)
    parts = np.concatenate([(addresses + part) >> 5 for part in range(0, size, SECTOR)], axis=-1)
    return distinct(parts, np.concatenate([mask] * (size // SECTOR), axis=-1))


def lines(values: np.ndarray, first: np.ndarray) -> np.ndarray:
    """128-byte lines among the sectors that `sectors` found: [..]"""
    line = values >> 2
    starts = first.copy()
    starts[..., 1:] &= line[..., 1:] != line[..., :-1]
    return np.count_nonzero(starts, axis=-1)


def wavefronts(addresses: np.ndarray, mask: np.ndarray, size: int) -> np.ndarray:
    """Passes through the 32 banks of 4 bytes, of each warp: [..]

    Lanes that ask for the same word share a pass. 8-byte accesses are served a half warp at a time, 16-byte
    ones a quarter; parts that ask for nothing new together take no pass of their own.
    """
    words = max(size // 4, 1)
    first_word = addresses >> 2
    total = np.zeros(addresses.shape[:-1], np.int64)
    lanes = 32 // words
    for start in range(0, 32, lanes):
        part, here = first_word[..., start : start + lanes], mask[..., start : start + lanes]
        if words > 1:
            part = np.concatenate([part + word for word in range(words)], axis=-1)
            here = np.concatenate([here] * words, axis=-1)
        total += _busiest_bank(part, here)
    return np.maximum(total, mask.any(-1))


def _busiest_bank(words: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Different words of the bank that is asked for most: [..]"""
    values, first = distinct(words, mask)
    warps = int(np.prod(values.shape[:-1]))
    warp = np.repeat(np.arange(warps), values.shape[-1]).reshape(values.shape)
    chosen = warp[first] * BANKS + (values[first] & (BANKS - 1))
    counts = np.bincount(chosen, minlength=warps * BANKS).reshape(*values.shape[:-1], BANKS)
    return counts.max(-1)


def atomic_wavefronts(addresses: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Passes of an atomic on shared memory: lanes that ask for the same bank take turns, for the same word
    too.
    """
    bank = (addresses >> 2) & (BANKS - 1)
    counts = np.stack(
        [np.count_nonzero((bank == number) & mask, axis=-1) for number in range(BANKS)], axis=-1
    )
    return counts.max(-1)
