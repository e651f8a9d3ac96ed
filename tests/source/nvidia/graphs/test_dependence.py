"""Graphs of what a launch did, against the plain trace of every thread."""

from collections import Counter

import numpy as np
import pytest
from support.sass_code import ran

from dse.errors import DseError
from dse.simulator.case import program as simulated
from dse.source.nvidia.graphs.branches import branches
from dse.source.nvidia.graphs.dependence import MOST_INSTRUCTIONS, MOST_NESTED, dependence_graph
from dse.source.nvidia.graphs.flow import Dependence, flow_graph
from dse.source.nvidia.machine.state import Machine
from dse.source.profile.single_warp import longest_warp


def trace(machine: Machine) -> list[tuple[int, np.ndarray]]:
    """(basic block, threads [blocks, threads]) in order, nothing skipped."""
    steps, place = [], 0
    for start, end, more in [*machine.repeats, (len(machine.trace), len(machine.trace), 0)]:
        steps += machine.trace[place:end]
        steps += machine.trace[start:end] * more
        place = end
    return [(index, np.broadcast_to(lanes.mask, machine.shape)) for index, lanes in steps]


def counts(machine: Machine) -> np.ndarray:
    return np.sum([phase_count for phase_count in machine.phase_counts if phase_count is not None], axis=0)


def test_unrolled_again_it_is_what_the_warp_executed(machines, name):
    machine = machines[name]
    warp = longest_warp(machine, machine.program.blocks, 0)
    graph = dependence_graph(machine, 0, warp)
    there = [index for index, mask in trace(machine) if mask[0, 32 * warp : 32 * warp + 32].any()]
    plain = [step for index in there for step in machine.program.blocks[index].steps]
    order = graph.order()
    assert [graph.instructions[i].address for i in order] == [step.address for step in plain]
    assert Counter(graph.instructions[i].pipe for i in order) == Counter(step.pipe for step in plain)

    latest, written = {}, {}  # run of each instruction; run that last wrote each slot
    for n, (i, step) in enumerate(zip(order, plain, strict=True)):
        needs = {*step.reads, step.guard, *step.writes} & set(written)
        expected = {written[slot] for slot in needs}
        actual = {latest[j] for j in graph.instructions[i].needs if j in latest}
        assert expected <= actual
        for extra in actual - expected:  # wrote what one of the others wrote over
            assert any(extra < written[slot] and slot in plain[extra].writes for slot in needs)
        latest[i] = n
        written.update(dict.fromkeys(step.writes, n))


LOOP = (
    "MOV R4, RZ; LDG.E R5, [R20.64]; IADD3 R4, R4, 0x1, RZ; ISETP.LT.AND P0, PT, R4, 0xa, PT",
    "@P0 IADD3 R6, R6, R5, RZ; LDG.E R5, [R20.64+0x4]; @P0 BRA 0x20; EXIT",
)


def test_a_graph_of_any_size_is_refused():
    with pytest.raises(DseError, match=r"^toy: graph: found 8 instructions with loops rolled, expected .*7$"):
        dependence_graph(ran(*LOOP), 0, 0, most=7)
    assert (simulated.MOST_INSTRUCTIONS, simulated.MOST_NESTED) == (MOST_INSTRUCTIONS, MOST_NESTED)


def test_arcs_are_the_ways_that_threads_went(machines, name):
    """Against each thread's own way; block 0 counts three times as much as the others."""
    machine = machines[name]
    blocks, threads = machine.shape
    weights = [3.0, *[1.0] * (blocks - 1)]
    share = np.array(weights) / sum(weights) / (threads // 32)
    went, came_from, visited = {}, np.full(machine.shape, -1), {-1: -1}
    for visit, (index, mask) in enumerate(trace(machine)):
        visited[visit] = index
        for before in np.unique(came_from[mask]).tolist():
            here = (mask & (came_from == before)).reshape(blocks, -1, 32)
            actual = went.setdefault((visited[before], index), np.zeros(2))
            actual += share @ here.any(-1).sum(1), share @ here.sum((1, 2))
        came_from[mask] = visit
    graph = flow_graph(machine, weights)
    actual = {}
    for arc in graph.arcs:
        source, target = graph.nodes[arc.source], graph.nodes[arc.target]
        if source.block == target.block and arc.target == arc.source + 1:
            assert (arc.weight, arc.lanes) == (source.weight, source.lanes)
        else:
            assert target.first == machine.program.blocks[target.block].steps[0].address
            actual[source.block, target.block] = (arc.weight, arc.weight * arc.lanes)
    start = went.pop((-1, 0))
    assert set(actual) == set(went)
    for edge, both in went.items():
        assert actual[edge] == pytest.approx(tuple(both))
    visits = {node.block: node.weight for node in graph.nodes}
    ends = {block.steps[-1].address: block for block in machine.program.blocks}
    for branch in branches(machine, weights):
        block = ends[branch.address]
        if (target := block.steps[-1].jump) >= 0:
            (taken, jumping), (passed, going_on) = (
                went.get((block.index, to), start * 0) for to in (target, block.index + 1)
            )
            assert 32 * branch.active * branch.visits == pytest.approx(jumping + going_on)
            assert branch.jumping * (jumping + going_on) == pytest.approx(jumping)
            assert branch.visits == pytest.approx(visits[block.index])
            assert branch.diverged * branch.visits == pytest.approx(taken + passed - branch.visits)


def test_who_uses_what_was_loaded():
    machine = ran(*LOOP)
    graph = flow_graph(machine)
    nodes = {node.first: number for number, node in enumerate(graph.nodes)}
    kinds = [("compute", 1), ("memory", 1), ("compute", 3), ("memory", 1), ("compute", 1), ("compute", 1)]
    assert [(node.kind, node.count) for node in graph.nodes] == kinds
    assert (graph.nodes[nodes[0x20]].chain, graph.nodes[nodes[0x20]].ilp) == (3, 1)
    assert graph.dependences == tuple(Dependence(nodes[load], nodes[0x20]) for load in (0x10, 0x50))


def test_lanes_leave_a_loop_one_by_one():
    """Lane t stays while k < t. Lanes 0 and 1 leave in trip 1, then lane k in trip k, the last alone."""
    machine = ran(
        "S2R R0, SR_TID.X; MOV R4, RZ; IADD3 R4, R4, 0x1, RZ; ISETP.LT.AND P0, PT, R4, R0, PT",
        "@P0 BRA 0x20; EXIT",
    )
    (actual,) = (branch for branch in branches(machine) if branch.diverged)
    assert (actual.visits, actual.diverged) == (31, 30 / 31)
    assert [(loop.trips, loop.entries) for loop in flow_graph(machine).loops] == [(31, 1)]


def test_a_loop_begins_where_it_jumps_back_to():
    """Entered in the middle: B A B A B, which is B and twice A B."""
    a, b = "MOV R5, RZ", "IADD3 R4, R4, 0x1, RZ; ISETP.LT.AND P0, PT, R4, 0x3, PT; @P0 BRA 0x20"
    graph = dependence_graph(ran("MOV R4, RZ; BRA 0x30", a, b, "EXIT"), 0, 0)
    (loop,) = graph.loops
    assert loop.trips == 2
    assert (graph.instructions[loop.first].address, graph.instructions[loop.stop - 1].address) == (0x20, 0x50)


def test_what_is_written_over_is_not_waited_for():
    loads = "LDG.E R4, [R20.64]; LDG.E R5, [R20.64+0x4]; LDG.E R6, [R20.64+0x8]"
    writes = "MOV R4, RZ; @P1 MOV R5, RZ; BAR.SYNC 0x0"  # the second perhaps not
    graph = flow_graph(ran(loads, writes, "IADD3 R7, R4, R5, RZ; @P2 MOV R8, RZ; EXIT"))
    assert [node.kind for node in graph.nodes] == ["memory"] * 3 + ["compute", "barrier", "compute"]
    assert graph.dependences == (Dependence(1, 5),)


def test_blocks_differ_in_what_they_ask_for():
    machine = ran(
        "S2R R0, SR_CTAID.X; ISETP.EQ.AND P0, PT, R0, 0x1, PT; @P0 LDG.E R4, [R20.64]",
        "LDGSTS.E [R3], [R20.64]; BAR.ARV 0x1, 0x40; EXIT",
        blocks=2,
    )
    for block in range(2):
        graph = dependence_graph(machine, block, 0)
        load, copy, signal = graph.instructions[2:5]
        assert (load.requests, load.sectors, load.passes) == (block,) * 3
        assert (copy.requests, copy.sectors, copy.passes, copy.shared_passes) == (1, 1, 1, 1)
        assert [item.kind for item in (load, copy, signal)] == ["memory", "memory", "compute"]


def test_products_of_some_warps():
    """One warp of four multiplies; as the load has the same guard, it is known which."""
    machine = ran(
        "S2R R0, SR_TID.X; ISETP.LT.AND P0, PT, R0, 0x20, PT; @P0 LDG.E R24, [R20.64]",
        "@P0 HMMA.16816.F32 R4, R8, R12, R4; HMMA.16816.F32 R4, R8, R12, R4; EXIT",
        threads=128,
    )
    graph = dependence_graph(machine, 0, 0)
    some, all_of_them = (item.product for item in graph.instructions if item.pipe == "tensor")
    assert some is not None
    assert all_of_them is not None
    assert (all_of_them.multiply_adds, all_of_them.from_registers) == (16 * 8 * 16, 1)
    assert (some.multiply_adds, some.from_registers) == (16 * 8 * 16 / 4, 1 / 4)
