"""Dominators against their definition."""

from hypothesis import given
from hypothesis import strategies as st

from dse.source.nvidia.graphs.dominators import dominators, nearest_dominator

NODES = range(7)
GRAPHS = st.fixed_dictionaries({node: st.lists(st.sampled_from(NODES), max_size=3) for node in NODES})


def reached(after: dict[int, list[int]], without: int | None = None) -> set[int]:
    """Nodes that can be reached from node 0 if one may not be passed."""
    seen: set[int] = set()
    waiting = [0]
    while waiting:
        node = waiting.pop()
        if node not in seen and node != without:
            seen.add(node)
            waiting += after[node]
    return seen


@given(after=GRAPHS)
def test_a_dominator_cuts_off_what_it_dominates(after):
    there = sorted(reached(after))
    dominating = dominators(there, after, 0)
    for node in there:
        expected = {other for other in there if node not in reached(after, without=other)}
        assert dominating[node] == expected
        nearest = nearest_dominator(node, dominating)
        if node == 0:
            assert nearest == -1
        else:
            assert dominating[nearest] == expected - {node}
            assert nearest_dominator(node, dominating, without=expected) == -1
