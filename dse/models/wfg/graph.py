"""The work flow graph (WFG) of an average warp: blocks of computation, accesses, barriers, loops, branches,
and the waits for loads.

A graph is a tuple of nodes, with nested tuples in loops and branches. It is a pytree: its structure and the
names of its loads are static and hashable, its weights are arrays that broadcast, so a jitted function is
compiled once per structure. A node waits for the loads in its `uses` (data-dependence arcs); all nodes run in
sequence (transition arcs).

Source: Baghsorkhi et al., PPoPP 2010, Sec. 2.1.
"""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
from jaxtyping import Array

from dse.types import _as_float, _Quantities, quantity, several

Weight = Any  # a float array, converted from a number or array


def optional(unit: str) -> Any:
    """Declare a field that is None for the common value, see `own`."""
    return eqx.field(
        converter=lambda x: None if x is None else _as_float(x), metadata={"unit": unit}, default=None
    )


def own(value: Array | None, otherwise: Array) -> Array:
    """Return a node's own value, or the common one for None."""
    return otherwise if value is None else value


def _names() -> Any:
    return eqx.field(static=True, default=())


class Compute(_Quantities):
    """C_n, instructions in sequence.

    `cpi` and `latency` are set if they differ from the GPU's, as for special functions; `warps` if not all
    resident warps execute the node.
    """

    insts: Weight = quantity("1")
    ilp: Weight = quantity("1", default=1.0)
    cpi: Weight = optional("cycles")
    latency: Weight = optional("cycles")
    warps: Weight = optional("warps")
    uses: tuple[str, ...] = _names()


class Memory(_Quantities):
    """M, one access to global memory; a load with uses has a unique name in the graph."""

    bytes: Weight = quantity("B")  # transferred per warp
    warps: Weight = optional("warps")
    name: str = eqx.field(static=True, default="")
    uses: tuple[str, ...] = _names()


class Scratchpad(_Quantities):
    """S, accesses to shared memory; the cycles include bank conflicts."""

    cycles: Weight = quantity("cycles")
    uses: tuple[str, ...] = _names()


class Barrier(_Quantities):
    """B, one barrier."""

    uses: tuple[str, ...] = _names()


class WfgLoop(_Quantities):
    """A loop: `trips` executions of `body`."""

    trips: Weight = quantity("1")
    body: "tuple[Node, ...]" = several("1", default=())


class WfgBranch(_Quantities):
    """A branch: `then` or `otherwise`, or both in sequence in a divergent warp.

    `taken` and `passed` are the shares of warps with a lane in each (ρ_T, ρ_F); their sum exceeds 1 if warps
    diverge.
    """

    taken: Weight = quantity("1")
    passed: Weight = quantity("1")
    then: "tuple[Node, ...]" = several("1", default=())
    otherwise: "tuple[Node, ...]" = several("1", default=())


Leaf = Compute | Memory | Scratchpad | Barrier
Node = Leaf | WfgLoop | WfgBranch
WorkFlow = tuple[Node, ...]


def leaves(graph: WorkFlow) -> Iterator[Leaf]:
    """Yield all nodes but loops and branches, in program order."""
    for node in graph:
        match node:
            case WfgLoop():
                yield from leaves(node.body)
            case WfgBranch():
                yield from leaves(node.then)
                yield from leaves(node.otherwise)
            case _:
                yield node


def loads(graph: WorkFlow) -> frozenset[str]:
    """Return the names of a graph's loads."""
    return frozenset(node.name for node in leaves(graph) if isinstance(node, Memory) and node.name)


def uses(graph: WorkFlow) -> frozenset[str]:
    """Return the names of the loads that a graph waits for."""
    return frozenset(name for node in leaves(graph) for name in node.uses)
