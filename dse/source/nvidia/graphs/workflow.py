"""The graph of a launch's basic blocks as a work flow graph with loops and branches, for that model.

A loop's trips are the visits to its header; after an exit or a jump to the next trip, the rest of the body
has the share of warps that reach it. A branch ends where its paths meet; other blocks on both paths appear in
each. Shares of a branch add up to more than one where warps split: `serial` of the model.

Source: Baghsorkhi et al., PPoPP 2010, Secs. 2.1, 2.2.
"""

from collections.abc import Callable

from dse.errors import DseError
from dse.models.wfg import graph as wfg
from dse.source.nvidia.graphs.control_flow import END
from dse.source.nvidia.graphs.dominators import dominators, nearest_dominator
from dse.source.nvidia.graphs.flow import FlowGraph, FlowLoop, FlowNode

_MOST_NODES = 10_000


def work_flow(flow: FlowGraph, pass_cycles: float = 1.0) -> wfg.WorkFlow:
    """Nest a flow graph, with weights of the average warp and `pass_cycles` per pass through shared memory.

    **Raises:** DseError for a basic block with more than two successors, as where functions return.
    """
    return _Structure(flow, pass_cycles).sequence(0, END, None)


class _Structure:
    """The nesting of the loops and branches of a flow graph."""

    def __init__(self, flow: FlowGraph, pass_cycles: float) -> None:
        self.flow, self.pass_cycles = flow, pass_cycles
        self.nodes: dict[int, list[int]] = {}
        for number, node in enumerate(flow.nodes):
            self.nodes.setdefault(node.block, []).append(number)
        self.shares: dict[int, dict[int, float]] = {block: {} for block in self.nodes}
        for arc in flow.arcs:
            source, target = flow.nodes[arc.source], flow.nodes[arc.target]
            if arc.source == self.nodes[source.block][-1] and arc.target == self.nodes[target.block][0]:
                self.shares[source.block][target.block] = arc.weight / source.weight
        for block, following in self.shares.items():
            if len(following) > 2:
                where = f"{flow.kernel}: block {block}"
                raise DseError(f"{where}: found {len(following)} blocks behind it, expected two at most")
            ended = 1.0 - sum(following.values())
            if following and ended > 1e-9:
                following[END] = ended
        self.uses: dict[int, list[str]] = {}
        for dependence in flow.dependences:
            self.uses.setdefault(dependence.target, []).append(self.name(dependence.source))
        self.loaded = {dependence.source for dependence in flow.dependences}
        self.loops = {loop.header: loop for loop in flow.loops}
        self.behind: dict[int | None, dict[int, frozenset[int]]] = {}  # by header of the region
        self.made = 0

    def name(self, node: int) -> str:
        """Return the name of a load: its address."""
        return f"{self.flow.nodes[node].first:#x}"

    def following(self, region: FlowLoop | None) -> Callable[[int], list[int]]:
        """Return the successors of blocks within one trip of a loop, or the kernel, skipping inner loops."""
        inner = [loop for loop in self.flow.loops if loop is not region]

        def after(block: int) -> list[int]:
            targets: list[int] = []
            for target in self.shares[block]:
                back = [loop for loop in inner if loop.header == target and block in loop.blocks]
                if back:
                    ways = [way for member in back[0].blocks for way in self.shares[member]]
                    targets += [way for way in ways if way not in back[0].blocks]
                else:
                    targets.append(target)
            if region is not None:
                targets = [END if t not in region.blocks or t == region.header else t for t in targets]
            return targets or [END]

        return after

    def meets(self, block: int, region: FlowLoop | None, without: tuple[int, ...]) -> int:
        """Return the first block on all paths."""
        key = region.header if region else None
        if key not in self.behind:
            members = region.blocks if region else tuple(self.nodes)
            after = self.following(region)
            before: dict[int, list[int]] = {END: []} | {member: [] for member in members}
            for member in members:
                for target in after(member):
                    before[target].append(member)
            self.behind[key] = dominators([END, *members], before, END)
        return nearest_dominator(block, self.behind[key], without)

    def sequence(self, block: int, stop: int, region: FlowLoop | None) -> wfg.WorkFlow:
        """Nest the blocks from `block` until `stop`, within one trip of a loop or the kernel."""
        nodes: list[wfg.Node] = []
        while block not in (stop, END):
            loop = self.loops.get(block)
            if loop is not None and loop is not region:
                nodes.append(wfg.WfgLoop(trips=loop.trips, body=self.sequence(loop.header, END, loop)))
                block = self.meets(block, region, loop.blocks)
                continue
            nodes += [self.leaf(number) for number in self.nodes[block]]
            ways = self.ways(block, region)
            if len(ways) < 2:
                block = next(iter(ways), END)
                continue
            meeting = self.meets(block, region, ())
            (first, taken), (second, passed) = ways.items()
            then, otherwise = (self.sequence(way, meeting, region) for way in (first, second))
            nodes.append(wfg.WfgBranch(taken=taken, passed=passed, then=then, otherwise=otherwise))
            block = meeting
        return tuple(nodes)

    def ways(self, block: int, region: FlowLoop | None) -> dict[int, float]:
        """Return the successors within the region, END for its exit, with the shares of warps."""
        ways: dict[int, float] = {}
        for target, share in self.shares[block].items():
            inside = region is None or (target in region.blocks and target != region.header)
            where = target if inside else END
            ways[where] = ways.get(where, 0.0) + share
        return ways

    def leaf(self, number: int) -> wfg.Leaf:
        """Return a node in the model's form."""
        self.made += 1
        if self.made > _MOST_NODES:
            raise DseError(f"{self.flow.kernel}: found no nested loops and branches, expected them")
        node: FlowNode = self.flow.nodes[number]
        uses = tuple(self.uses.get(number, ()))
        match node.kind:
            case "memory":
                name = self.name(number) if number in self.loaded else ""
                return wfg.Memory(bytes=32.0 * node.sectors, name=name, uses=uses)
            case "shared":
                return wfg.Scratchpad(cycles=node.passes * self.pass_cycles, uses=uses)
            case "barrier":
                return wfg.Barrier(uses=uses)
        return wfg.Compute(insts=float(node.count), ilp=node.ilp, uses=uses)
