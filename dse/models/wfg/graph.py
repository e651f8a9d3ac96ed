"""The work flow graph (WFG): what an average warp does, as blocks of computation, accesses and barriers, with
loops and branches, and which loads are waited for where.

A graph is a tuple of nodes, nested where there are loops and branches. It is a pytree: its shape and the
names of its loads are static and hashable, its weights are arrays of any shape that broadcast, so a jitted
function is compiled once for each structure. A node that lists a load under `uses` waits for it (a
data-dependence arc); all others follow one another (transition arcs).

Source: Baghsorkhi et al., PPoPP 2010, Sec. 2.1.
"""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
from jaxtyping import Array

from dse.types import _as_float, _Quantities, quantity, several

Weight = Any  # a float array, made of a number or of any array


def optional(unit: str) -> Any:
    """Declare a field that is None where what holds elsewhere holds, see `own`."""
    return eqx.field(
        converter=lambda x: None if x is None else _as_float(x), metadata={"unit": unit}, default=None
    )


def own(value: Array | None, otherwise: Array) -> Array:
    """Return a node's own value, or what holds for all that have none."""
    return otherwise if value is None else value


def _names() -> Any:
    return eqx.field(static=True, default=())


class Compute(_Quantities):
    """C_n, instructions that follow one another.

    `cpi` and `latency` are given where they are not the GPU's own, as of special functions; `warps` where
    not all that are resident come here.
    """

    insts: Weight = quantity("1")
    ilp: Weight = quantity("1", default=1.0)
    cpi: Weight = optional("cycles")
    latency: Weight = optional("cycles")
    warps: Weight = optional("warps")
    uses: tuple[str, ...] = _names()


class Memory(_Quantities):
    """M, one access to global memory; a load that is waited for has a name of its own in the graph."""

    bytes: Weight = quantity("B")  # moved for one warp
    warps: Weight = optional("warps")
    name: str = eqx.field(static=True, default="")
    uses: tuple[str, ...] = _names()


class Scratchpad(_Quantities):
    """S, accesses to shared memory; the cycles hold what banks make them wait for one another."""

    cycles: Weight = quantity("cycles")
    uses: tuple[str, ...] = _names()


class Barrier(_Quantities):
    """B, one barrier."""

    uses: tuple[str, ...] = _names()


class WfgLoop(_Quantities):
    """A loop: `body`, `trips` times."""

    trips: Weight = quantity("1")
    body: "tuple[Node, ...]" = several("1", default=())


class WfgBranch(_Quantities):
    """A branch: `then` or `otherwise`, or both one after the other in a warp that splits.

    `taken` and `passed` are the shares of the warps with a lane in either (ρ_T, ρ_F), more than 1 together
    where warps split.
    """

    taken: Weight = quantity("1")
    passed: Weight = quantity("1")
    then: "tuple[Node, ...]" = several("1", default=())
    otherwise: "tuple[Node, ...]" = several("1", default=())


Leaf = Compute | Memory | Scratchpad | Barrier
Node = Leaf | WfgLoop | WfgBranch
WorkFlow = tuple[Node, ...]


def leaves(graph: WorkFlow) -> Iterator[Leaf]:
    """Yield all nodes but loops and branches, in the order of the program."""
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
