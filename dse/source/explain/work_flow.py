"""The work flow graph of one configuration, from its machine code: a row a node, with its weights.

Source: Baghsorkhi et al., PPoPP 2010, Sec. 2.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from dse.hardware import occupancy
from dse.models.notation import comp_latency, two_pipes
from dse.models.wfg import graph as wfg
from dse.models.wfg.weights import Hardware, Latency, average_warp, effective, executions
from dse.source.explain.nvidia import Executed
from dse.source.nvidia.graphs.flow import flow_graph
from dse.source.nvidia.graphs.workflow import work_flow
from dse.source.nvidia.profile.average_warp import warp_counts
from dse.source.nvidia.source import resources
from dse.source.warps import to_kernel

Row = dict[str, Any]
_LABELS = {
    wfg.Compute: "C {insts:.4g} insts, ILP {ilp:.3g}",
    wfg.Memory: "M {bytes:.4g} B",
    wfg.Scratchpad: "S",
    wfg.Barrier: "B",
    wfg.WfgLoop: "loop, {trips:.4g} trips",
}


def work_flow_rows(ran: Executed) -> tuple[list[Row], Latency]:
    """Return a row for each node, and what the average warp takes on an SM that the launch fills.

    λ and Λ of computation are the kernel's means, and bytes take as long as its accesses do on average.
    **Raises:** DseError where code has no nested loops and branches.
    """
    flow, kernel = flow_graph(ran.machine, ran.sample.weights), to_kernel(warp_counts(ran.counts))
    launch = occupancy.launch(ran.gpu.gpu, resources(ran.made, ran.configuration))[0]
    gpu, kernel, launch = jax.tree.map(_in_one_precision, (ran.gpu.gpu, kernel, launch))
    graph = effective(
        joined(work_flow(flow, float(gpu.cpi.shared))), launch.warps_per_sm, launch.resident_blocks
    )
    pipes = two_pipes(gpu, kernel)
    moved = sum(n * node.bytes for node, n in executions(graph, True) if isinstance(node, wfg.Memory))
    hardware = Hardware(
        issue_cycles=pipes.comp_cpi,
        pipeline_latency=comp_latency(gpu, kernel),
        bytes_per_cycle=jnp.maximum(moved, 1.0) / jnp.maximum(pipes.mem_insts * pipes.mem_cpi, 1.0),
        mem_latency=pipes.mem_latency,
    )
    seen: dict[int, tuple[float, float]] = {}

    def note(node: wfg.Node, arc: Any, waits: Any) -> None:
        seen[id(node)] = float(arc), float(waits)

    found = average_warp(graph, hardware, launch.warps_per_sm, serial=True, seen=note)
    return list(_rows(graph, 0, 1.0, seen, (float(pipes.mem_latency), float(found.between_waits)))), found


def _in_one_precision(x: Any) -> Any:
    return jnp.asarray(x, float) if jnp.issubdtype(x.dtype, jnp.floating) else x


def _rows(
    graph: wfg.WorkFlow,
    depth: int,
    times: float,
    seen: Mapping[int, tuple[float, float]],
    hiding: tuple[float, float],
) -> Iterator[Row]:
    """Yield rows of nodes; `hiding`: latency of a load, and cycles of it that one more warp hides."""
    for node in graph:
        row = {"depth": depth, "times": times}
        if isinstance(node, wfg.WfgBranch):
            for way, share, side in (
                ("taken", node.taken, node.then),
                ("passed", node.passed, node.otherwise),
            ):
                share = float(share)
                yield row | {"node": f"{way} by {share:.3g}", "times": times * share}
                yield from _rows(side, depth + 1, times * share, seen, hiding)
            continue
        values = {name: float(value) for name, value in vars(node).items() if hasattr(value, "dtype")}
        row |= {"node": _LABELS[type(node)].format(**values), "uses": list(getattr(node, "uses", ()))}
        arc, waits = seen[id(node)]
        row |= {"arc": arc} | ({"waits": waits} if waits or row["uses"] else {})
        if isinstance(node, wfg.Memory) and node.name:
            row |= {"load": node.name, "latency": hiding[0]}
            row["hidden"] = min(hiding[0], (values["warps"] - 1.0) * hiding[1])
        yield row
        if isinstance(node, wfg.WfgLoop):
            yield from _rows(node.body, depth + 1, times * values["trips"], seen, hiding)


def joined(graph: wfg.WorkFlow) -> wfg.WorkFlow:
    """Join computations, and accesses to shared memory, between which nothing else is: weights of a sequence
    add up. The ILP of joined computations is that of their chains one after the other.
    """
    nodes: list[Any] = []
    stretch = 0  # where it begins, in `nodes`
    node: Any
    for node in graph:
        if isinstance(node, wfg.WfgLoop):
            node = replace(node, body=joined(node.body))
        elif isinstance(node, wfg.WfgBranch):
            node = replace(node, then=joined(node.then), otherwise=joined(node.otherwise))
        adds_up = isinstance(node, wfg.Compute | wfg.Scratchpad)
        alike = [at for at in range(stretch, len(nodes)) if type(nodes[at]) is type(node)]
        if adds_up and alike and not node.uses:
            nodes[alike[0]] = _sum(nodes[alike[0]], node)
            continue
        if not adds_up or node.uses:
            stretch = len(nodes) + (not adds_up)
        nodes.append(node)
    return tuple(nodes)


def _sum(a: Any, b: Any) -> wfg.Leaf:
    if isinstance(a, wfg.Scratchpad):
        return replace(a, cycles=a.cycles + b.cycles)
    insts = a.insts + b.insts
    return replace(a, insts=insts, ilp=insts / (a.insts / a.ilp + b.insts / b.ilp))
