"""Issues instructions of one warp, one after another, each once its registers are there and its pipe is free.

Compiled: a walk through unrolled code issues tens of thousands. Where a warp stands is in the arrays of
`Standing`, which are changed in place.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from dse.core.numba_cache import compiled


class IssueCode(NamedTuple):
    """Instructions, one after another: [n], of slots a flat list and where those of each begin, [n + 1]."""

    needs: np.ndarray  # slots that it waits for
    needs_from: np.ndarray
    writes: np.ndarray
    writes_from: np.ndarray
    pipe: np.ndarray  # number of its pipe
    latency: np.ndarray  # cycles
    interval: np.ndarray
    source: np.ndarray  # where its result comes from: number of it
    loads: np.ndarray  # 1: from global memory


class Standing(NamedTuple):
    """Position of a warp."""

    now: np.ndarray  # [4]: time, longest chain, waits for loads, loads
    waited: np.ndarray  # [sources] results waited for until now
    written: np.ndarray  # [slots] bool
    ready: np.ndarray  # [slots] when it can be read
    path: np.ndarray  # [slots, sources] results waited for until then
    depth: np.ndarray  # [slots] length of the chain that ends in it
    flying: np.ndarray  # [slots] bool, that wait for global memory
    entered: np.ndarray  # [pipes] bool
    free: np.ndarray  # [pipes] when it can be entered
    free_path: np.ndarray  # [pipes, sources]

    @staticmethod
    def at_start(slots: int, pipes: int, sources: int) -> "Standing":
        """Stand before the first instruction."""
        return Standing(
            now=np.zeros(4),
            waited=np.zeros(sources),
            written=np.zeros(slots, np.bool_),
            ready=np.zeros(slots),
            path=np.zeros((slots, sources)),
            depth=np.zeros(slots),
            flying=np.zeros(slots, np.bool_),
            entered=np.zeros(pipes, np.bool_),
            free=np.zeros(pipes),
            free_path=np.zeros((pipes, sources)),
        )

    def postpone(self, cycles: float, results: np.ndarray, chain: float) -> None:
        """Let all that was written or entered come so much later."""
        self.ready[self.written] += cycles
        self.path[self.written] += results
        self.depth[self.written] += chain
        self.free[self.entered] += cycles
        self.free_path[self.entered] += results


@partial(compiled, makes_arrays=True)
def issue(code: IssueCode, first: int, last: int, fetch: float, standing: Standing) -> None:
    """Issue the instructions from `first` up to `last`; each takes `fetch` cycles to come."""
    now, waited, ready, depth = standing.now, standing.waited, standing.ready, standing.depth
    flying = standing.flying
    time, deepest = now[0], now[1]
    for step in range(first, last):
        start, deep, pipe = time, 0.0, code.pipe[step]
        slot_waited_for = -1
        arrived = False
        if standing.entered[pipe] and standing.free[pipe] > start:
            start = standing.free[pipe]
            waited[:] = standing.free_path[pipe]
        for place in range(code.needs_from[step], code.needs_from[step + 1]):
            slot = code.needs[place]
            if ready[slot] > start:
                start, slot_waited_for = ready[slot], slot
            deep = max(deep, depth[slot])
            arrived |= flying[slot]
        if slot_waited_for >= 0:
            waited[:] = standing.path[slot_waited_for]
        if arrived:
            now[2] += 1
            flying[:] = False
        for place in range(code.writes_from[step], code.writes_from[step + 1]):
            slot = code.writes[place]
            deepest = max(deepest, deep + 1)
            standing.written[slot] = True
            ready[slot], depth[slot] = start + code.latency[step], deep + 1
            standing.path[slot] = waited
            standing.path[slot, code.source[step]] += 1
            if code.loads[step]:
                flying[slot] = True
        standing.entered[pipe] = True
        standing.free[pipe] = start + code.interval[step]
        standing.free_path[pipe] = waited
        time = start + 1 + fetch
        now[3] += code.loads[step]
    now[0], now[1] = time, deepest
