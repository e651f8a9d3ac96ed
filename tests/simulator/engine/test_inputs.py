"""What a compiled loop is given says the same as the cases."""

import numpy as np
import pytest
from oracle import EVERY, random_case, rolled_program

from dse.simulator import Case, Loop, Program
from dse.simulator.engine.columns import CaseColumns
from dse.simulator.engine.inputs import suit_ticks


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

    suit = [case(1.0), case(1.0, 2.0**26), case(0.5, 2.0**25)]
    suit += [case(1.0, trips=2**27), case(1.0, warps=128, trips=2**15)]
    others = [case(0.1), case(2.0**-70), case(5e-324), case(1.0, 2.0**28)]
    others += [case(1.0, trips=2**28), case(1.0, warps=128, trips=2**17)]
    assert suit_ticks(CaseColumns.of([*suit, *others])).tolist() == [True] * 5 + [False] * 6
    rng = np.random.default_rng(4)
    cases = [random_case(rng, EVERY) for _ in range(5)] + [Case((rolled_program(rng),), 2) for _ in range(3)]
    numbers = np.array([7, 0, 3, 3, 6])
    taken, expected = CaseColumns.of(cases).take(numbers), CaseColumns.of([cases[n] for n in numbers])
    for name, values in vars(expected).items():
        np.testing.assert_array_equal(getattr(taken, name), values, err_msg=name)
