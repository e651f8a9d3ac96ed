"""Find which instructions store what each load from shared memory reads, by the addresses that blocks access.

Compilers use shared memory for one thing after another: tiles of a product, then its result. Without this a
load asks for the data of all stores, also if these are others' tiles.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from dse.errors import DseError
from dse.source.machine.launch import Dimensions, LaunchArguments

Feeds = Mapping[int, frozenset[int]]  # by the load's number, those of the stores
# Runs a block with the data of these stores alone: (what loads read, instructions evaluated to know where).
Reading = Callable[[Feeds, Dimensions], tuple[Feeds, Collection[int]]]
STEPS = 20_000  # pieces of code that a block may execute until it is known what its loads read
_MOST = 2**18  # bytes, more than any block has


class Touch(NamedTuple):
    """One execution of an instruction that accesses shared memory."""

    number: int  # of the instruction
    base: np.ndarray  # bytes, broadcasts to [blocks, ...]
    active: np.ndarray  # threads, likewise
    size: int  # bytes
    loads: bool
    stores: bool
    offset: int = 0


def feeds_of(loads: Collection[int], launch: LaunchArguments, read: Reading) -> Feeds | None:
    """Return what loads read in the middle of the grid, if they are executed; None if it cannot be run."""
    x, y, z = (size // 2 for size in launch.grid)
    feeds: Feeds = dict.fromkeys(loads, frozenset[int]())
    while True:
        try:
            now, evaluated = read(feeds, (x, y, z))
        except DseError:
            return None
        before, feeds = feeds, joined(feeds, now)
        if feeds == before or feeds.keys().isdisjoint(evaluated):
            return {load: stores for load, stores in feeds.items() if load in now}


def joined(feeds: Feeds, more: Feeds) -> Feeds:
    """Return the stores of both for the loads of the first."""
    return {load: stores | more.get(load, frozenset()) for load, stores in feeds.items()}


def written_by(touches: Iterable[Touch], blocks: int, unit: int, moved: Collection[int]) -> Feeds:
    """Return which stores wrote last what each load reads, of `unit` bytes at least.

    Those that `moved` in trips of a loop that were skipped may have been anywhere.
    """
    last = np.full((blocks, _MOST // unit), -1, np.int32)
    read, stores = dict[int, set[int]](), set[int]()
    for touch in touches:
        rows = max(len(touch.base), len(touch.active))
        shape = np.broadcast_shapes(touch.base.shape, touch.active.shape)
        active = np.broadcast_to(touch.active, shape)
        address = np.broadcast_to(touch.base + touch.offset & _MOST - 1, shape)[active]
        at = (address[:, None] // unit + np.arange(max(touch.size // unit, 1))) % last.shape[1]
        place = (slice(None), at) if rows == 1 else (np.nonzero(active)[0][:, None], at)
        if touch.loads:
            writers = np.bincount(last[place].ravel() + 1)
            read.setdefault(touch.number, set()).update((np.flatnonzero(writers) - 1).tolist())
        if touch.stores:
            stores.add(touch.number)
            last[place] = touch.number
    read = {load: stores if load in moved else of | stores.intersection(moved) for load, of in read.items()}
    return {load: frozenset(of - {-1}) for load, of in read.items()}
