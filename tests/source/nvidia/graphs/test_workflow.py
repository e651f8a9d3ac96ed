"""Work flow graphs of what was executed: nothing is lost, and they are nested as the source is."""

from dataclasses import replace
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from dse.errors import DseError
from dse.models.wfg.graph import Barrier, Compute, Memory, WfgBranch, WfgLoop, leaves, loads, uses
from dse.models.wfg.weights import Hardware, average_warp, executions
from dse.source.explain.work_flow import joined
from dse.source.machine.launch import LaunchArguments
from dse.source.nvidia.execute.interpret import bind_program, run
from dse.source.nvidia.graphs.flow import Arc, flow_graph
from dse.source.nvidia.graphs.workflow import work_flow
from dse.source.nvidia.sass.listing import parse
from dse.source.nvidia.sass.program import program

LISTINGS = Path(__file__).parents[1] / "listings"
ROWS = np.cumsum([0, *np.random.default_rng(3).integers(0, 9, 64)]).astype(np.int32)
COLUMNS = np.arange(ROWS[-1], dtype=np.int32) * 7 % 64
LAUNCHES = {
    "nbody": LaunchArguments((4, 1, 1), (256, 1, 1), [None, None, 1024]),
    "scan": LaunchArguments((2, 1, 1), (128, 1, 1), [np.zeros(256, np.int32), None]),
    "divergent": LaunchArguments((2, 1, 1), (96, 1, 1), [None, None, 17]),
    "transpose_conflicts": LaunchArguments((4, 4, 1), (32, 8, 1), [None, None, 128]),
    "calls": LaunchArguments((1, 1, 1), (64, 1, 1), [None, 17]),
    "spmv": LaunchArguments(
        (1, 1, 1), (64, 1, 1), [ROWS, COLUMNS, None, None, None, 64], banks={2: b"\x08" + bytes(7)}
    ),
}


@pytest.fixture(scope="module")
def flows():
    listings = {each.kernel: each for each in parse((LISTINGS / "sm_80.sass").read_text(), "sm_80.sass")}

    def flow(name, launch):
        blocks = [(x, 0, 0) for x in range(launch.grid[0])]
        return flow_graph(run(bind_program(program(listings[name])), launch, blocks))

    return {name: flow(name, launch) for name, launch in LAUNCHES.items()}


@pytest.mark.parametrize("name", LAUNCHES)
def test_every_instruction_as_often_as_it_was_executed(flows, name):
    flow, graph = flows[name], work_flow(flows[name])
    found = {"compute": 0.0, "memory": 0.0, "barrier": 0.0}
    for node, times in executions(graph, serial=True):
        match node:
            case Compute():
                found["compute"] += float(times * node.insts)
            case Memory():
                found["memory"] += float(times)
            case Barrier():
                found["barrier"] += float(times)
    expected = dict.fromkeys(found, 0.0)
    for node in flow.nodes:
        if node.kind in expected:
            expected[node.kind] += node.weight * node.count
    assert found == pytest.approx(expected, rel=1e-9)
    assert uses(graph) <= loads(graph)


def test_nested_as_the_source_is(flows):
    graph = work_flow(flows["nbody"])
    (outer,) = (node for node in graph if isinstance(node, WfgLoop))
    (inner,) = (node for node in outer.body if isinstance(node, WfgLoop))
    assert (float(outer.trips), float(inner.trips)) == (4, 64)
    split = next(node for node in work_flow(flows["divergent"]) if isinstance(node, WfgBranch))
    assert float(split.taken + split.passed) > 1
    assert any(isinstance(node, WfgLoop) for side in (split.then, split.otherwise) for node in side)


def test_the_model_takes_them(flows):
    machine = Hardware(issue_cycles=1, pipeline_latency=4, bytes_per_cycle=64, mem_latency=400)
    for name in LAUNCHES:
        graph = work_flow(flows[name], pass_cycles=2.0)
        found = average_warp(graph, machine, jnp.float64(1), serial=True)
        assert float(found.warp_latency) >= float(found.comp_cycles) > 0
        assert float(found.mem_insts) == pytest.approx(
            sum(node.weight for node in flows[name].nodes if node.kind == "memory")
        )
        waits = uses(graph) and name != "calls"
        assert float(found.warp_latency) > float(found.comp_cycles) + (100 if waits else -1)


def test_more_than_two_ways_are_refused(flows):
    flow = flows["divergent"]
    first = flow.nodes[0].block
    last = max(number for number, node in enumerate(flow.nodes) if node.block == first)
    starts = [
        number
        for number, node in enumerate(flow.nodes)
        if number and flow.nodes[number - 1].block != node.block
    ]
    arcs = tuple(Arc(last, start, 1.0, 32.0) for start in starts[:3])
    with pytest.raises(DseError, match="divergent: block 0: found 3 blocks behind it, expected two at most"):
        work_flow(replace(flow, arcs=arcs))


def test_splitting_warps_take_both_sides(flows):
    # The paper's mean counts a warp whose lanes leave a loop one by one as if it did a part of what it does.
    machine = Hardware(issue_cycles=1, pipeline_latency=1, bytes_per_cycle=64, mem_latency=400)
    graph = work_flow(flows["spmv"])
    published, serial = (average_warp(graph, machine, jnp.float64(1), serial=s) for s in (False, True))
    assert float(serial.comp_cycles) == pytest.approx(
        sum(
            node.weight * (node.passes if node.kind == "shared" else node.count)
            for node in flows["spmv"].nodes
        )
    )
    assert float(published.comp_cycles) < 0.5 * float(serial.comp_cycles)


def test_warps_that_end_early():
    code = ("S2R R0, SR_TID.X", "ISETP.GE.AND P0, PT, R0, 0x20, PT", "@P0 EXIT", "LDG.E R4, [R20.64]")
    code = (*code, "IADD3 R5, R4, R4, RZ", "EXIT")
    lines = "\n".join(f"  /*{16 * place:04x}*/ {line} ;" for place, line in enumerate(code))
    listing = parse(f"\t.target sm_80\n\t.section .text.toy,\n{lines}", "toy.sass")[0]
    flow = flow_graph(
        run(bind_program(program(listing)), LaunchArguments((1, 1, 1), (128, 1, 1), []), [(0, 0, 0)])
    )
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
