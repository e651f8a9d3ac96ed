"""Counts of accesses, reused for equal access patterns.

The requests of a warp depend only on its lanes and on its addresses, modulo a period of bytes. So one count
serves all accesses of the same lanes and, if each warp has all or no lanes active, of any warps.
"""

from collections.abc import Callable, Hashable
from hashlib import blake2b
from operator import is_
from typing import Any

import numpy as np

_MOST = 1000  # accesses that are kept
_SHORT = 2**14  # addresses that are compared with all earlier ones; longer arrays with the last


class Patterns:
    """Counts of accesses by their kind, lanes and addresses."""

    def __init__(self) -> None:
        self._last: dict[Hashable, tuple[tuple[object, ...], np.ndarray, np.ndarray]] = {}
        self._digests: dict[tuple[int, int], tuple[np.ndarray, bytes]] = {}
        self._asked: dict[Hashable, tuple[tuple[object, ...], Any]] = {}

    def of(
        self,
        kind: Hashable,
        lanes: tuple[object, ...],
        whole: bool,
        base: np.ndarray,
        period: int,
        ask: Callable[[], Any],
        count: Callable[[Any], np.ndarray],
    ) -> np.ndarray:
        """Return the counts of a kind of access, counted now or before.

        `lanes` are the objects with the active lanes, `whole` says whether these are all or none of each
        warp; `base` are the addresses, of which only the value modulo `period` bytes matters. `ask` returns
        the requests of warps, and `count` their counts.
        """
        last = kind, *map(id, lanes)
        known = self._last.get(last)
        if known is not None and all(map(is_, known[0], lanes)) and _alike(known[1], base, period):
            return known[2]
        kept = self._last, self._asked, self._digests
        if max(map(len, kept)) > _MOST:
            for known_before in kept:
                known_before.clear()
        asked = self._asked_for(kind, () if whole else lanes, base, period, ask)
        counts = count(asked)
        self._last[last] = lanes, base, counts
        return counts

    def _asked_for(
        self, kind: Hashable, lanes: tuple[object, ...], base: np.ndarray, period: int, ask: Callable[[], Any]
    ) -> Any:
        if base.size > _SHORT:
            return ask()
        key = kind, *map(id, lanes), base.shape, self._digest(base, period)
        known = self._asked.get(key)
        if known is None or not all(map(is_, known[0], lanes)):
            known = self._asked[key] = lanes, ask()
        return known[1]

    def _digest(self, base: np.ndarray, period: int) -> bytes:
        """Return a digest of addresses, less whole periods: that of the same object is known."""
        known = self._digests.get((id(base), period))
        if known is None or known[0] is not base:
            first = int(base.flat[0])
            digest = blake2b((base - first // period * period).tobytes(), digest_size=16).digest()
            known = self._digests[id(base), period] = base, digest
        return known[1]


def _alike(known: np.ndarray, base: np.ndarray, period: int) -> bool:
    """Return whether addresses differ from others by the same number of whole periods."""
    if known is base:
        return True
    if known.shape != base.shape:
        return False
    apart = base - known
    first = int(apart.flat[0])
    return first % period == 0 and not (apart != first).any()
