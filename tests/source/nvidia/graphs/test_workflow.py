"""Work flow graphs of what was executed: nothing is lost, and they are nested as the source is."""

import jax.numpy as jnp
import pytest
from support.sass_code import ran

from dse.models.wfg.graph import Barrier, Compute, Memory, WfgBranch, leaves, loads, uses
from dse.models.wfg.weights import Hardware, average_warp, executions
from dse.source.explain.work_flow import joined
from dse.source.nvidia.graphs.flow import flow_graph
from dse.source.nvidia.graphs.workflow import work_flow


@pytest.fixture(scope="module")
def flows(machines):
    return {name: flow_graph(machine) for name, machine in machines.items()}


def test_every_instruction_as_often_as_it_was_executed(flows, name):
    flow, graph = flows[name], work_flow(flows[name])
    actual = {"compute": 0.0, "memory": 0.0, "barrier": 0.0}
    for node, times in executions(graph, serial=True):
        match node:
            case Compute():
                actual["compute"] += float(times * node.insts)
            case Memory():
                actual["memory"] += float(times)
            case Barrier():
                actual["barrier"] += float(times)
    expected = dict.fromkeys(actual, 0.0)
    for node in flow.nodes:
        if node.kind in expected:
            expected[node.kind] += node.weight * node.count
    assert actual == pytest.approx(expected, rel=1e-9)
    assert uses(graph) <= loads(graph)


def test_warps_that_end_early():
    code = ("S2R R0, SR_TID.X", "ISETP.GE.AND P0, PT, R0, 0x20, PT", "@P0 EXIT", "LDG.E R4, [R20.64]")
    flow = flow_graph(ran(*code, "IADD3 R5, R4, R4, RZ", "EXIT", threads=128))
    first, branch = work_flow(flow)
    assert isinstance(first, Compute)
    assert isinstance(branch, WfgBranch)
    assert (float(branch.taken), float(branch.passed)) == (0.25, 0.75)
    load, used = branch.then
    assert isinstance(load, Memory)
    assert isinstance(used, Compute)
    assert (load.name, used.uses, branch.otherwise) == ("0x30", ("0x30",), ())


@pytest.mark.parametrize("name", ["nbody", "scan", "divergent", "spmv"])
def test_joined_nodes_take_as_long(flows, name):
    machine = Hardware(issue_cycles=1, pipeline_latency=1, bytes_per_cycle=64, mem_latency=400)
    whole = work_flow(flows[name])
    fewer = joined(whole)
    assert len(list(leaves(fewer))) < len(list(leaves(whole)))
    took = [average_warp(graph, machine, jnp.float64(2), serial=True) for graph in (whole, fewer)]
    for field in ("comp_cycles", "mem_insts", "bytes", "barriers", "warp_latency"):
        assert getattr(took[1], field) == pytest.approx(float(getattr(took[0], field)), rel=1e-12)
