"""Sets of threads that execute together, and their counts."""

from functools import cached_property

import numpy as np

WARP = 32
_BITS = np.uint32(1) << np.arange(WARP, dtype=np.uint32)


def ballot(by_warp: np.ndarray) -> np.ndarray:
    """Return masks of warps, [..., 32], as 32 bits each."""
    return np.bitwise_or.reduce(np.where(by_warp, _BITS, np.uint32(0)), axis=-1)


class Lanes:
    """A set of threads of executed blocks. Equal sets are one object while they are in use."""

    def __init__(self, mask: np.ndarray, shape: tuple[int, int]) -> None:
        self.mask = mask  # [1 or blocks, threads]
        self.shape = shape  # blocks, threads (a multiple of 32)
        counts = np.count_nonzero(mask, axis=1)
        self.threads = np.broadcast_to(counts, shape[:1]).astype(float)  # of each block
        self.total = int(counts.sum()) * (shape[0] // mask.shape[0])

    @cached_property
    def everywhere(self) -> np.ndarray:
        """The mask of all blocks: [blocks, threads]."""
        return np.broadcast_to(self.mask, self.shape)

    @cached_property
    def by_warp(self) -> np.ndarray:
        """The mask by warps: [1 or blocks, warps, 32]"""
        return self.mask.reshape(self.mask.shape[0], -1, WARP)

    @cached_property
    def warps_here(self) -> np.ndarray:
        """Whether each warp has a thread in the set: [1 or blocks, warps]."""
        return np.asarray(self.by_warp.any(-1))

    @cached_property
    def warps(self) -> np.ndarray:
        """The number of warps of each block with a thread in the set: [blocks]."""
        counts = np.count_nonzero(self.warps_here, axis=1)
        return np.broadcast_to(counts, self.shape[:1]).astype(float)

    @cached_property
    def whole(self) -> bool:
        """Whether the set has all or no threads of each warp."""
        return bool(self.total == WARP * int(self.warps.sum()))

    @cached_property
    def bits(self) -> np.ndarray:
        """The set's threads of each thread's warp, as a mask of 32 bits: [1 or blocks, threads]."""
        return np.repeat(ballot(self.by_warp), WARP, axis=1)

    @property
    def blocks(self) -> np.ndarray:
        """The block of each thread in the set: [total]."""
        return np.repeat(np.arange(self.shape[0]), self.threads.astype(int))

    def of(self, value: np.ndarray) -> np.ndarray:
        """Return a value, which broadcasts to [blocks, threads], for each thread in the set: [total]."""
        wide = np.broadcast_to(value, self.shape)
        return wide.ravel() if self.total == wide.size else wide[self.everywhere]

    def placed(self, values: np.ndarray) -> np.ndarray:
        """Return the values of the threads in the set, and 0 for others: [blocks, threads]."""
        if self.total == self.shape[0] * self.shape[1]:
            return values.reshape(self.shape)
        full = np.zeros(self.shape, values.dtype)
        full[self.everywhere] = values
        return full


class LaneSets:
    """Returns one `Lanes` object for each set."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape = shape
        self._known: dict[tuple[int, bytes], Lanes] = {}
        self._inside: dict[tuple[int, int], tuple[Lanes, Lanes, bool]] = {}
        self._whole: dict[int, tuple[Lanes, Lanes]] = {}

    def of(self, mask: np.ndarray) -> Lanes:
        """Return the set of threads where `mask` is true; it broadcasts to [blocks, threads]."""
        if mask.shape[1] != self.shape[1]:
            mask = np.broadcast_to(mask, (mask.shape[0], self.shape[1]))
        key = (mask.shape[0], mask.tobytes())
        lanes = self._known.get(key)
        if lanes is None:
            if len(self._known) > 2000:
                self._known.clear()
            lanes = self._known[key] = Lanes(np.ascontiguousarray(mask), self.shape)
        return lanes

    def whole_warps(self, lanes: Lanes) -> Lanes:
        """Return all lanes of the warps with a thread in a set."""
        known = self._whole.get(id(lanes))
        if known is None or known[0] is not lanes:
            mask = np.repeat(lanes.by_warp.any(-1), WARP, axis=1)
            known = self._whole[id(lanes)] = (lanes, self.of(mask))
        return known[1]

    def within(self, inner: Lanes, outer: Lanes) -> bool:
        """Return whether all threads of one set are in another."""
        key = (id(inner), id(outer))
        known = self._inside.get(key)
        if known is None or known[0] is not inner or known[1] is not outer:
            inside = not (inner.mask & ~outer.mask).any()
            known = self._inside[key] = (inner, outer, inside)
        return known[2]
