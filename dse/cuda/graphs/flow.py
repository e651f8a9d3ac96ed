"""What the average warp of a launch executed, as a graph of basic blocks (WFG), and the branches at which
warps split.

It comes from the static program, with the counts of all blocks that were run.

Source: Baghsorkhi et al. 2010, Sec. 3.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dse.cuda.graphs.dependence import WAITED_FOR, MemoryDemand, kind_of
from dse.cuda.machine.state import Machine
from dse.cuda.machine.thread_set import WARP, Lanes
from dse.cuda.profile.single_warp import entries
from dse.cuda.sass.program import Step

_INDIRECT = ("RET", "BRX", "BRXU", "JMX", "JMXU")
_DIRECT = ("BRA", "JMP", "CALL", "EXIT")


# Where warps split


@dataclass(frozen=True)
class BranchProfile:
    """A branch under a condition, over all warps of the blocks that were run, each visit by itself."""

    address: int
    text: str
    line: int | None
    block: int  # that it ends
    target: int  # block that it goes to; -1 for EXIT
    meets: int  # first block that all ways gone from here led to; -1: the end of the kernel
    visits: float  # of an average warp
    active: float  # share of a visiting warp's lanes that come, mean
    jumping: float  # share of these lanes that take it
    taken: float  # share of the visits in which a lane or more takes it
    passed: float  # ... goes on behind it
    diverged: float  # ... both: the warp splits
    lanes_taken: float  # lanes on either side of a warp that splits, mean
    lanes_passed: float


def branches(machine: Machine, weights: Sequence[float] | None = None) -> tuple[BranchProfile, ...]:
    """All branches under a condition that warps came to, in the order of addresses.

    `weights` says how many blocks of the grid each block that was run stands for (`Sample.weights`); else all
    count the same. Jumps to an address in a register are not among them.
    """
    return _Flow(machine, weights).branches


def divergent(machine: Machine, weights: Sequence[float] | None = None) -> tuple[BranchProfile, ...]:
    """Those at which a warp splits."""
    return tuple(branch for branch in branches(machine, weights) if branch.diverged > 0)


# The work flow graph


@dataclass(frozen=True)
class FlowNode:
    """Instructions of a basic block that belong together; counts are of an average warp."""

    kind: str  # "compute": any number; "memory", "shared", "barrier": one instruction
    block: int
    first: int  # address
    last: int
    insts: Mapping[str, int]  # by pipe; control and others that only take an issue slot too
    chain: int  # instructions that each need the one before, at most
    weight: float  # how often a warp executes it
    lanes: float  # that take part, mean over the times
    requests: float = 0.0  # of memory and shared: as in GraphInstruction
    sectors: float = 0.0
    passes: float = 0.0
    shared_passes: float = 0.0

    @property
    def count(self) -> int:
        return sum(self.insts.values())

    @property
    def ilp(self) -> float:
        return self.count / self.chain if self.chain else 1.0


@dataclass(frozen=True)
class Arc:
    """A node that follows another."""

    source: int
    target: int
    weight: (
        float  # how often lanes of an average warp leave along it; they may wait for others before the target
    )
    lanes: float  # each time, mean


@dataclass(frozen=True)
class Dependence:
    """A node that is the first, on some way, to use what a memory node loads."""

    source: int
    target: int
    carried: bool  # on to the next trip of a loop


@dataclass(frozen=True)
class FlowLoop:
    """Basic blocks that jump back to the first, all ways into them leading through it."""

    header: int
    blocks: tuple[int, ...]  # ascending
    trips: float  # mean, each time that a warp comes in
    entries: float  # of an average warp


@dataclass(frozen=True)
class FlowGraph:
    """The average warp of a launch, by basic blocks that were executed.

    The first node is where the kernel starts; what a function does that is called in several places is there
    once. Both sides of a branch have arcs with their own weights, which add up to more than one where warps
    split; `branches` has the shares. A loop that is entered in more than one place is not among `loops`.
    """

    kernel: str
    arch: int
    nodes: tuple[FlowNode, ...]
    arcs: tuple[Arc, ...]
    dependences: tuple[Dependence, ...]
    loops: tuple[FlowLoop, ...]  # outer ones before those inside
    branches: tuple[BranchProfile, ...]


def flow_graph(machine: Machine, weights: Sequence[float] | None = None) -> FlowGraph:
    """`weights` as in `branches`."""
    flow = _Flow(machine, weights)
    return FlowGraph(
        machine.program.kernel,
        machine.program.arch,
        tuple(flow.nodes),
        tuple(flow.arcs()),
        tuple(flow.dependences()),
        tuple(flow.loops()),
        flow.branches,
    )


class _Flow:
    """Where threads went, and what follows from that."""

    def __init__(self, machine: Machine, weights: Sequence[float] | None) -> None:
        self.machine, self.blocks = machine, machine.program.blocks
        given = np.ones(machine.shape[0]) if weights is None else np.asarray(weights, float)
        self.weights = given / (given.sum() * (machine.shape[1] // WARP))  # to the average warp
        self.asked = MemoryDemand(machine, self.weights)
        self.edges: dict[tuple[int, int], np.ndarray] = {}  # blocks, -1: the end → warps, lanes
        self.splits: dict[int, np.ndarray] = {}  # block → visits that split, and their lanes on either side
        self._parted: dict[tuple[int, int], tuple[Lanes, Lanes | None, Lanes | None]] = {}
        self._split_lanes: dict[tuple[int, int], np.ndarray] = {}
        for place, (index, more, lanes) in enumerate(entries(machine)):
            self._follow(place, index, lanes, 1.0 + more)
        self.there = sorted({0, *(target for _, target in self.edges if target >= 0)})
        self.after: dict[int, list[int]] = {index: [] for index in self.there}
        self.before: dict[int, list[int]] = {index: [] for index in (-1, *self.there)}
        for source, target in sorted(self.edges):
            self.after[source].append(target)
            self.before[target].append(source)
        self.dominators = dominators(self.there, self.after, 0)
        self.nodes: list[FlowNode] = []
        self.node_of: dict[int, int] = {}  # step → node
        for index in self.there:
            self._cut(index)

    def _follow(self, place: int, index: int, lanes: Lanes, times: float) -> None:
        """Count where the threads of one execution of a basic block go."""
        last = self.blocks[index].steps[-1]
        if last.opcode in _INDIRECT:
            for target, going in self._found_again(place, lanes):
                self._go(index, target, going, times)
            return
        if last.opcode not in _DIRECT or last.jump == index + 1:
            self._go(index, index + 1, lanes, times)
            return
        # The lower address is executed next, so those that go there are in the next entry, and nobody else
        # of these.
        target = last.jump
        near = index + 1 if not 0 <= target <= index else target
        first, second = self._part(place, near, lanes)
        self._go(index, near, first, times)
        self._go(index, target if near != target else index + 1, second, times)
        if first is not None and second is not None:
            taken, passed = (first, second) if near == target else (second, first)
            self.splits[index] = self.splits.get(index, 0.0) + times * self._splits(taken, passed)

    def _part(self, place: int, near: int, lanes: Lanes) -> tuple[Lanes | None, Lanes | None]:
        """(those of `lanes` that are next at block `near`, the others)."""
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

    def _found_again(self, place: int, lanes: Lanes) -> Iterable[tuple[int, Lanes]]:
        left: Lanes | None = lanes
        for index, others in self.machine.trace[place + 1 :]:
            here = self.machine.sets.of(left.mask & others.mask)
            if here.total:
                yield index, here
                left = self.machine.rest(left, here)
                if left is None:
                    return

    def _go(self, index: int, target: int, lanes: Lanes | None, times: float) -> None:
        if lanes is not None:
            found = self.edges.setdefault((index, target), np.zeros(2))
            found += times * np.array([lanes.warps @ self.weights, lanes.threads @ self.weights])

    def _splits(self, taken: Lanes, passed: Lanes) -> np.ndarray:
        """Warps that have lanes in both, and how many in each."""
        key = (id(taken), id(passed))
        if key not in self._split_lanes:
            a, b = (np.count_nonzero(each.by_warp, axis=-1) for each in (taken, passed))
            both = (a > 0) & (b > 0)
            shape = (self.machine.shape[0], both.shape[1])
            counts = (np.broadcast_to(np.where(both, x, 0), shape).sum(1) for x in (both, a, b))
            self._split_lanes[key] = np.array([each @ self.weights for each in counts])
        return self._split_lanes[key]

    @cached_property
    def branches(self) -> tuple[BranchProfile, ...]:
        behind = dominators([-1, *self.there], self.before, -1)
        found = []
        for index in self.there:
            last = self.blocks[index].steps[-1]
            may_pass = index + 1 in self.blocks[index].successors
            if last.opcode not in _DIRECT or last.jump == index + 1 or not may_pass:
                continue
            visits, threads = self.asked.counts[2 * index : 2 * index + 2].tolist()
            if not visits:  # only blocks came here that weigh nothing
                continue
            (taken, jumping), (passed, _) = (
                self.edges.get((index, target), np.zeros(2)).tolist() for target in (last.jump, index + 1)
            )
            split, lanes_taken, lanes_passed = np.broadcast_to(self.splits.get(index, 0.0), 3).tolist()
            meets = max(behind.get(index, {index}) - {index}, key=lambda x: len(behind[x]), default=-1)
            found.append(
                BranchProfile(
                    address=last.address,
                    text=f"{last.instruction.predicate} {last.text}".strip(),
                    line=last.line,
                    block=index,
                    target=last.jump,
                    meets=meets,
                    visits=visits,
                    active=threads / (WARP * visits),
                    jumping=jumping / threads,
                    taken=taken / visits,
                    passed=passed / visits,
                    diverged=split / visits,
                    lanes_taken=lanes_taken / split if split else 0.0,
                    lanes_passed=lanes_passed / split if split else 0.0,
                )
            )
        return tuple(found)

    def _cut(self, index: int) -> None:
        """The nodes of a basic block."""
        warps, threads = self.asked.counts[2 * index : 2 * index + 2].tolist()
        segment: list[Step] = []

        def close() -> None:
            if segment:
                self._add("compute", index, segment, warps, threads)
                segment.clear()

        for step in self.blocks[index].steps:
            kind = "shared" if step.pipe == "shared" else kind_of(step)
            if kind == "compute":
                segment.append(step)
            else:
                close()
                self._add(kind, index, [step], warps, threads)
        close()

    def _add(self, kind: str, index: int, steps: Sequence[Step], warps: float, threads: float) -> None:
        insts: dict[str, int] = {}
        for step in steps:
            insts[step.pipe] = insts.get(step.pipe, 0) + 1
            self.node_of[step.index] = len(self.nodes)
        asked = {} if kind in ("compute", "barrier") else self.asked.of(steps[0])
        node = FlowNode(
            kind=kind,
            block=index,
            first=steps[0].address,
            last=steps[-1].address,
            insts=insts,
            chain=_chain(steps),
            weight=warps,
            lanes=threads / warps if warps else 0.0,
            **asked,
        )
        self.nodes.append(node)

    def arcs(self) -> Iterable[Arc]:
        """From node to node within a basic block, and along the edges."""
        for number, (node, following) in enumerate(zip(self.nodes, self.nodes[1:], strict=False)):
            if node.block == following.block:
                yield Arc(number, number + 1, node.weight, node.lanes)
        for (source, target), (warps, threads) in sorted(self.edges.items()):
            if target >= 0 and warps:
                last, first = self.blocks[source].steps[-1], self.blocks[target].steps[0]
                yield Arc(
                    self.node_of[last.index],
                    self.node_of[first.index],
                    float(warps),
                    float(threads / warps),
                )

    def loops(self) -> Iterable[FlowLoop]:
        back: dict[int, list[int]] = {}
        for source, target in self.edges:
            if target in self.dominators[source]:
                back.setdefault(target, []).append(source)
        found = []
        for header, sources in back.items():
            members, waiting = {header}, sources
            while waiting:
                index = waiting.pop()
                if index not in members:
                    members.add(index)
                    waiting += self.before[index]
            outside = [source for source in self.before[header] if source not in members]
            entries = sum(float(self.edges[source, header][0]) for source in outside)
            entries += float(self.machine.trace[0][1].warps @ self.weights) if header == 0 else 0.0
            visits = float(self.asked.counts[2 * header])
            found.append(FlowLoop(header, tuple(sorted(members)), visits / entries, entries))
        return sorted(found, key=lambda loop: -len(loop.blocks))

    def dependences(self) -> Iterable[Dependence]:
        """Follow every load along all ways until it is used or written over."""
        found: set[tuple[int, int, bool]] = set()
        for index in self.there:
            for place, step in enumerate(self.blocks[index].steps):
                if step.pipe in WAITED_FOR and step.writes:
                    uses = self._first_uses(index, place + 1, frozenset(step.writes))
                    found |= {(self.node_of[step.index], *use) for use in uses}
        return (Dependence(*each) for each in sorted(found))

    def _first_uses(self, index: int, place: int, slots: frozenset[int]) -> set[tuple[int, bool]]:
        found: set[tuple[int, bool]] = set()
        ways = [(index, place, slots, False)]
        seen = set(ways)
        while ways:
            index, place, slots, carried = ways.pop()
            for step in self.blocks[index].steps[place:]:
                if step.guard in slots or not slots.isdisjoint(step.reads):
                    found.add((self.node_of[step.index], carried))
                    slots = frozenset()
                elif not step.partial:
                    slots = slots.difference(step.writes)
                if not slots:
                    break
            for target in self.after[index] if slots else ():
                way = (target, 0, slots, carried or target in self.dominators[index])
                if target >= 0 and way not in seen:
                    seen.add(way)
                    ways.append(way)
        return found


def _chain(steps: Sequence[Step]) -> int:
    depth: dict[int, int] = {}
    longest = 0
    for step in steps:
        deep = 1 + max((depth.get(slot, 0) for slot in (*step.reads, step.guard)), default=0)
        depth.update(dict.fromkeys(step.writes, deep))
        longest = max(longest, deep)
    return longest


def dominators(
    nodes: Sequence[int], after: Mapping[int, Sequence[int]], start: int
) -> dict[int, frozenset[int]]:
    """For each node those that lie on all ways to it from the start, itself among them."""
    before: dict[int, list[int]] = {node: [] for node in nodes}
    for node in nodes:
        for target in after.get(node, ()):
            if target in before:
                before[target].append(node)
    every = frozenset(nodes)
    found = dict.fromkeys(nodes, every) | {start: frozenset([start])}
    changed = True
    while changed:
        changed = False
        for node in nodes:
            if node != start:
                ways = [found[source] for source in before[node]]
                now = frozenset.intersection(*ways) | {node} if ways else frozenset([node])
                if now != found[node]:
                    found[node], changed = now, True
    return found
