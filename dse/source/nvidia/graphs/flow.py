"""The work flow graph (WFG) of what the average warp of a launch executed, by basic blocks.

It comes from the static program, with the counts of all blocks that were run.

Source: Baghsorkhi et al. 2010, Sec. 3.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from dse.source.nvidia.graphs.branches import BranchProfile, profiled
from dse.source.nvidia.graphs.control_flow import ControlFlow
from dse.source.nvidia.graphs.instructions import WAITED_FOR, MemoryDemand, kind_of
from dse.source.nvidia.machine.state import Machine
from dse.source.nvidia.sass.program import BasicBlock, Step


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
        """Number of instructions."""
        return sum(self.insts.values())

    @property
    def ilp(self) -> float:
        """Instructions that can be executed at a time, on average (instruction-level parallelism)."""
        return self.count / self.chain if self.chain else 1.0


@dataclass(frozen=True)
class Arc:
    """An arc from a node to one that follows it."""

    source: int
    target: int
    weight: float  # how often lanes of an average warp leave along it; they may wait before the target
    lanes: float  # each time, mean


@dataclass(frozen=True)
class Dependence:
    """The need of a node for what a memory node loads, being the first to use it on some way."""

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
    """Make the flow graph of the blocks that were run; `weights` as in `branches`."""
    control = ControlFlow(machine, weights)
    blocks = [machine.program.blocks[index] for index in control.executed]
    nodes: list[FlowNode] = []
    node_of: dict[int, int] = {}  # step → node
    for block in blocks:
        for kind, steps in _pieces(block):
            node_of |= dict.fromkeys((step.index for step in steps), len(nodes))
            nodes.append(_node(kind, block.index, steps, control.demand))
    return FlowGraph(
        machine.program.kernel,
        machine.program.arch,
        tuple(nodes),
        tuple(_arcs(nodes, node_of, control)),
        tuple(_dependences(node_of, control)),
        tuple(natural_loops(control)),
        profiled(control),
    )


def _pieces(block: BasicBlock) -> Iterator[tuple[str, list[Step]]]:
    """(kind, steps) of each node that a basic block is cut into."""
    computing: list[Step] = []
    for step in block.steps:
        kind = "shared" if step.pipe == "shared" else kind_of(step)
        if kind == "compute":
            computing.append(step)
            continue
        if computing:
            yield "compute", computing
            computing = []
        yield kind, [step]
    if computing:
        yield "compute", computing


def _node(kind: str, block: int, steps: Sequence[Step], demand: MemoryDemand) -> FlowNode:
    """Make the node of some steps of a basic block."""
    warps, threads = demand.entering(block)
    insts: dict[str, int] = {}
    for step in steps:
        insts[step.pipe] = insts.get(step.pipe, 0) + 1
    asked = {} if kind in ("compute", "barrier") else demand.of(steps[0])
    return FlowNode(
        kind=kind,
        block=block,
        first=steps[0].address,
        last=steps[-1].address,
        insts=insts,
        chain=_longest_chain(steps),
        weight=warps,
        lanes=threads / warps if warps else 0.0,
        **asked,
    )


def _longest_chain(steps: Sequence[Step]) -> int:
    """Count how many of these steps need each the one before, at most."""
    depth: dict[int, int] = {}  # slot → length of the chain that ends in it
    longest = 0
    for step in steps:
        length = 1 + max((depth.get(slot, 0) for slot in (*step.reads, step.guard)), default=0)
        depth.update(dict.fromkeys(step.writes, length))
        longest = max(longest, length)
    return longest


def _arcs(nodes: Sequence[FlowNode], node_of: Mapping[int, int], control: ControlFlow) -> Iterator[Arc]:
    """From node to node within a basic block, and along the edges."""
    for number, (node, following) in enumerate(pairwise(nodes)):
        if node.block == following.block:
            yield Arc(number, number + 1, node.weight, node.lanes)
    blocks = control.machine.program.blocks
    for (source, target), (warps, threads) in sorted(control.edges.items()):
        if target >= 0 and warps:
            last, first = blocks[source].steps[-1], blocks[target].steps[0]
            yield Arc(node_of[last.index], node_of[first.index], float(warps), float(threads / warps))


def natural_loops(control: ControlFlow) -> list[FlowLoop]:
    """Find the loops whose header is on all ways into them, large ones first."""
    back: dict[int, list[int]] = {}  # header → blocks that jump back to it
    for source, target in control.edges:
        if target in control.dominators[source]:
            back.setdefault(target, []).append(source)
    loops = []
    for header, sources in back.items():
        members, waiting = {header}, sources
        while waiting:
            index = waiting.pop()
            if index not in members:
                members.add(index)
                waiting += control.before[index]
        outside = [block for block in control.before[header] if block not in members]
        entries = sum(control.along(source, header)[0] for source in outside)
        entries += control.starting() if header == 0 else 0.0
        visits, _ = control.demand.entering(header)
        loops.append(FlowLoop(header, tuple(sorted(members)), visits / entries, entries))
    return sorted(loops, key=lambda loop: -len(loop.blocks))


def _dependences(node_of: Mapping[int, int], control: ControlFlow) -> list[Dependence]:
    """Follow every load along all ways until it is used or written over."""
    dependences: set[tuple[int, int, bool]] = set()
    for index in control.executed:
        for place, step in enumerate(control.machine.program.blocks[index].steps):
            if step.pipe in WAITED_FOR and step.writes:
                for use, carried in _first_uses(control, index, place + 1, frozenset(step.writes)):
                    dependences.add((node_of[step.index], node_of[use], carried))
    return [Dependence(*dependence) for dependence in sorted(dependences)]


def _first_uses(control: ControlFlow, index: int, place: int, slots: frozenset[int]) -> set[tuple[int, bool]]:
    """(step, whether in a later trip of a loop) of the first instructions on their way to use slots.

    Ways begin at a place in a basic block.
    """
    uses: set[tuple[int, bool]] = set()
    ways = [(index, place, slots, False)]
    seen = set(ways)
    while ways:
        index, place, slots, carried = ways.pop()
        for step in control.machine.program.blocks[index].steps[place:]:
            if step.guard in slots or not slots.isdisjoint(step.reads):
                uses.add((step.index, carried))
                slots = frozenset()
            elif not step.partial:
                slots = slots.difference(step.writes)
            if not slots:
                break
        for target in control.after[index] if slots else ():
            way = (target, 0, slots, carried or target in control.dominators[index])
            if target >= 0 and way not in seen:
                seen.add(way)
                ways.append(way)
    return uses
