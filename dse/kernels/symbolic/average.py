"""The average cost of an access over the warps of a block, for whole spaces of configurations at once.

A few warps are looked at, lane by lane, each in another block and another trip of the loops around the
access, so that rows which begin anywhere in a sector do so here too.
"""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from dse.core.space.expression import Expression
from dse.errors import DseError
from dse.hardware.banks import passes
from dse.hardware.coalescing import LINE, sectors_and_lines
from dse.hardware.lanes import WARP, once_computed, threads
from dse.kernels.symbolic.subscript import BLOCK_NAMES

SAMPLES = 8  # warps: as many as there are 4-byte elements in a sector
_STEPS = (1, 3, 5, 7)  # odd: each goes through all residues, in an order of its own


@eqx.filter_jit
def average_access(
    index: Expression,
    loops: tuple[str, ...],
    names: Mapping[str, Any],
    block: tuple[Any, Any, Any],
    warp_size: Any,
    size: Any,
    shared: bool,
) -> dict[str, Array]:
    """Count `passes` through the banks of shared memory, or `sectors` and `passes` of global memory, of one
    access of a warp. The L1 looks up 128-byte lines, and hands each thread its bytes, 128 a pass.

    `loops` are the indices among the names of `index` that run; `size` is in bytes, a power of two. Compiled
    for each index, and for each size that is a Python number.
    **Shapes:** `names`, sizes of the block and of a warp [...] broadcast or are scalars; so does the result.
    **Edges:** of a block with more than `SAMPLES` warps, the first that many count. A warp of 64 passes the
    banks of shared memory in two halves.
    """
    asked = {name: _column(value) for name, value in names.items() if name in index.names}
    warp_size = jnp.asarray(warp_size, int)
    size = size if isinstance(size, int) else jnp.asarray(size, int)
    count = -(-(block[0] * block[1] * block[2]) // warp_size)
    whole = jnp.where(count < SAMPLES, count * (SAMPLES // jnp.clip(count, 1, SAMPLES)), SAMPLES)

    def looked_at(lanes: int) -> dict[str, Array]:
        def one(number: Array) -> dict[str, Array]:
            places, mask = threads(block, number % count, jnp, lanes, warp_size)
            running = {
                name: _STEPS[place % len(_STEPS)] * (number + place // len(_STEPS)) % SAMPLES
                for place, name in enumerate((*BLOCK_NAMES, *loops))
            }
            at = index(asked | places | running)
            if at.dtype.kind == "f":
                raise DseError(f"access: found '{index.text}', a fraction, expected whole numbers, as of //")
            at, mask = jnp.broadcast_arrays(jnp.asarray(at, int), mask)
            at, mask = once_computed((at, mask))
            cost = _cost(at, mask, size, shared)
            return {name: jnp.where(number < whole, value, 0) for name, value in cost.items()}

        costs = jax.lax.map(one, jnp.arange(SAMPLES))
        return {name: jnp.asarray(value.sum(0), float) for name, value in costs.items()}

    total = jax.lax.cond(jnp.max(warp_size) > WARP, lambda: looked_at(2 * WARP), lambda: looked_at(WARP))
    return {name: value / jnp.asarray(whole, float) for name, value in total.items()}


def _cost(at: Array, mask: Array, size: Any, shared: bool) -> dict[str, Array]:
    address = at * (size if isinstance(size, int) else _column(size))
    if not shared:
        sectors, lines = sectors_and_lines(address, mask)
        return {"sectors": sectors, "passes": jnp.maximum(lines, -(-mask.sum(-1) * size // LINE))}
    halves = (*at.shape[:-1], -1, WARP)
    size = size if isinstance(size, int) or not size.ndim else size[..., None]
    return {"passes": passes(address.reshape(halves), mask.reshape(halves), size).sum(-1)}


def _column(value: Any) -> Array:
    value = jnp.asarray(value)
    return value[..., None] if value.ndim else value
