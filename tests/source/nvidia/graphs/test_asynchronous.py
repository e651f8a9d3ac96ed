"""Asynchronous copies and products: which runs are waited for, and what buffers gain in the simulator."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.sass_code import program_of, ran

from dse.simulator.case.program import Loop, executed
from dse.source.nvidia.graphs.asynchronous import with_waits
from dse.source.nvidia.graphs.dependence import DependenceGraph, dependence_graph
from dse.source.nvidia.graphs.rolled_trace import bodies_repeated

COPY, END, WAIT = "LDGSTS.E [R3], [R20.64]", "LDGDEPBAR", "DEPBAR.LE SB0, 0x{:x}"
LOAD, ARRIVE = "UBLKCP.S.G [UR6], [UR8], UR5", "SYNCS.ARRIVE.TRANS64 RZ, [UR8+0x18000], R0"
CHECK = "SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [UR12+0x18000], R8"
PRODUCT = "HGMMA.64x128x16.F32 R24, gdesc[UR8], R24"


def graph_of(before: list[str], body: list[str], after: list[str], trips: int, **limits) -> DependenceGraph:
    """The graph of a warp that runs a body so many times."""
    count = f"IADD3 R4, R4, 0x1, RZ; ISETP.LT.AND P0, PT, R4, {trips:#x}, PT"
    back = f"@P0 BRA {16 + 16 * len(before):#x}"
    code = ["MOV R4, RZ", *before, *body, count, back, *after, "EXIT"]
    return dependence_graph(ran(*code, arch=90), 0, 0, **limits)


def awaited(graph: DependenceGraph, wait: str, begun: str) -> list[list[int]]:
    """Which runs of the `begun` instructions, counted from 0, each run of the `wait` instructions needs."""
    latest: dict[int, int] = {}
    actual, count = [], 0
    for i in graph.order():
        item = graph.instructions[i]
        if item.text.startswith(wait):
            actual.append([latest[j] for j in item.needs if j in latest])
        if item.text.startswith(begun):
            latest[i] = count
            count += 1
    return actual


@pytest.mark.parametrize("trips", [2, 3, 4, 7, 12, 13])
@pytest.mark.parametrize("ahead", [0, 1, 2, 3, 4])
def test_a_wait_needs_the_copy_of_as_many_trips_before_as_groups_may_be_under_way(ahead, trips):
    before, body = [COPY, END] * ahead, [COPY, END, WAIT.format(ahead)]
    graph = graph_of(before, body, [WAIT.format(0)], trips)
    actual = awaited(graph, "DEPBAR", "LDGSTS")
    for trip, needs in enumerate(actual[:-1]):
        assert max(needs) == trip  # the copy of this trip, begun `ahead` trips before
    assert max(actual[-1], default=trips + ahead - 1) == trips + ahead - 1
    assert [graph.instructions[i].text for i in graph.order()].count(END) == trips + ahead


def test_a_body_is_repeated_so_that_few_trips_are_left_over():
    def sizes(trips: int, **limits) -> tuple[int, tuple[Loop, ...]]:
        graph = graph_of([COPY, END] * 3, [COPY, END, WAIT.format(3)], [], trips, **limits)
        return len(graph.instructions), graph.loops

    assert sizes(40) == (8 + 4 * 6, (Loop(7, 31, 10),))
    assert sizes(35) == (8 + 5 * 6, (Loop(7, 37, 7),))
    assert sizes(40, most=31) == (8 + 2 * 6, (Loop(7, 19, 20),))  # what fits
    assert sizes(40, most=14) == (8 + 6, (Loop(7, 13, 40),))


def test_of_loops_in_one_another_the_one_with_the_copies_is_repeated():
    code = ["MOV R4, RZ", COPY, END, WAIT.format(2), "IADD3 R4, R4, 0x1, RZ", WAIT.format(0), "EXIT"]
    steps = program_of(*code).steps
    actual, loops, awaited = with_waits(steps, [Loop(0, 6, 4), Loop(1, 5, 9)], 100)
    assert loops == [Loop(0, 14, 4), Loop(1, 13, 3)]
    assert [step.opcode for step in actual].count("LDGSTS") == 3
    assert set(awaited.values()) == {1}
    assert sorted(pair for pair in awaited if pair[0] < 13) == [(3, 5), (7, 9), (11, 1)]
    assert sorted(begun for waiting, begun in awaited if waiting == 13) == [5, 9]


def test_groups_of_several_copies_and_of_none():
    before = [COPY, COPY, END, END]  # the second is empty, and counts
    graph = graph_of([], [*before, WAIT.format(1), COPY, END, WAIT.format(1), WAIT.format(1)], [], 9)
    actual = awaited(graph, "DEPBAR", "LDGSTS")
    assert actual[0] == [0, 1]  # the latest group is the empty one
    assert actual[1] == []
    assert [set(needs) for needs in actual[3::3]] == [{3 * n + 2, 3 * n + 3, 3 * n + 4} for n in range(8)]
    assert actual[2::3] == [[]] * 9  # nothing left


@pytest.mark.parametrize("order", [[ARRIVE, LOAD, LOAD], [LOAD, LOAD, ARRIVE]])
def test_mbarriers_take_turns(order):
    graph = graph_of(order * 2, [CHECK, *order], [CHECK, CHECK], 8)
    actual = awaited(graph, "SYNCS.PHASECHK", "UBLKCP")
    assert [max(needs) for needs in actual] == [2 * n + 1 for n in range(10)]
    loads = [instruction for instruction in graph.instructions if instruction.text == LOAD]
    assert {load.kind for load in loads} == {"memory"}
    assert all(load.writes for load in loads)


def test_products_of_a_block_are_waited_for_at_their_own_mbarriers():
    """As in a pipelined loop with two copies ahead, where the products end before the next copy."""
    product = "UTCHMMA gdesc[UR10], gdesc[UR14], tmem[UR16], tmem[UR18], idesc[UR19]"
    described = ["UMOV UR19, 0x8210010", "UIADD3 UR20, UPT, UPT, UR12, 0x18020, URZ", "UMOV UR13, UR20"]
    others = ["MOV R30, +INF", "MOV R31, 1.5"]  # are no addresses
    ends = ["UTCBAR [UR20], URZ", "SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [UR13+URZ], R8"]
    graph = graph_of(
        [*described, *others, ARRIVE, LOAD, ARRIVE, LOAD], [CHECK, product, *ends, ARRIVE, LOAD], [], 8
    )
    for begun, first in (("UBLKCP", 0), ("UTCHMMA", 1)):
        actual = awaited(graph, "SYNCS.PHASECHK", begun)
        assert [max(needs) for needs in actual[first::2]] == [*range(8)]
        assert actual[1 - first :: 2] == [[]] * 8


def test_copies_may_end_at_an_mbarrier():
    graph = graph_of([], [COPY, "ARRIVES.LDGSTSBAR.64 [UR7]", CHECK], [], 5)
    assert awaited(graph, "SYNCS", "LDGSTS") == [[n] for n in range(5)]


def test_stores_in_bulk_are_waited_for():
    store = ["UBLKCP.G.S [UR4], [UR6], UR7", "UTMACMDFLUSH", WAIT.format(1)]
    graph = graph_of([], store, [], 6)
    assert awaited(graph, "DEPBAR", "UBLKCP") == [[], *([n] for n in range(5))]


def test_other_sums_are_waited_for():
    graph = graph_of([], [PRODUCT, PRODUCT.replace("R24, gdesc", "R96, gdesc")], [], 3)
    first, second = (n for n, item in enumerate(graph.instructions) if item.text.startswith("HGMMA"))
    assert first in graph.instructions[second].needs  # it reads R24
    assert second not in graph.instructions[first].needs


@st.composite
def nested(draw) -> tuple[list[int], list[Loop]]:
    """Some steps, and loops among them, in one another or side by side, outer ones first."""
    loops: list[Loop] = []

    def body(first: int, depth: int) -> int:
        at = first
        for _ in range(draw(st.integers(1, 3))):
            at += draw(st.integers(0, 2))
            if depth < 3 and draw(st.booleans()):
                stop = body(at, depth + 1) + 1  # an instruction of its own
                loops.append(Loop(at, stop, draw(st.integers(2, 7))))
                at = stop
        return at

    size = body(0, 0) + 1
    return list(range(size)), sorted(loops, key=lambda loop: (loop.first, -loop.stop))


@given(nested(), st.lists(st.integers(1, 9), min_size=40, max_size=40))
def test_unrolled_it_is_the_same(code, times):
    numbers, loops = code
    steps: Any = numbers
    written, actual = bodies_repeated(steps, loops, dict(zip(loops, times, strict=False)))
    order = executed(0, len(written), actual)
    assert [written[i] for i in order] == list(executed(0, len(numbers), loops))
    assert all(loop.trips > 1 for loop in actual)
