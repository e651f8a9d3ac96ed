"""Branches on thread indices: the share of the warps that goes either way, by looking at every lane, and the
paper's closed forms for `A t + B <= α i + β` beside it.

The closed forms bound the search, and it continues from there: Eq. 12 takes the steps from I_0 on
as free of divergence. What that loses: I counts steps 0..I, so I + 1 of them; with I below I_0 the weight is
still that of all steps up to I_0, though the first ones have fewer warps (for `t <= i` and 256 threads, the
weight of 16 steps is taken as 0.56 where it is 1/8); and I_0 is no whole number in general.

Known error: for `(A t + B) mod (α i + β) == 0` the paper says that beyond I_0 all threads pass. None does but
one with A t + B = 0, since the modulus is then larger than all others: `after` says what share of the warps
continues.
Source: Baghsorkhi et al., PPoPP 2010, Sec. 3.1, Eqs. 9 to 12.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp

from dse.core.space.expression import Expression
from dse.hardware.lanes import threads


class Weights(NamedTuple):
    """Execution weights of a branch, [...]: shares of a block's warps, means over all steps."""

    taken: Any  # with a lane where the condition holds (ρ_T)
    passed: Any  # with one where it does not (ρ_F)
    split: Any  # with both


def weights(
    condition: Expression,
    block: tuple[int, int, int],
    values: Mapping[str, Any],
    steps: Mapping[str, Any] | None = None,
    xp: Any = jnp,
) -> Weights:
    """Evaluate a condition in each warp, and in each step of loops.

    **Shapes:** `values` [...], any; `steps` has the values of loop indices, each a row [n] of its own length,
    all combinations of which are taken. Results [...].
    """
    steps = dict(steps or {})
    rank = max((xp.ndim(value) for value in values.values()), default=0)
    count = -(-block[0] * block[1] * block[2] // 32)
    lanes, mask = threads(block, xp.arange(count), xp)
    inner = len(steps) + 2  # steps, warps, lanes

    def behind(value: Any) -> Any:
        """A value of the outside."""
        value = xp.asarray(value)
        return value.reshape((1,) * (rank - value.ndim) + value.shape + (1,) * inner)

    names = {name: behind(value) for name, value in values.items()}
    for number, (name, value) in enumerate(steps.items()):
        shape = [1] * (rank + inner)
        shape[rank + number] = -1
        names[name] = xp.asarray(value).reshape(shape)
    names |= {name: value.reshape((1,) * (rank + len(steps)) + value.shape) for name, value in lanes.items()}
    mask = mask.reshape((1,) * (rank + len(steps)) + mask.shape)
    holds = condition.holds(names, xp)
    taken, passed = (holds & mask).any(-1), (~holds & mask).any(-1)
    sizes = tuple(len(value) for value in steps.values())
    over = tuple(range(rank, rank + len(steps) + 1))

    def share(which: Any) -> Any:
        which = xp.broadcast_to(which, (*which.shape[:rank], *sizes, count))
        return xp.asarray(which, float).mean(over)

    return Weights(share(taken), share(passed), share(taken & passed))


def comparison_steps(a: Any, b: Any, alpha: Any, beta: Any, threads: Any, last: Any) -> Any:
    """The steps to evaluate `a t + b <= alpha i + beta` for all threads and i from 0 to `last`.

    **Source:** Eq. 10, its right side.
    """
    return (2 * threads * (alpha * last - b + beta + alpha) - a * threads * (threads - 1)) / (2 * alpha)


def comparison_bound(a: Any, alpha: Any, threads: Any) -> Any:
    """The most such steps there are before all threads pass (Eq. 11); twice that for two rounds."""
    return (a * threads * threads - a * threads + 2 * alpha * threads) / (2 * alpha)


def modulo_steps(a: Any, b: Any, threads: Any) -> Any:
    """The most steps to evaluate `(a t + b) mod (alpha i + beta) == 0`."""
    return a * threads * (threads - 1) / 4 + b * threads / 2


def all_alike_from(a: Any, b: Any, alpha: Any, beta: Any, threads: Any) -> Any:
    """The step I_0 from which on all threads decide alike."""
    return (a * (threads - 1) + b - beta) / alpha


def overall_weight(before: Any, alike_from: Any, last: Any, after: Any = 1.0, xp: Any = jnp) -> Any:
    """The weight over all steps (Eq. 12) from that of those before I_0; `after` is 1 in the paper."""
    return (after * xp.maximum(last - alike_from, 0.0) + before * alike_from) / xp.maximum(alike_from, last)
