"""Hoist invariant computations: split a function of broadcasting arrays by the sizes of its intermediates.

For a model on kernels × launches, the part that depends on the kernel alone is computed once, where XLA would
fuse it into the loop over all launches.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
from jax.extend import core
from jaxtyping import Array


class Split(NamedTuple):
    """`function(*arguments)` is `per_launch(*invariant(*leaves of the arguments))`, lists of arrays."""

    invariant: Callable[..., list[Array]]  # all arrays smaller than the result
    per_launch: Callable[..., list[Array]]


def split(function: Callable[..., Sequence[Array]], *arguments: Any) -> Split:
    """Split `function` by the sizes of its arrays, for arguments of these shapes.

    Inner jitted functions are inlined. `invariant` may be batched by `jax.vmap`.
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
    passed = [x for x in dict.fromkeys(read) if x not in known]

    def first(*leaves: Array) -> list[Array]:
        values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*closed.consts, *leaves), strict=True))
        return _run(invariant, values, passed)

    def second(*leaves: Array) -> list[Array]:
        return _run(per_launch, dict(zip(passed, leaves, strict=True)), jaxpr.outvars)

    return Split(first, second)


def _run(steps: Sequence[core.JaxprEqn], values: dict[Any, Any], outputs: Iterable[Any]) -> list[Array]:
    """Execute steps; `values` maps the known variables to arrays."""

    def value(x: Any) -> Array:
        return x.val if isinstance(x, core.Literal) else values[x]

    for step in steps:
        settings = step.primitive.get_bind_params(step.params)
        results = step.primitive.bind(*map(value, step.invars), **settings)
        results = results if step.primitive.multiple_results else [results]
        values.update(zip(step.outvars, results, strict=True))
    return [value(x) for x in outputs]


def _size(variable: Any) -> int:
    return variable.aval.size


def _variables(values: Iterable[Any]) -> list[Any]:
    return [x for x in values if not isinstance(x, core.Literal)]


def _needed(jaxpr: core.Jaxpr) -> list[core.JaxprEqn]:
    """The steps with a result that is used."""
    used, steps = set(_variables(jaxpr.outvars)), []
    for step in reversed(jaxpr.eqns):
        if not used.isdisjoint(step.outvars):
            steps.append(step)
            used.update(_variables(step.invars))
    return steps[::-1]
