"""Rows of edges: every edge in a chain of rows that starts at its source."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dse.simulator.engine.edges import MOST_IN_ROW, STEP, edge_rows, edges_in_row


@given(sources=st.lists(st.integers(0, 6), max_size=40), width=st.integers(1, 4))
def test_rows_of_an_instruction_hold_its_edges(sources: list[int], width: int):
    at, following = edge_rows(np.array(sources, int), 7, width)
    assert len(set(at.tolist())) == len(sources)
    edge_at = dict(zip(at.tolist(), range(len(sources)), strict=True))
    for instruction in range(7):
        found, row, rows = [], instruction, 0
        while True:
            found += [edge_at[row * width + n] for n in range(width) if row * width + n in edge_at]
            rows += 1
            row = int(following[row])
            if row == 0:
                break
            assert row >= 7
        expected = [edge for edge, source in enumerate(sources) if source == instruction]
        assert found == expected
        assert rows == max(1, -(-len(expected) // width))


@given(degrees=st.lists(st.integers(0, 20), min_size=1, max_size=20))
def test_the_width_of_rows_is_the_cheapest(degrees: list[int]):
    def cost(width: int) -> int:
        return sum(max(1, -(-degree // width)) for degree in degrees) * (STEP + width)

    assert cost(edges_in_row(np.array(degrees))) == min(map(cost, range(1, MOST_IN_ROW + 1)))
