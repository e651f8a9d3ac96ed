"""The work flow graph (WFG) of a launch's average warp, by basic blocks.

It is the static program with the counts of all executed blocks.

Source: Baghsorkhi et al. 2010, Sec. 3.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from dse.source.machine.liveness import reached
from dse.source.nvidia.graphs.control_flow import ControlFlow
from dse.source.nvidia.graphs.instructions import WAITED_FOR, MemoryDemand, kind_of
from dse.source.nvidia.machine.state import Machine
from dse.source.nvidia.sass.program import BasicBlock, Step


@dataclass(frozen=True)
class FlowNode:
    """Instructions of a basic block that form a node; counts are of an average warp."""

    kind: str  # "compute": any number; "memory", "shared", "barrier": one instruction
    block: int
    first: int  # address
    last: int
    insts: Mapping[str, int]  # by pipe, including those that only take an issue slot
    chain: int  # length of the longest dependence chain
    weight: float  # executions per warp
    lanes: float  # mean active lanes
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
        """Instruction-level parallelism: the mean number of instructions that can execute at a time."""
        return self.count / self.chain if self.chain else 1.0


@dataclass(frozen=True)
class Arc:
    """An arc between successive nodes."""

    source: int
    target: int
    weight: float  # times that an average warp takes it; its lanes may wait before the target
    lanes: float  # mean lanes each time


@dataclass(frozen=True)
class Dependence:
    """A node's use of a loaded value, the first use on some path."""

    source: int
    target: int


@dataclass(frozen=True)
class FlowLoop:
    """A natural loop: basic blocks that jump back to the first, their only entry."""

    header: int
    blocks: tuple[int, ...]  # ascending
    trips: float  # mean per entry
    entries: float  # of an average warp


@dataclass(frozen=True)
class FlowGraph:
    """The average warp of a launch, by executed basic blocks.

    The first node is the kernel's start; a function called in several places appears once. The weights of a
    branch's arcs add up to more than one where warps split. Loops with several entries are not in `loops`.
    """

    kernel: str
    nodes: tuple[FlowNode, ...]
    arcs: tuple[Arc, ...]
    dependences: tuple[Dependence, ...]
    loops: tuple[FlowLoop, ...]  # outer ones first


def flow_graph(machine: Machine, weights: Sequence[float] | None = None) -> FlowGraph:
    """Make the flow graph of the executed blocks; `weights` as in `branches`."""
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
        tuple(nodes),
        tuple(_arcs(nodes, node_of, control)),
        tuple(_dependences(node_of, control)),
        tuple(natural_loops(control)),
    )


def _pieces(block: BasicBlock) -> Iterator[tuple[str, list[Step]]]:
    """Yield (kind, steps) of the nodes of a basic block."""
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
    """Make a node from steps of a basic block."""
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
    """Return the length of the longest dependence chain of these steps."""
    depth: dict[int, int] = {}  # slot → length of the chain that ends in it
    longest = 0
    for step in steps:
        length = 1 + max((depth.get(slot, 0) for slot in (*step.reads, step.guard)), default=0)
        depth.update(dict.fromkeys(step.writes, length))
        longest = max(longest, length)
    return longest


def _arcs(nodes: Sequence[FlowNode], node_of: Mapping[int, int], control: ControlFlow) -> Iterator[Arc]:
    """Yield the arcs within basic blocks and along their edges."""
    for number, (node, following) in enumerate(pairwise(nodes)):
        if node.block == following.block:
            yield Arc(number, number + 1, node.weight, node.lanes)
    blocks = control.machine.program.blocks
    for (source, target), (warps, threads) in sorted(control.edges.items()):
        if target >= 0 and warps:
            last, first = blocks[source].steps[-1], blocks[target].steps[0]
            yield Arc(node_of[last.index], node_of[first.index], float(warps), float(threads / warps))


def natural_loops(control: ControlFlow) -> list[FlowLoop]:
    """Find the natural loops, large ones first."""
    back: dict[int, list[int]] = {}  # header → blocks that jump back to it
    for source, target in control.edges:
        if target in control.dominators[source]:
            back.setdefault(target, []).append(source)
    loops = []
    for header, sources in back.items():
        before = {**control.before, header: ()}
        members = {header}.union(*(reached(source, before.__getitem__) for source in sources))
        outside = [block for block in control.before[header] if block not in members]
        entries = sum(control.along(source, header)[0] for source in outside)
        if header == 0:  # warps start there
            entries += float(control.machine.trace[0][1].warps @ control.weights)
        visits, _ = control.demand.entering(header)
        loops.append(FlowLoop(header, tuple(sorted(members)), visits / entries, entries))
    return sorted(loops, key=lambda loop: -len(loop.blocks))


def _dependences(node_of: Mapping[int, int], control: ControlFlow) -> list[Dependence]:
    """Follow every load along all paths until its value is used or overwritten."""
    dependences: set[tuple[int, int]] = set()
    for index in control.executed:
        for position, step in enumerate(control.machine.program.blocks[index].steps):
            if step.pipe in WAITED_FOR and step.writes:
                for use in _first_uses(control, index, position + 1, frozenset(step.writes)):
                    dependences.add((node_of[step.index], node_of[use]))
    return [Dependence(*dependence) for dependence in sorted(dependences)]


def _first_uses(control: ControlFlow, index: int, place: int, slots: frozenset[int]) -> set[int]:
    """Return the steps that first use slots, on paths from position `place` in a basic block."""
    uses: set[int] = set()
    ways = [(index, place, slots)]
    seen = set(ways)
    while ways:
        index, place, slots = ways.pop()
        for step in control.machine.program.blocks[index].steps[place:]:
            if step.guard in slots or not slots.isdisjoint(step.reads):
                uses.add(step.index)
                slots = frozenset()
            elif not step.partial:
                slots = slots.difference(step.writes)
            if not slots:
                break
        for target in control.after[index] if slots else ():
            way = (target, 0, slots)
            if target >= 0 and way not in seen:
                seen.add(way)
                ways.append(way)
    return uses
