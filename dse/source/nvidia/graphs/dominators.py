"""Dominators of a directed graph."""

from collections.abc import Iterable, Mapping, Sequence


def dominators(
    nodes: Sequence[int], after: Mapping[int, Sequence[int]], start: int
) -> dict[int, frozenset[int]]:
    """Find the dominators of each node: the nodes on all paths from the start to it, itself included.

    `after` has the successors of each node.
    """
    before: dict[int, list[int]] = {node: [] for node in nodes}
    for node in nodes:
        for target in after.get(node, ()):
            if target in before:
                before[target].append(node)
    every = frozenset(nodes)
    dominating = dict.fromkeys(nodes, every) | {start: frozenset([start])}
    changed = True
    while changed:
        changed = False
        for node in nodes:
            if node != start:
                ways = [dominating[source] for source in before[node]]
                now = frozenset.intersection(*ways) | {node} if ways else frozenset([node])
                if now != dominating[node]:
                    dominating[node], changed = now, True
    return dominating


def nearest_dominator(
    node: int, dominating: Mapping[int, frozenset[int]], without: Iterable[int] = ()
) -> int:
    """Return the immediate dominator of a node, except `without`; -1 if it has none."""
    others = dominating.get(node, frozenset()) - {node, *without}
    return max(others, key=lambda other: len(dominating[other]), default=-1)
