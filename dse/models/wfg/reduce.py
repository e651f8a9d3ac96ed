"""Reduce a work flow graph with weights to one arc: the time of an average warp.

The four rules: weights of a sequence add up; a loop is its body times its trips; a branch is the mean of its
sides, each with the code before and after it that dependence arcs cross; a dependence arc longer than the
code between load and use lengthens the last arc of its path.

On one path the last rule means that a use begins no sooner than its load's arc ends. So the paths through the
graph are followed, each with its time and the arrival times of its loads. Paths without pending loads are
merged into their mean, which is exact: from there on times add up.

Gaps: the paper has no arcs into, out of and around loops. An arc into a loop is waited for before the loop.
An arc out of it counts from the last trip. With an arc to the next trip, all trips but the first take as long
as the second. An arc that begins on one side of a branch is waited for on that side only.
Source: Baghsorkhi et al., PPoPP 2010, Figs. 2 to 4.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from dse.hardware.memory import safe_divide
from dse.models.wfg.graph import (
    Compute,
    Leaf,
    Memory,
    WfgBranch,
    WfgLoop,
    WorkFlow,
    leaves,
    loads,
    uses,
)

MOST_WAYS = 64  # followed at a time; beyond, paths with the same pending loads are merged


@dataclass(frozen=True)
class Costs:
    """The weights of the arcs out of a node, in cycles."""

    arc: Callable[[Leaf], Array]  # transition
    exposed: Callable[[Memory, Any], Array] | None = None  # dependence; None: no waits for loads
    hides: Callable[[Compute], Array] | None = None  # its own latency, passed to `exposed` of a later load
    serial: bool = False  # a divergent warp takes both sides in sequence
    # Called with each node and the wait of a warp before each execution; for a loop, before the loop.
    seen: Callable[[Leaf | WfgLoop, Array], None] | None = None


@dataclass(frozen=True)
class _Way:
    """Paths through the graph up to a node; times are 0 at the start."""

    share: Any  # of the warps
    time: Any
    there: dict[str, Any]  # arrival times of loads with later uses
    hidden: Any  # latencies of the computation since the last load


def warp_latency(graph: WorkFlow, costs: Costs) -> Array:
    """Return the cycles from the first node to the end. **Shapes:** all weights broadcast."""
    return jnp.asarray(_mean(_follow(graph, [_Way(1.0, 0.0, {}, 0.0)], frozenset(), costs), _time))


def sides(branch: WfgBranch, serial: bool) -> list[tuple[Array, WorkFlow]]:
    """Return the paths through a branch, with the share of each.

    The paper's mean (Fig. 3e) counts a divergent warp as if it took one side; with `serial` it takes both.
    """
    if not serial:
        both = branch.taken + branch.passed
        taken = safe_divide(branch.taken, both)
        return [(taken, branch.then), (safe_divide(branch.passed, both), branch.otherwise)]
    split = jnp.maximum(branch.taken + branch.passed - 1.0, 0.0)
    return [
        (branch.taken - split, branch.then),
        (branch.passed - split, branch.otherwise),
        (split, branch.then + branch.otherwise),
    ]


def _follow(graph: WorkFlow, ways: Sequence[_Way], awaited: frozenset[str], costs: Costs) -> list[_Way]:
    """Follow the paths to the end of `graph`; the loads `awaited` are used after it."""
    for number, node in enumerate(graph):
        later = awaited | uses(graph[number + 1 :])
        match node:
            case WfgBranch():
                sided = sides(node, costs.serial)
                ways = [
                    end
                    for share, side in sided
                    for end in _follow(
                        side, [replace(way, share=way.share * share) for way in ways], later, costs
                    )
                ]
            case WfgLoop():
                ways = _loop(node, ways, later, costs)
            case _:
                ways = _waiting(node, node.uses, ways, costs)
                ways = [_leaf(node, way, costs) for way in ways]
        ways = _joined([_keep(way, later) for way in ways])
    return list(ways)


def _leaf(node: Leaf, way: _Way, costs: Costs) -> _Way:
    there, hidden = way.there, way.hidden
    if isinstance(node, Memory):
        if node.name and costs.exposed:
            there = there | {node.name: way.time + costs.exposed(node, hidden)}
        hidden = 0.0
    elif isinstance(node, Compute) and costs.hides:
        hidden = hidden + costs.hides(node)
    return replace(way, time=way.time + costs.arc(node), there=there, hidden=hidden)


def _loop(loop: WfgLoop, ways: Sequence[_Way], later: frozenset[str], costs: Costs) -> list[_Way]:
    entering = uses(loop.body) - loads(loop.body)
    carried = _carried(loop.body)
    ways = _waiting(loop, entering, ways, costs)
    ends = _follow(loop.body, [_Way(1.0, 0.0, {}, 0.0)], later | carried, costs)
    first = _mean(ends, _time)
    cycles = loop.trips * first
    if carried and costs.exposed:
        ends = _follow(loop.body, ends, later | carried, costs)
        more = jnp.maximum(loop.trips - 1.0, 0.0)
        cycles = (loop.trips - more) * first + more * (_mean(ends, _time) - first)
    hidden = _mean(ends, _hidden)
    ends = _joined([_keep(end, later) for end in ends])
    return [
        _Way(
            way.share * end.share,
            way.time + cycles,
            way.there | {name: way.time + cycles + (at - end.time) for name, at in end.there.items()},
            hidden,
        )
        for way in ways
        for end in ends
    ]


def _carried(body: WorkFlow) -> frozenset[str]:
    """Return the loads of a loop's body with uses before them, that is in the next trip."""
    carried, issued, own = set[str](), set[str](), loads(body)
    for node in leaves(body):
        carried |= (set(node.uses) & own) - issued
        if isinstance(node, Memory):
            issued.add(node.name)
    return frozenset(carried)


def _wait(way: _Way, names: Iterable[str]) -> _Way:
    return replace(way, time=reduce(jnp.maximum, (way.there[n] for n in names if n in way.there), way.time))


def _waiting(node: Leaf | WfgLoop, names: Iterable[str], ways: Sequence[_Way], costs: Costs) -> list[_Way]:
    after = [_wait(way, names) for way in ways]
    if costs.seen is not None:
        costs.seen(node, jnp.asarray(_mean(after, _time) - _mean(ways, _time)))
    return after


def _keep(way: _Way, names: frozenset[str]) -> _Way:
    return replace(way, there={name: at for name, at in way.there.items() if name in names})


def _joined(ways: Sequence[_Way]) -> list[_Way]:
    """Merge paths without pending loads; if there are too many, also those with the same pending loads."""
    groups: dict[object, list[_Way]] = {}
    for number, way in enumerate(ways):
        alone = way.there and len(ways) <= MOST_WAYS
        groups.setdefault(number if alone else frozenset(way.there), []).append(way)
    return [_one(group) for group in groups.values()]


def _one(ways: Sequence[_Way]) -> _Way:
    if len(ways) == 1:
        return ways[0]
    share = reduce(jnp.add, (way.share for way in ways))
    there = {name: _mean(ways, lambda way, name=name: way.there[name]) for name in ways[0].there}
    return _Way(share, _mean(ways, _time), there, _mean(ways, _hidden))


def _mean(ways: Sequence[_Way], value: Callable[[_Way], Any]) -> Any:
    """Return the mean over the paths, weighted by share; 0 if no warp takes them."""
    if len(ways) == 1:
        return value(ways[0])
    share = reduce(jnp.add, (way.share for way in ways))
    return safe_divide(reduce(jnp.add, (way.share * value(way) for way in ways)), share)


def _time(way: _Way) -> Any:
    return way.time


def _hidden(way: _Way) -> Any:
    return way.hidden
