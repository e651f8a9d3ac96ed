"""The least time of each row of kernels × launches: the inner loop of a grid."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from dse.evaluate.hoist import split
from dse.evaluate.launches import WIDE
from dse.evaluate.layout import CUTS, Cuts, digits
from dse.models.protocol import Model, seconds
from dse.types import Gpu, Kernel, Launch

# Without fast math, reductions are not vectorized. Honouring NaN takes a third longer.
COMPILER_OPTIONS = WIDE | {
    "xla_cpu_enable_fast_math": True,
    "xla_cpu_fast_math_honor_nans": False,
}


@dataclass(frozen=True)
class LoopSizes:
    """The work of a call: a step processes `loops` times `pieces` pieces, each with `rows` kernels."""

    outer: tuple[int, ...]  # sizes of the grid's axes along which GPUs and launches change
    blocks: int  # of rows, one step each
    rows: int
    loops: int
    pieces: int
    length: int  # launches of a piece
    table: int  # pieces of a call

    @property
    def step(self) -> int:
        """Pieces of a step."""
        return self.loops * self.pieces

    def steps(self, pieces: int) -> int:
        """Number of steps for `pieces` pieces."""
        return -(-pieces // self.step) * self.blocks


def sizes(
    outer: tuple[int, ...], rows: int, length: int, most: int | None = None, cuts: Cuts = CUTS
) -> LoopSizes:
    """Divide the work for `rows` kernels and at most `most` pieces of `length` launches."""
    most = cuts.results if most is None else most
    blocks = -(-rows // max(1, cuts.loop // length))
    block = -(-rows // blocks)
    pieces = max(1, min(cuts.loop // (block * length), -(-most // 2)))
    # At least two loops: the compiler would remove a single one, and fuse the invariant part into it.
    loops = max(2, min(cuts.kernels // (block * pieces), -(-most // pieces)))
    step = loops * pieces
    table = min(cuts.table // length, cuts.results // (blocks * block))
    return LoopSizes(outer, blocks, block, loops, pieces, length, max(1, table // step) * step)


@partial(jax.jit, static_argnames=("models", "cut"), compiler_options=COMPILER_OPTIONS)
def row_minima(
    models: tuple[Model, ...],
    cut: LoopSizes,
    gpus: Gpu,
    kernels: Kernel,
    positions: Array,
    launches: Launch,
    possible: Array | None,
    steps: Array,
) -> dict[str, Array]:
    """Return the minimum of seconds of each row by model, [table, blocks * rows] each.

    **Shapes:** gpus and kernels [*outer or 1, blocks * rows or 1, length or 1]; positions along the outer
    axes [table]; launches [table, length]; possible too, None if all are. Only the first `steps` steps are
    computed.
    """

    def step(i: Array, best: dict[str, tuple[Array, Array]]) -> dict[str, tuple[Array, Array]]:
        piece, block = i // cut.blocks * cut.step, i % cut.blocks
        at = digits(lax.dynamic_slice_in_dim(positions, piece, cut.step), cut.outer)

        def of_rows(x: Array) -> Array:
            """Select [loops, pieces, rows or 1, length or 1]."""
            if x.shape[-2] > 1:
                x = lax.dynamic_slice_in_dim(x, block * cut.rows, cut.rows, axis=-2)
            if prod(x.shape[:-2]) > 1:
                x = x[tuple(j if size > 1 else 0 * j for j, size in zip(at, x.shape, strict=False))]
            shape = x.shape[-2:]
            x = jnp.broadcast_to(x.reshape(-1, *shape), (cut.step, *shape))
            return x.reshape(cut.loops, cut.pieces, *shape)

        def of_launches(x: Array) -> Array:
            """Select [loops, pieces, 1, length]."""
            x = lax.dynamic_slice_in_dim(x, piece, cut.step)
            return x.reshape(cut.loops, cut.pieces, 1, cut.length)

        gpu, kernel = jax.tree.map(of_rows, (gpus, kernels))
        launch, can_run = jax.tree.map(of_launches, (launches, possible))
        invariant, per_launch = split(
            partial(_seconds, models, cut), *jax.tree.map(lambda x: x[0], (gpu, kernel, launch))
        )
        fixed = jax.vmap(invariant)(*jax.tree.leaves((gpu, kernel, launch)))
        reduced = lax.map(lambda x: [_minimum_and_sum(s, x[1]) for s in per_launch(*x[0])], (fixed, can_run))

        def put(whole: Array, part: Array) -> Array:
            zero = jnp.zeros_like(block)
            return lax.dynamic_update_slice(
                whole, part.reshape(cut.step, cut.rows), (piece, zero + block * cut.rows)
            )

        return {
            model.name: jax.tree.map(put, best[model.name], new)
            for model, new in zip(models, reduced, strict=True)
        }

    none = jnp.zeros((cut.table, cut.blocks * cut.rows), launches.waves.dtype)
    reduced = lax.fori_loop(0, steps, step, {model.name: (none, none) for model in models})
    return {name: minima for name, (minima, _) in reduced.items()}


def _seconds(
    models: Sequence[Model], cut: LoopSizes, gpu: Gpu, kernel: Kernel, launch: Launch
) -> list[Array]:
    full = (cut.pieces, cut.rows, cut.length)
    return [jnp.broadcast_to(seconds(model, gpu, kernel, launch), full) for model in models]


def _minimum_and_sum(seconds: Array, possible: Array | None) -> tuple[Array, Array]:
    """Reduce each row to its minimum and to a sum: XLA does not vectorize a minimum alone."""
    dtype = seconds.dtype.type
    worst = dtype(jnp.finfo(dtype).max)  # infinity would prevent vectorization
    if possible is not None:
        seconds = jnp.where(possible, seconds, worst)
    return lax.reduce(
        (seconds, seconds), (worst, dtype(0)), lambda a, b: (jnp.minimum(a[0], b[0]), a[1] + b[1]), (2,)
    )
