"""The executed basic blocks, and how often warps went from one to another, from a machine's trace."""

from collections.abc import Iterator, Sequence

import numpy as np

from dse.source.machine.thread_set import WARP, Lanes
from dse.source.nvidia.graphs.dominators import dominators
from dse.source.nvidia.graphs.instructions import MemoryDemand
from dse.source.nvidia.machine.state import Machine
from dse.source.profile.single_warp import times_of

END = -1  # represents the end of the kernel, as a basic block
INDIRECT = ("RET", "BRX", "BRXU", "JMX", "JMXU")
DIRECT = ("BRA", "JMP", "CALL", "EXIT")


class ControlFlow:
    """The executed basic blocks, and how often an average warp took each edge between them."""

    def __init__(self, machine: Machine, weights: Sequence[float] | None) -> None:
        """`weights` are the blocks of the grid that each executed block represents; None: equal."""
        self.machine = machine
        shares = np.ones(machine.shape[0]) if weights is None else np.asarray(weights, float)
        self.weights = shares / (shares.sum() * (machine.shape[1] // WARP))  # to the average warp
        self.demand = MemoryDemand(machine, self.weights)
        splitting = _Splitting(machine, self.weights)
        self.edges: dict[tuple[int, int], np.ndarray] = {}  # from, to → warps, lanes
        self.splits: dict[int, float] = {}  # block → visits in which warps split
        times = times_of(machine).tolist()
        for position, (index, lanes) in enumerate(machine.trace):
            self._follow(position, index, lanes, times[position], splitting)
        self.executed = sorted({0, *(target for _, target in self.edges if target >= 0)})
        self.after: dict[int, list[int]] = {index: [] for index in self.executed}
        self.before: dict[int, list[int]] = {index: [] for index in (END, *self.executed)}
        for source, target in sorted(self.edges):
            self.after[source].append(target)
            self.before[target].append(source)
        self.dominators = dominators(self.executed, self.after, 0)

    def along(self, source: int, target: int) -> tuple[float, float]:
        """Return the (warps, lanes) per average warp that took an edge."""
        warps, lanes = self.edges.get((source, target), np.zeros(2)).tolist()
        return warps, lanes

    def _follow(self, place: int, index: int, lanes: Lanes, times: float, splitting: "_Splitting") -> None:
        """Count where the threads of the basic block at `place` of the trace go next."""
        last = self.machine.program.blocks[index].steps[-1]
        if last.opcode in INDIRECT:
            for target, going in splitting.scattered(place, lanes):
                self._count(index, target, going, times)
            return
        if last.opcode not in DIRECT or last.jump == index + 1:
            self._count(index, index + 1, lanes, times)
            return
        # The lower address is executed next, so the next entry has exactly the lanes that go there.
        target = last.jump
        near = index + 1 if not 0 <= target <= index else target
        first, second = splitting.next_at(place, near, lanes)
        self._count(index, near, first, times)
        self._count(index, target if near != target else index + 1, second, times)
        if first is not None and second is not None:
            self.splits[index] = self.splits.get(index, 0.0) + times * splitting.warps_in_both(first, second)

    def _count(self, source: int, target: int, lanes: Lanes | None, times: float) -> None:
        """Count threads that take an edge."""
        if lanes is not None:
            total = self.edges.setdefault((source, target), np.zeros(2))
            total += times * np.array([lanes.warps @ self.weights, lanes.threads @ self.weights])


class _Splitting:
    """Divergence of threads after a basic block, from the entries of the trace that follow."""

    def __init__(self, machine: Machine, weights: np.ndarray) -> None:
        self.machine, self.weights = machine, weights
        self._parted: dict[tuple[int, int], tuple[Lanes, Lanes | None, Lanes | None]] = {}
        self._in_both: dict[tuple[int, int], float] = {}

    def next_at(self, place: int, near: int, lanes: Lanes) -> tuple[Lanes | None, Lanes | None]:
        """Return (those of `lanes` whose next block is `near`, the others)."""
        trace = self.machine.trace
        if place + 1 == len(trace) or trace[place + 1][0] != near:
            return None, lanes
        following = trace[place + 1][1]
        if following is lanes:
            return lanes, None
        key = (id(lanes), id(following))
        if key not in self._parted:
            first = self.machine.sets.of(lanes.mask & following.mask)
            first = first if first.total else None
            self._parted[key] = following, first, self.machine.rest(lanes, first)
        return self._parted[key][1:]

    def scattered(self, place: int, lanes: Lanes) -> Iterator[tuple[int, Lanes]]:
        """Yield the next blocks of these threads, and the threads in each."""
        left: Lanes | None = lanes
        for index, others in self.machine.trace[place + 1 :]:
            here = self.machine.sets.of(left.mask & others.mask)
            if here.total:
                yield index, here
                left = self.machine.rest(left, here)
                if left is None:
                    return

    def warps_in_both(self, first: Lanes, second: Lanes) -> float:
        """Return the warps with lanes in both sets, per average warp."""
        key = (id(first), id(second))
        if key not in self._in_both:
            both = first.warps_here & second.warps_here
            count = np.broadcast_to(both, (self.machine.shape[0], both.shape[1])).sum(1)
            self._in_both[key] = float(count @ self.weights)
        return self._in_both[key]
