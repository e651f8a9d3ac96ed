"""WFG: the latency of a kernel's average warp, from a work flow graph with weights of a GPU.

The graph is reduced twice: without its dependence arcs, for the computation time of a warp; then with the
weights derived from it, of accesses (added by bandwidth) and of dependence arcs (latency not hidden by other
warps).

Known errors: every warp pays the exposed latency, and cycles that already hide computation also hide memory
(`once` and `corrected` correct one and both, Lemeire et al., Eqs. L41, L42); the denominator of Eq. 8 is
misprinted; a divergent warp counts as if it took one side (corrected by `serial`).
Source: Baghsorkhi et al., PPoPP 2010, Sec. 2, Eqs. 1 to 8.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import reduce
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from dse.hardware.memory import safe_divide
from dse.models.wfg.graph import (
    Barrier,
    Compute,
    Leaf,
    Memory,
    Node,
    Scratchpad,
    WfgBranch,
    WfgLoop,
    WorkFlow,
    own,
)
from dse.models.wfg.reduce import Costs, sides, warp_latency
from dse.types import Quantity, _Quantities, quantity

Exposed = Callable[[Array, Array, Array, Any], Array]


class Hardware(_Quantities):
    """The four numbers that the model reads of a GPU."""

    issue_cycles: Quantity = quantity("cycles")  # SIMD_work / SIMD_engine, of one warp instruction
    pipeline_latency: Quantity = quantity("cycles")
    bytes_per_cycle: Quantity = quantity("B/cycle")  # of memory, share of one SM
    mem_latency: Quantity = quantity("cycles")


class Latency(_Quantities):
    """The latency of an average warp, and its intermediates.

    All but `warp_latency` come from the graph without its dependence arcs.
    """

    comp_cycles: Quantity = quantity("cycles")  # CYC_compute
    mem_insts: Quantity = quantity("1")  # NUM_mem
    bytes: Quantity = quantity("B")  # NUM_bytes
    barriers: Quantity = quantity("1")  # NUM_sync
    mem_cycles: Quantity = quantity("cycles")  # CYC_mem
    between_waits: Quantity = quantity("cycles")  # NBC_avg
    bandwidth_latency: Quantity = quantity("cycles")  # Latency_BW, of an access
    exposed_latency: Quantity = quantity("cycles")  # Latency_exposed, for nodes that all warps execute
    warp_latency: Quantity = quantity("cycles")


# Latency_exposed, of: warps, memory latency, NBC_avg, and the latencies of the computation before the load


def published(warps: Array, latency: Array, between: Array, in_front: Any) -> Array:
    """Return the exposed latency of Eq. 6."""
    return latency - (warps - 1.0) * between


def once(warps: Array, latency: Array, between: Array, in_front: Any) -> Array:
    """Return the exposed latency of Eq. L41: paid once, not by each warp."""
    return published(warps, latency, between, in_front) / warps


def corrected(warps: Array, latency: Array, between: Array, in_front: Any) -> Array:
    """Return the exposed latency of Eq. L42: as Eq. L41, and cycles hide either computation or memory."""
    return (latency - jnp.maximum(0.0, (warps - 1.0) * between - in_front)) / warps


def average_warp(
    graph: WorkFlow,
    hardware: Hardware,
    warps: Array,
    exposed: Exposed = published,
    serial: bool = False,
    seen: Callable[[Leaf | WfgLoop, Array, Array], None] | None = None,
) -> Latency:
    """Return the latency of an average warp, with its intermediates.

    `warps` is WLP_effect of nodes without their own, which `effective` sets. `seen` is called with each node,
    the weight of the arc out of it (0 for loops), and the wait of a warp before it.
    **Shapes:** weights of the graph, `hardware` and `warps` broadcast; values independent of all are scalars.
    **Units:** cycles.
    **Edges:** without an access, Latency_BW is the time to issue one.
    """
    issue = hardware.issue_cycles

    def pipeline(node: Compute) -> Array:
        return own(node.latency, hardware.pipeline_latency) / node.ilp

    def arc(node: Leaf) -> Array:
        match node:
            case Compute():  # Eq. 3, with u inside
                waited = pipeline(node) / own(node.warps, warps)
                return node.insts * jnp.maximum(own(node.cpi, issue), waited)
            case Scratchpad():
                return node.cycles
        return issue

    comp = warp_latency(graph, Costs(arc, serial=serial))
    total = dict.fromkeys(("mem_insts", "bytes", "barriers"), 0.0 * comp)
    for node, times in executions(graph, serial):
        if isinstance(node, Memory):
            total["mem_insts"] = total["mem_insts"] + times
            total["bytes"] = total["bytes"] + times * node.bytes
        elif isinstance(node, Barrier):
            total["barriers"] = total["barriers"] + times
    mem_insts, mem = total["mem_insts"], total["bytes"] / hardware.bytes_per_cycle
    bandwidth = jnp.maximum(0.0, safe_divide(mem - comp, mem_insts)) + issue  # Eq. 4
    between = comp / (mem_insts + total["barriers"] + 1.0)  # Eq. 5

    def exposed_after(node: Memory, in_front: Any) -> Array:
        return exposed(own(node.warps, warps), hardware.mem_latency, between, in_front)  # Eq. 6

    def second(node: Leaf | WfgLoop) -> Array:
        return (
            bandwidth if isinstance(node, Memory) else 0.0 * comp if isinstance(node, WfgLoop) else arc(node)
        )

    whole = Costs(
        second,
        exposed_after,
        lambda node: node.insts * pipeline(node),
        serial,
        seen and (lambda node, waits: seen(node, second(node), waits)),
    )
    return Latency(
        comp_cycles=comp,
        mem_cycles=mem,
        between_waits=between,
        bandwidth_latency=bandwidth,
        exposed_latency=exposed(warps, hardware.mem_latency, between, 0.0 * comp),
        warp_latency=warp_latency(graph, whole),
        **total,
    )


def executions(graph: WorkFlow, serial: bool = False, times: Any = 1.0) -> Iterator[tuple[Leaf, Any]]:
    """Yield each node but loops and branches, and its number of executions by an average warp."""
    for node in graph:
        match node:
            case WfgLoop():
                yield from executions(node.body, serial, times * node.trips)
            case WfgBranch():
                for share, side in sides(node, serial):
                    yield from executions(side, serial, times * share)
            case _:
                yield node, times


def effective(graph: WorkFlow, warps: Array, blocks: Array) -> WorkFlow:
    """Set ILP_effect and WLP_effect at the nodes of a graph; `blocks` are resident, with `warps` in total.

    A warp runs along with the warps of its block at the same node, and with those of other blocks at any
    node. At least one warp is at a node, even if the mean is less.
    **Shapes:** all broadcast. **Source:** Eqs. 1, 2, 7, 8; in a loop an instruction counts by its trips.
    """
    everywhere = list(_regions(graph, 1.0, 1.0))
    insts = reduce(jnp.add, (n for n, *_ in everywhere))
    warps_on_average = warps * safe_divide(reduce(jnp.add, (n * share for n, share, _ in everywhere)), insts)
    computing = [(n * share, node.ilp) for n, share, node in everywhere if isinstance(node, Compute)]
    insts = reduce(jnp.add, (n for n, _ in computing), 0.0 * warps)
    ilp_on_average = safe_divide(reduce(jnp.add, (n * ilp for n, ilp in computing), 0.0 * warps), insts, 1.0)

    def mixed(local: Array, average: Array) -> Array:
        return (local + (blocks - 1.0) * average) / blocks

    def at(nodes: WorkFlow, share: Any) -> WorkFlow:
        seen = jnp.maximum(1.0, mixed(share * warps, warps_on_average))
        return tuple(with_parallelism(node, share, seen) for node in nodes)

    def with_parallelism(node: Node, share: Any, seen: Array) -> Node:
        match node:
            case Compute():
                return replace(node, warps=seen, ilp=mixed(node.ilp, ilp_on_average))
            case Memory():
                return replace(node, warps=seen)
            case WfgLoop():
                return replace(node, body=at(node.body, share))
            case WfgBranch():
                then, otherwise = at(node.then, share * node.taken), at(node.otherwise, share * node.passed)
                return replace(node, then=then, otherwise=otherwise)
        return node

    return at(graph, 1.0)


def _regions(graph: WorkFlow, share: Any, trips: Any) -> Iterator[tuple[Any, Any, Leaf]]:
    """Yield each node with the instructions of a warp that executes it, and the share of such warps.

    As (instructions, share, node).
    """
    for node in graph:
        match node:
            case WfgLoop():
                yield from _regions(node.body, share, trips * node.trips)
            case WfgBranch():
                yield from _regions(node.then, share * node.taken, trips)
                yield from _regions(node.otherwise, share * node.passed, trips)
            case Compute():
                yield trips * node.insts, share, node
            case _:
                yield trips, share, node
