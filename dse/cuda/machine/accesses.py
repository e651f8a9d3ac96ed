"""Counts what each warp of a memory instruction asks of the hardware: sectors, lines, passes through banks.

Addresses come as [blocks, warps, 32], with the mask of the lanes that take part in the same shape (both may
have one block for all).
"""

import numpy as np

SECTOR = 32  # bytes
LINE = 128
BANKS = 32
_NONE = np.int64(2**62)  # sorts behind every address


def distinct(numbers: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sort the numbers of each warp, and tell which are there for the first time: (values, first), both [..,
    n].

    Lanes that do not take part are sorted to the end and are never first.
    """
    values = numbers if mask.all() else np.where(mask, numbers, _NONE)
    steps = np.diff(values, axis=-1)
    if (steps < 0).any():
        values = np.sort(values, axis=-1)
        steps = np.diff(values, axis=-1)
    first = np.empty(values.shape, bool)
    first[..., 0] = values[..., 0] < _NONE
    np.logical_and(steps > 0, values[..., 1:] < _NONE, out=first[..., 1:])
    return values, first


def sectors(addresses: np.ndarray, mask: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Find the 32-byte sectors that warps touch, as `distinct` does.

    An access of `size` bytes is aligned to it, or taken apart.
    """
    if size <= SECTOR:
        return distinct(addresses >> 5, mask)
    parts = np.concatenate([(addresses + part) >> 5 for part in range(0, size, SECTOR)], axis=-1)
    return distinct(parts, np.concatenate([mask] * (size // SECTOR), axis=-1))


def lines(values: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Count the 128-byte lines among the sectors that `sectors` found: [..]"""
    line = values >> 2
    starts = first.copy()
    starts[..., 1:] &= line[..., 1:] != line[..., :-1]
    return np.count_nonzero(starts, axis=-1)


def wavefronts(addresses: np.ndarray, mask: np.ndarray, size: int) -> np.ndarray:
    """Count the passes of each warp through the 32 banks of 4 bytes: [..]

    Lanes that ask for the same word share a pass. 8-byte accesses are served a half warp at a time, 16-byte
    ones a quarter; twice as many lanes where each asks for the same as its neighbour, or as the one after
    that (an NVIDIA engineer's rule for compute capability 7.x, in NVIDIA's developer forum).
    """
    words = max(size // 4, 1)
    if words == 1:
        return _busiest_bank(addresses >> 2, mask)
    total = _in_parts(addresses, mask, words, 32 // words)
    paired = _in_pairs(addresses, mask)
    if paired.any():
        total = np.where(paired, _in_parts(addresses, mask, words, 64 // words), total)
    return total


def _in_parts(addresses: np.ndarray, mask: np.ndarray, words: int, lanes: int) -> np.ndarray:
    """Passes of accesses to several words, so many lanes at a time: [..]"""
    total = np.zeros(addresses.shape[:-1], np.int64)
    for start in range(0, 32, lanes):
        part, here = addresses[..., start : start + lanes] >> 2, mask[..., start : start + lanes]
        part = np.concatenate([part + word for word in range(words)], axis=-1)
        total += _busiest_bank(part, np.concatenate([here] * words, axis=-1))
    return total


def _in_pairs(addresses: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Warps of which each lane asks for the same as the one beside it, or as the one two further: [..]"""
    lane = np.arange(32)
    paired = np.zeros(addresses.shape[:-1], bool)
    for other in (lane ^ 1, lane ^ 2):
        same = (addresses == addresses[..., other]) | ~mask | ~mask[..., other]
        paired |= same.all(-1)
    return paired


def _busiest_bank(words: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Different words of the bank that is asked for most: [..]"""
    values, first = distinct(words, mask)
    warps = int(np.prod(values.shape[:-1]))
    warp = np.repeat(np.arange(warps), values.shape[-1]).reshape(values.shape)
    chosen = warp[first] * BANKS + (values[first] & (BANKS - 1))
    counts = np.bincount(chosen, minlength=warps * BANKS).reshape(*values.shape[:-1], BANKS)
    return counts.max(-1)


def atomic_wavefronts(addresses: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Count the passes of an atomic on shared memory: [..]

    Lanes that ask for the same bank take turns, for the same word too.
    """
    bank = (addresses >> 2) & (BANKS - 1)
    counts = np.stack(
        [np.count_nonzero((bank == number) & mask, axis=-1) for number in range(BANKS)], axis=-1
    )
    return counts.max(-1)
