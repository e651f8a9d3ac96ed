"""Issue the instructions of one warp in order, each when its registers are ready and its pipe is free.

Results without a watched register are in flight in groups, which later instructions wait for: a group is
closed, and a wait ends when at most some number of groups are in flight. These are NVIDIA's asynchronous
copies and products, and all memory accesses on AMD GPUs, each a group of its own.

The code is compiled, since a walk through unrolled code issues tens of thousands of instructions. The state
of a warp is in the arrays of `Standing`, which are changed in place, number by number: assignments of slices
compile for several times as long.
"""

from typing import Any, NamedTuple

import numpy as np

from dse.core.numba_cache import compiled, inlined

TIME, CHAIN, WAITS, LOADS = range(4)  # indices in `Standing.now`
ANY_LEFT = -1  # as the number of groups that may stay in flight: all but the oldest
_MOST = 64  # separate groups of a queue; no instruction distinguishes more


class Ways(NamedTuple):
    """How a vendor's warps wait."""

    # Whether accesses queue for their memory's pipe while the warp continues; then a wait for another pipe
    # is no wait for results, and each wait for groups with a load counts as one.
    posts: bool = False
    copies: int = -1  # queue whose waits count as a share of one, by the groups in flight
    steady: int = 0  # successive walks of a block before its time counts as settled; 0: any
    settles: bool = False  # whether trips are walked again before the others are assumed to be equal
    # First slot of scoreboards, each of several results: it is clear after the last, and in no chain.
    scoreboards: int = np.iinfo(np.int64).max


class IssueCode(NamedTuple):
    """Instructions in order: [n]; slots are flat lists with the start of each instruction's, [n + 1]."""

    needs: np.ndarray  # slots that it waits for
    needs_from: np.ndarray
    writes: np.ndarray
    writes_from: np.ndarray
    waits: np.ndarray  # (queue, groups that may stay in flight) of its waits, flat
    waits_from: np.ndarray
    pipe: np.ndarray  # number of its pipe
    cycles: np.ndarray  # until the next can be issued
    latency: np.ndarray  # cycles
    interval: np.ndarray  # cycles until the pipe can be entered again
    source: np.ndarray  # number of its result's source
    loads: np.ndarray  # 1: from global memory
    chains: np.ndarray  # 1: part of dependence chains
    group: np.ndarray  # [n, 5] its effect on groups, see GroupChange
    queued: np.ndarray  # 1: it queues for its pipe, while the warp waits only for its result


class GroupChange(NamedTuple):
    """The effect of an instruction on the groups of a queue."""

    queue: int = -1
    starts: bool = False  # adds its result to the open group
    closes: bool = False  # ends the open group
    of_none: bool = False  # whether a group without results counts as a group, done at once
    into: int = -1  # queue of the closed groups, if another


class Standing(NamedTuple):
    """The state of a warp."""

    now: np.ndarray  # [4]: time, longest chain, waits for loads, loads
    waited: np.ndarray  # [sources] awaited results so far
    written: np.ndarray  # [slots] bool
    ready: np.ndarray  # [slots] when it can be read
    path: np.ndarray  # [slots, sources] awaited results until then
    depth: np.ndarray  # [slots] length of the chain that ends in it
    flying: np.ndarray  # [slots] bool, waiting for global memory
    free: np.ndarray  # [pipes] when it is free
    free_path: np.ndarray  # [pipes, sources]
    # Groups in a ring of `_MOST` places per queue, followed by the open one.
    oldest: np.ndarray  # [queues] place of the first
    closed: np.ndarray  # [queues] number of them
    is_open: np.ndarray  # [queues] bool
    arrival: np.ndarray  # [queues, places] of the last result of each
    arrival_path: np.ndarray  # [queues, places, sources]
    has_load: np.ndarray  # [queues, places] bool
    most_in_flight: np.ndarray  # [1] that a wait has left, so far

    @staticmethod
    def at_start(slots: int, pipes: int, sources: int, queues: int) -> "Standing":
        """Return the state before the first instruction."""
        return Standing(
            now=np.zeros(4),
            waited=np.zeros(sources),
            written=np.zeros(slots, np.bool_),
            ready=np.zeros(slots),
            path=np.zeros((slots, sources)),
            depth=np.zeros(slots),
            flying=np.zeros(slots, np.bool_),
            free=np.zeros(pipes),
            free_path=np.zeros((pipes, sources)),
            oldest=np.zeros(queues, np.int64),
            closed=np.zeros(queues, np.int64),
            is_open=np.zeros(queues, np.bool_),
            arrival=np.zeros((queues, _MOST + 1)),
            arrival_path=np.zeros((queues, _MOST + 1, sources)),
            has_load=np.zeros((queues, _MOST + 1), np.bool_),
            most_in_flight=np.zeros(1, np.int64),
        )

    def postpone(self, cycles: float, results: np.ndarray, chain: float) -> None:
        """Delay all results, pipes and groups by `cycles`."""
        self.ready[self.written] += cycles
        self.path[self.written] += results
        self.depth[self.written] += chain
        self.free[:] += cycles
        self.free_path[:] += results
        self.arrival[:] += cycles
        self.arrival_path[:] += results


@inlined
def _copy(row: np.ndarray, other: np.ndarray) -> None:
    """Copy awaited results to a row of them."""
    for source in range(len(row)):
        row[source] = other[source]


@compiled
def issue(code: IssueCode, ways: Ways, first: int, last: int, fetch: float, standing: Standing) -> None:
    """Issue the instructions from `first` up to `last`; each takes `fetch` cycles to fetch."""
    now, waited, ready, depth = standing.now, standing.waited, standing.ready, standing.depth
    flying, free = standing.flying, standing.free
    for step in range(first, last):
        time, deep, pipe = now[TIME], 0.0, code.pipe[step]
        start: Any = time
        slot_waited_for = -1
        arrived = False
        for place in range(code.needs_from[step], code.needs_from[step + 1]):
            slot = code.needs[place]
            if ready[slot] > start:
                start, slot_waited_for = ready[slot], slot
            deep = max(deep, depth[slot])
            arrived |= flying[slot]
        if slot_waited_for >= 0:
            _copy(waited, standing.path[slot_waited_for])
        for place in range(code.waits_from[step], code.waits_from[step + 1], 2):
            start, of_load = _wait(ways, code.waits[place], code.waits[place + 1], start, standing)
            arrived |= of_load
        queue, starts = code.group[step, 0], code.group[step, 1] > 0
        posted = ways.posts and starts
        queued = posted or code.queued[step] > 0
        entered = start
        if queued:
            entered = max(start, free[pipe])
        elif free[pipe] > time and free[pipe] >= start:
            start = entered = free[pipe]
            if not ways.posts:
                _copy(waited, standing.free_path[pipe])
        free[pipe] = entered + code.interval[step]
        _copy(standing.free_path[pipe], waited)
        late = (free[pipe] if queued else start) + code.latency[step]
        if arrived:
            now[WAITS] += 1
            for slot in range(len(flying)):
                flying[slot] = False
        for place in range(code.writes_from[step], code.writes_from[step + 1]):
            slot = code.writes[place]
            if slot >= ways.scoreboards and ready[slot] >= late:
                continue
            standing.written[slot] = True
            ready[slot] = start if posted else late
            depth[slot] = 0.0 if slot >= ways.scoreboards else deep + 1
            _copy(standing.path[slot], waited)
            standing.path[slot, code.source[step]] += 1
            if code.loads[step] and not posted:
                flying[slot] = True
        if code.chains[step]:
            now[CHAIN] = max(now[CHAIN], deep + 1)
        if starts:
            _start(queue, late, code.source[step], posted and code.loads[step] > 0, standing)
        if code.group[step, 2]:
            _close(queue, code.group[step, 3] > 0, standing)
            if code.group[step, 4] >= 0:
                _move(queue, code.group[step, 4], standing)
        now[TIME] = start + code.cycles[step] + fetch
        now[LOADS] += code.loads[step]


@inlined
def _wait(ways: Ways, queue: int, left: int, start: float, standing: Standing) -> tuple[float, bool]:
    """Wait until at most `left` groups are in flight: (time, whether one with a load arrived)."""
    if left == ANY_LEFT and not standing.closed[queue]:
        _close(queue, standing.is_open[queue], standing)  # for False Numba compiles it again
    in_flight = standing.closed[queue]
    over = in_flight - left if left != ANY_LEFT else min(in_flight, 1)
    of_load = False
    if over <= 0:
        return start, of_load
    if queue == ways.copies:
        standing.now[WAITS] += 1 / in_flight
    for _ in range(over):
        place = standing.oldest[queue]
        if standing.arrival[queue, place] > start:
            start = standing.arrival[queue, place]
            _copy(standing.waited, standing.arrival_path[queue, place])
        of_load |= standing.has_load[queue, place]
        standing.oldest[queue] = (place + 1) % _MOST
    standing.closed[queue] -= over
    standing.most_in_flight[0] = max(standing.most_in_flight[0], standing.closed[queue])
    return start, of_load


@inlined
def _start(queue: int, late: float, source: int, of_load: bool, standing: Standing) -> None:
    """Add a result to the open group, which arrives with its latest result."""
    if not standing.is_open[queue] or late >= standing.arrival[queue, _MOST]:
        standing.arrival[queue, _MOST] = late
        _copy(standing.arrival_path[queue, _MOST], standing.waited)
        standing.arrival_path[queue, _MOST, source] += 1
    standing.has_load[queue, _MOST] |= of_load
    standing.is_open[queue] = True


@inlined
def _close(queue: int, of_none: bool, standing: Standing) -> None:
    """Close the open group; without results there is none, or one that is done at once."""
    if not standing.is_open[queue]:
        if not of_none:
            return
        standing.arrival[queue, _MOST] = -np.inf
    _append(queue, queue, standing.arrival.shape[1] - 1, standing)  # as for _MOST
    standing.is_open[queue] = standing.has_load[queue, _MOST] = False


@inlined
def _append(queue: int, of: int, place: int, standing: Standing) -> None:
    """Add the closed group at a place of a queue to a queue. If it is full, its two oldest are merged."""
    if standing.closed[queue] == _MOST:
        oldest = standing.oldest[queue]
        second = (oldest + 1) % _MOST
        if standing.arrival[queue, second] <= standing.arrival[queue, oldest]:
            standing.arrival[queue, second] = standing.arrival[queue, oldest]
            _copy(standing.arrival_path[queue, second], standing.arrival_path[queue, oldest])
        standing.has_load[queue, second] |= standing.has_load[queue, oldest]
        standing.oldest[queue] = second
        standing.closed[queue] -= 1
    behind = (standing.oldest[queue] + standing.closed[queue]) % _MOST
    standing.arrival[queue, behind] = standing.arrival[of, place]
    _copy(standing.arrival_path[queue, behind], standing.arrival_path[of, place])
    standing.has_load[queue, behind] = standing.has_load[of, place]
    standing.closed[queue] += 1


@inlined
def _move(queue: int, into: int, standing: Standing) -> None:
    """Move closed groups to another queue."""
    while standing.closed[queue]:
        _append(into, queue, standing.oldest[queue], standing)
        standing.oldest[queue] = (standing.oldest[queue] + 1) % _MOST
        standing.closed[queue] -= 1
