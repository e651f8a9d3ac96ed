"""Loops whose bodies are written several times."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dse.simulator.case.program import Loop, executed
from dse.source.nvidia.graphs.rolled_trace import bodies_repeated


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


def test_remainders_come_last():
    steps: Any = list("abc")
    loop = Loop(1, 2, 7)
    assert bodies_repeated(steps, [loop], {loop: 3}) == (list("abbbbc"), [Loop(1, 4, 2)])
    assert bodies_repeated(steps, [loop], {loop: 4}) == (list("abbbbbbbc"), [])
    assert bodies_repeated(steps, [loop], {}) == (list("abc"), [loop])
