"""The work flow graph of one configuration, from machine code or phases: a row per node, with its weights.

Source: Baghsorkhi et al., PPoPP 2010, Sec. 2.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dse.errors import DseError
from dse.hardware import gpus, occupancy
from dse.hardware.gpus.read import GpuFile
from dse.kernels.counts import Counts, Number
from dse.models.notation import comp_latency, two_pipes
from dse.models.wfg import counts as phases
from dse.models.wfg import graph as wfg
from dse.models.wfg.weights import Hardware, Latency, average_warp, effective, executions
from dse.source.explain.nvidia import Executed
from dse.source.nvidia.graphs.flow import flow_graph
from dse.source.nvidia.graphs.workflow import work_flow
from dse.source.nvidia.profiled import resources
from dse.source.profile.average_warp import warp_counts
from dse.source.warps import to_kernel

Row = dict[str, Any]
_LABELS: Mapping[type, str] = {
    wfg.Compute: "C {insts:.4g} insts, ILP {ilp:.3g}",
    wfg.Memory: "M {bytes:.4g} B",
    wfg.Scratchpad: "S",
    wfg.Barrier: "B",
    wfg.WfgLoop: "loop, {trips:.4g} trips",
}
_OF_PHASES = {**_LABELS, wfg.Compute: "C", wfg.Memory: "M"}  # whose weights are cycles


def work_flow_rows(ran: Executed) -> tuple[list[Row], Latency]:
    """Return a row for each node, and the time of the average warp on an SM that the launch fills.

    λ and Λ of computation are the kernel's means, and bytes take the mean time of its accesses.
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
    return _weighted(graph, hardware, launch.warps_per_sm, True, _LABELS)


def phase_rows(
    counts: Counts, configuration: Mapping[str, Number], sizes: Mapping[str, Number], gpu_file: GpuFile
) -> tuple[list[Row], Latency]:
    """Return the rows of a kernel's phases or, without phases, of its counts.

    **Raises:** DseError if the configuration cannot be counted.
    """
    columns = {name: np.asarray([value]) for name, value in configuration.items()}
    counted = counts.count(columns, gpus.stack([gpu_file.gpu]), sizes)
    for why in counted.failures.values():
        raise DseError(f"{counts.name}: {why}")
    known = counted.batch.take(np.arange(1))
    kernel, resources = jax.tree.map(lambda x: x[0, 0], (known.kernel, known.resources))
    launch = occupancy.launch(gpu_file.gpu, resources)[0]
    gpu, kernel, launch = jax.tree.map(_in_one_precision, (gpu_file.gpu, kernel, launch))
    graph, hardware = phases.graph(gpu, kernel, launch), phases.hardware(gpu, kernel)
    return _weighted(graph, hardware, launch.warps_per_sm, False, _OF_PHASES)


def _weighted(
    graph: wfg.WorkFlow, hardware: Hardware, warps: Any, serial: bool, labels: Mapping[type, str]
) -> tuple[list[Row], Latency]:
    seen: dict[int, tuple[float, float]] = {}

    def note(node: wfg.Node, arc: Any, waits: Any) -> None:
        seen[id(node)] = float(arc), float(waits)

    latency = average_warp(graph, hardware, warps, serial=serial, seen=note)
    hiding = float(hardware.mem_latency), float(warps), float(latency.between_waits)
    return list(_rows(graph, 0, 1.0, seen, hiding, labels)), latency


def _in_one_precision(x: Any) -> Any:
    return jnp.asarray(x, float) if jnp.issubdtype(x.dtype, jnp.floating) else x


def _rows(
    graph: wfg.WorkFlow,
    depth: int,
    times: float,
    seen: Mapping[int, tuple[float, float]],
    hiding: tuple[float, float, float],
    labels: Mapping[type, str],
) -> Iterator[Row]:
    """Yield rows of the executed nodes.

    `hiding`: latency of a load, warps, and the cycles of it that one more warp hides.
    """
    for node in graph:
        row = {"depth": depth, "times": times}
        if isinstance(node, wfg.WfgBranch):
            for way, share, side in (
                ("taken", float(node.taken), node.then),
                ("passed", float(node.passed), node.otherwise),
            ):
                if share == 1.0 or not share:
                    yield from _rows(side if share else (), depth, times, seen, hiding, labels)
                    continue
                yield row | {"node": f"{way} by {share:.3g}", "times": times * share}
                yield from _rows(side, depth + 1, times * share, seen, hiding, labels)
            continue
        values = {name: float(value) for name, value in vars(node).items() if hasattr(value, "dtype")}
        if values.get("trips") == 0.0:
            continue
        row |= {"node": labels[type(node)].format(**values), "uses": list(getattr(node, "uses", ()))}
        arc, waits = seen[id(node)]
        row |= {"arc": arc} | ({"waits": waits} if waits or row["uses"] else {})
        if isinstance(node, wfg.Memory) and node.name:
            row |= {"load": node.name, "latency": hiding[0]}
            row["hidden"] = min(hiding[0], (values.get("warps", hiding[1]) - 1.0) * hiding[2])
        yield row
        if isinstance(node, wfg.WfgLoop):
            yield from _rows(node.body, depth + 1, times * values["trips"], seen, hiding, labels)


def joined(graph: wfg.WorkFlow) -> wfg.WorkFlow:
    """Join adjacent computations, and accesses to shared memory: weights add up, chains are sequential."""
    nodes: list[Any] = []
    stretch = 0  # its first index in `nodes`
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
