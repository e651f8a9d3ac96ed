"""A function of arrays that broadcast, split in two: arrays smaller than the result, and the rest.

For a model on kernels × launches, the part that depends on the kernel alone is computed once, and not again
for each row of launches: XLA would fuse it into the loop over all of them.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
from jax.extend import core
from jaxtyping import Array


class Split(NamedTuple):
    """`function(*arguments)` is `per_launch(*invariant(*leaves of the arguments))`, lists of arrays."""

    invariant: Callable[..., list[Array]]  # all arrays that are smaller than the result
    per_launch: Callable[..., list[Array]]


def split(function: Callable[..., Sequence[Array]], *arguments: Any) -> Split:
    """Cut `function` in two by the sizes of its arrays, for arguments of these shapes.

    Functions jitted within it are dissolved. `invariant` may be batched by `jax.vmap`.
    """
    with jax.disable_jit():
        closed = jax.make_jaxpr(function)(*arguments)
    jaxpr = closed.jaxpr
    size = max(_size(x) for x in jaxpr.outvars)
    invariant, per_launch, late, known = [], [], set(), set()
    for step in _needed(jaxpr):
        read = _variables(step.invars)
        if any(_size(x) >= size for x in step.outvars) or not late.isdisjoint(read):
            late.update(step.outvars)
            per_launch.append(step)
        else:
            invariant.append(step)
            if not known.issuperset(read):
                continue
            per_launch.append(step)  # a constant: both compute it
        known.update(step.outvars)
    read = _variables(x for step in per_launch for x in step.invars) + _variables(jaxpr.outvars)
    handed = [x for x in dict.fromkeys(read) if x not in known]

    def first(*leaves: Array) -> list[Array]:
        values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*closed.consts, *leaves), strict=True))
        return _run(invariant, values, handed)

    def second(*leaves: Array) -> list[Array]:
        return _run(per_launch, dict(zip(handed, leaves, strict=True)), jaxpr.outvars)

    return Split(first, second)


def _run(steps: Sequence[core.JaxprEqn], values: dict[Any, Any], wanted: Iterable[Any]) -> list[Array]:
    """Take some steps; `values` are those of the variables known so far."""

    def value(x: Any) -> Array:
        return x.val if isinstance(x, core.Literal) else values[x]

    for step in steps:
        settings = step.primitive.get_bind_params(step.params)
        results = step.primitive.bind(*map(value, step.invars), **settings)
        several = results if step.primitive.multiple_results else [results]
        values.update(zip(step.outvars, several, strict=True))
    return [value(x) for x in wanted]


def _size(variable: Any) -> int:
    return variable.aval.size


def _variables(values: Iterable[Any]) -> list[Any]:
    return [x for x in values if not isinstance(x, core.Literal)]


def _needed(jaxpr: core.Jaxpr) -> list[core.JaxprEqn]:
    """The steps of which a result is used."""
    used, steps = set(_variables(jaxpr.outvars)), []
    for step in reversed(jaxpr.eqns):
        if not used.isdisjoint(step.outvars):
            steps.append(step)
            used.update(_variables(step.invars))
    return steps[::-1]
