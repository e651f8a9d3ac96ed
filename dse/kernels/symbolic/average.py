"""The average cost of an access over the warps of a block, for whole spaces of configurations at once.

A few warps are evaluated lane by lane, each in another block and loop iteration, so that rows begin at every
offset in a sector.
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
_STEPS = (1, 3, 5, 7)  # odd: each visits all residues, in a different order


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
    warp access. The L1 looks up 128-byte lines, and delivers 128 bytes a pass to threads.

    `loops` are the loop indices among the names of `index`; `size` is in bytes, a power of two. Compiled for
    each index, and for each size that is a Python number.
    **Shapes:** `names`, sizes of the block and of a warp [...] broadcast or are scalars; so does the result.
    **Edges:** only the first `SAMPLES` warps of a block count. A warp of 64 accesses shared memory in two
    halves.
    """
    used = {name: _column(value) for name, value in names.items() if name in index.names}
    warp_size = jnp.asarray(warp_size, int)
    size = size if isinstance(size, int) else jnp.asarray(size, int)
    count = -(-(block[0] * block[1] * block[2]) // warp_size)
    whole = jnp.where(count < SAMPLES, count * (SAMPLES // jnp.clip(count, 1, SAMPLES)), SAMPLES)

    def summed(lanes: int) -> dict[str, Array]:
        def of_warp(number: Array) -> dict[str, Array]:
            thread_indices, mask = threads(block, number % count, jnp, lanes, warp_size)
            loop_indices = {
                name: _STEPS[i % len(_STEPS)] * (number + i // len(_STEPS)) % SAMPLES
                for i, name in enumerate((*BLOCK_NAMES, *loops))
            }
            element = index(used | thread_indices | loop_indices)
            if element.dtype.kind == "f":
                raise DseError(f"access: found '{index.text}', a fraction, expected whole numbers, as of //")
            element, mask = jnp.broadcast_arrays(jnp.asarray(element, int), mask)
            element, mask = once_computed((element, mask))
            cost = _cost(element, mask, size, shared)
            return {name: jnp.where(number < whole, value, 0) for name, value in cost.items()}

        costs = jax.lax.map(of_warp, jnp.arange(SAMPLES))
        return {name: jnp.asarray(value.sum(0), float) for name, value in costs.items()}

    total = jax.lax.cond(jnp.max(warp_size) > WARP, lambda: summed(2 * WARP), lambda: summed(WARP))
    return {name: value / jnp.asarray(whole, float) for name, value in total.items()}


def _cost(element: Array, mask: Array, size: Any, shared: bool) -> dict[str, Array]:
    address = element * (size if isinstance(size, int) else _column(size))
    if not shared:
        sectors, lines = sectors_and_lines(address, mask)
        return {"sectors": sectors, "passes": jnp.maximum(lines, -(-mask.sum(-1) * size // LINE))}
    halves = (*element.shape[:-1], -1, WARP)
    size = size if isinstance(size, int) or not size.ndim else size[..., None]
    return {"passes": passes(address.reshape(halves), mask.reshape(halves), size).sum(-1)}


def _column(value: Any) -> Array:
    value = jnp.asarray(value)
    return value[..., None] if value.ndim else value
