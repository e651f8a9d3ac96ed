"""What a compiled loop is given says the same as the cases."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.simulator import Case, Loop, Program
from dse.simulator.engine import layout
from dse.simulator.engine.columns import CaseColumns
from dse.simulator.engine.graph import BLOCK, make_graph
from dse.simulator.engine.inputs import make_inputs, suit_ticks
from dse.simulator.engine.layout import Inputs

MakeProgram = Callable[..., Program]
MakeCase = Callable[..., Case]
EVERY = "valve cap same_warp barriers sequence several"


def made(
    cases: list[Case], ticks: bool = False, record: bool = False
) -> tuple[CaseColumns, Inputs, np.ndarray]:
    columns = CaseColumns.of(cases)
    return columns, *make_inputs(columns, np.arange(len(cases)), ticks=ticks, record=record)


def needs(inputs: Inputs, row: int) -> list[int]:
    """The slots whose results an instruction needs."""
    words = inputs.words[row].tolist()
    slots = [words[n] >> shift & 0xFFFF for n in (1, 2) for shift in (0, 16)]
    if words[0] & int(layout.FURTHER):
        further = inputs.further[words[3] :].tolist()
        slots += further[: further.index(0)]
    return [slot for slot in slots if slot]


@given(seed=st.integers(0, 2**32 - 1), straight=st.booleans())
def test_a_slot_holds_the_latest_run_or_nothing(rolled_program: MakeProgram, seed: int, straight: bool):
    program = rolled_program(np.random.default_rng(seed), trips=3)
    program = replace(program.unrolled(), kind="") if straight else program
    _, inputs, _ = made([Case((program,), 1)])
    slots = (inputs.words[:-1, 0] >> layout.SLOT_AT).tolist()
    assert 1 <= min(slots) <= max(slots) < inputs.cases[0, layout.CASE_WINDOW]
    held: dict[int, tuple[int, int]] = {}  # slot → instruction and its run
    latest: dict[int, tuple[int, int]] = {}
    for run, i in enumerate(program.order.tolist()):
        assert [held.get(slot) for slot in needs(inputs, i)] == [latest.get(j) for j in program.preds[i]]
        held[slots[i]] = latest[i] = (i, run)


def test_many_needs_go_on_beside_the_words():
    preds = ((), (0,), (0, 1), (0, 1, 2), (0, 1, 2, 3), (0, 1, 2, 3, 4), (0, 1, 2, 3, 4, 5), (6,))
    program = Program(np.zeros(8, int), np.ones(8), np.ones(8), preds)
    _, inputs, _ = made([Case((program,), 1)] * 2)
    for row in range(16):
        assert len(needs(inputs, row)) == len(preds[row % 8])


@given(seed=st.integers(0, 2**32 - 1))
def test_numbers_of_cases(random_case: MakeCase, seed: int):
    rng = np.random.default_rng(seed)
    cases = [random_case(rng, EVERY if n % 2 else "") for n in range(6)]
    columns, inputs, unit = made(cases, ticks=True)
    np.testing.assert_array_equal(columns.entries, [case.entries for case in cases])
    for found, case in zip(columns.subsystems, cases, strict=True):  # an infinite cap names none
        capped = max((s for s, cap in enumerate(case.caps, 1) if cap < np.inf), default=0)
        assert found == max(capped, *(program.subsystems for program in case.programs))
    busiest = [case.cycles_of_subsystems().max() for case in cases]
    np.testing.assert_allclose(columns.survey.busy.max(1), busiest, rtol=1e-12)
    row = 0
    for n, case in enumerate(cases):
        found = inputs.cases[n]
        assert found[layout.CASE_ENTRIES] == case.entries
        assert found[layout.CASE_MASK] >= case.warps * case.slots
        assert (int(found[layout.CASE_FLAGS]) & int(layout.HAS_BARRIERS) > 0) == any(
            program.barriers for program in case.programs
        )
        np.testing.assert_array_equal(inputs.clock[n, 0] * unit[n], case.valve_cycles)
        caps = [int(cap) if cap < case.entries else 0 for cap in case.caps]
        assert inputs.caps[n].tolist() == caps + [0] * (8 - len(caps))
        chosen = int(found[layout.CASE_ASSIGNED]) + np.arange(found[layout.CASE_PERIOD])
        firsts = np.cumsum([row, *map(len, case.programs)])
        np.testing.assert_array_equal(
            inputs.programs[inputs.assignment[chosen], layout.PROGRAM_FIRST],
            firsts[np.array(case.assignment)],
        )
        for program in case.programs:
            rows = slice(row, row + len(program))
            terms = (program.throughput_cycles, program.latency_cycles, program.same_warp)
            np.testing.assert_array_equal(inputs.terms[rows, :3] * unit[n], np.stack(terms, 1))
            row += len(program)


def test_some_of_the_cases_are_as_if_alone(random_case: MakeCase):
    rng = np.random.default_rng(2)
    cases = [random_case(rng, EVERY) for _ in range(9)]
    some = np.array([6, 1, 7])
    columns = CaseColumns.of(cases)
    of_some, alone = columns, CaseColumns.of([cases[n] for n in some])
    for ticks in (True, False):
        together, unit = make_inputs(of_some, some, ticks=ticks, record=not ticks)
        expected, unit_alone = make_inputs(alone, np.arange(3), ticks=ticks, record=not ticks)
        np.testing.assert_array_equal(unit, unit_alone)
        for name, values in together._asdict().items():
            np.testing.assert_array_equal(values, getattr(expected, name), err_msg=name)


@pytest.mark.parametrize(
    ("terms", "exponent"),
    [([0.0], 0), ([3.0], 0), ([0.5, 4.0], 1), ([0.375], 3), ([2.0**-40], 40), ([1e300], 0)],
)
def test_a_tick_divides_all_terms(terms: list[float], exponent: int):
    count = len(terms)
    program = Program(np.zeros(count, int), np.array(terms), np.ones(count), ((),) * count)
    assert CaseColumns.of([Case((program,), 1)]).survey.exponent.tolist() == [exponent]


def test_what_has_no_room_in_a_word_does_not_suit_ticks():
    def case(throughput_cycles: float, latency_cycles: float = 1.0, warps: int = 1, trips: int = 1) -> Case:
        terms = np.array([throughput_cycles]), np.array([latency_cycles])
        return Case((Program(np.zeros(1, int), *terms, ((),), loops=(Loop(0, 1, trips),)),), warps)

    cases = [
        case(1.0),
        case(0.1),
        case(2.0**-70, 1.0),
        case(1.0, 2.0**26),
        case(1.0, 2.0**28),
        case(0.5, 2.0**25),
        case(1.0, trips=2**27),
        case(1.0, trips=2**28),
        case(1.0, warps=128, trips=2**15),
        case(1.0, warps=128, trips=2**17),
        case(5e-324),
    ]
    expected = [True, False, False, True, False, True, True, False, True, False, False]
    assert suit_ticks(CaseColumns.of(cases)).tolist() == expected


@given(seed=st.integers(0, 2**32 - 1))
def test_a_graph_is_the_programs_turned_round(random_case: MakeCase, seed: int):
    rng = np.random.default_rng(seed)
    cases = [replace(random_case(rng, EVERY), order="dataflow") for _ in range(3)]
    graph = make_graph(CaseColumns.of(cases), np.array([2, 0]))
    first = 0
    for case in (cases[2], cases[0]):
        for program in case.programs:
            assert graph.length[first] == len(program)
            for i in range(len(program)):
                succ = graph.succ[graph.succ_first[first + i] : graph.succ_first[first + i + 1]]
                assert succ.tolist() == [n for n in range(len(program)) if i in program.preds[n]]
                barrier = program.kind.find("b", i)
                assert graph.stop[first + i] == (barrier if barrier >= 0 else len(program))
                block = int(graph.first_block[first]) + i // BLOCK
                bits = [int(graph.members[8 * block + s]) >> i % BLOCK & 1 for s in range(8)]
                assert bits == [s == program.subsystem[i] for s in range(8)]
            first += len(program)


def test_an_issue_limit_of_none_is_no_valve():
    case = Case((Program(np.zeros(1, int), np.ones(1), np.ones(1), ((),)),), 1, issue_limit=math.inf)
    _, inputs, _ = made([case])
    assert inputs.clock[0, 0] == 0
    assert not int(inputs.cases[0, layout.CASE_FLAGS]) & int(layout.HAS_VALVE)


def test_taken_cases_are_those_cases(random_case: MakeCase, rolled_program: MakeProgram):
    rng = np.random.default_rng(4)
    cases = [random_case(rng, EVERY) for _ in range(5)] + [Case((rolled_program(rng),), 2) for _ in range(3)]
    numbers = np.array([7, 0, 3, 3, 6])
    taken, expected = CaseColumns.of(cases).take(numbers), CaseColumns.of([cases[n] for n in numbers])
    for name, values in vars(expected).items():
        np.testing.assert_array_equal(getattr(taken, name), values, err_msg=name)
