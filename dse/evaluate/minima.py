"""The least time and the sum of times of each row of kernels × launches: the loop that does all the work."""

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

# Without fast math reductions are no vector instructions. To look for NaN takes a third longer.
COMPILER_OPTIONS = WIDE | {
    "xla_cpu_enable_fast_math": True,
    "xla_cpu_fast_math_honor_nans": False,
}


@dataclass(frozen=True)
class LoopSizes:
    """Division of a call's work: a step takes `loops` times `pieces` pieces, each with `rows` kernels."""

    outer: tuple[int, ...]  # of the grid, where GPUs and launches change
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
    """Cut the work for `rows` kernels and pieces of `length` launches, of which there are `most` at most."""
    most = cuts.results if most is None else most
    blocks = -(-rows // max(1, cuts.loop // length))
    block = -(-rows // blocks)
    pieces = max(1, min(cuts.loop // (block * length), -(-most // 2)))
    # Two loops at least: of one alone the compiler would make none, and compute its kernels' part in it.
    loops = max(2, min(cuts.kernels // (block * pieces), -(-most // pieces)))
    step = loops * pieces
    table = min(cuts.table // length, cuts.results // (blocks * block))
    return LoopSizes(outer, blocks, block, loops, pieces, length, max(1, table // step) * step)


@partial(jax.jit, static_argnames=("models", "cut"), compiler_options=COMPILER_OPTIONS)
def minima_and_sums(
    models: tuple[Model, ...],
    cut: LoopSizes,
    gpus: Gpu,
    kernels: Kernel,
    positions: Array,
    launches: Launch,
    weights: Array,
    steps: Array,
) -> dict[str, tuple[Array, Array]]:
    """Find the least seconds of each row and their weighted sum, [table, blocks * rows] each by model.

    **Shapes:** gpus and kernels [*outer or 1, blocks * rows or 1, length or 1]; positions along the outer
    axes [table]; launches, weights [table, length]. Only the first `steps` steps are done.
    """
    whole = any(x.shape[-1] > 1 for x in jax.tree.leaves((gpus, kernels)))

    def step(i: Array, best: dict[str, tuple[Array, Array]]) -> dict[str, tuple[Array, Array]]:
        piece, block = i // cut.blocks * cut.step, i % cut.blocks
        at = digits(lax.dynamic_slice_in_dim(positions, piece, cut.step), cut.outer)

        def of_rows(x: Array) -> Array:
            """Take [loops, pieces, rows or 1, length or 1]."""
            if x.shape[-2] > 1:
                x = lax.dynamic_slice_in_dim(x, block * cut.rows, cut.rows, axis=-2)
            if prod(x.shape[:-2]) > 1:
                x = x[tuple(j if size > 1 else 0 * j for j, size in zip(at, x.shape, strict=False))]
            shape = x.shape[-2:]
            x = jnp.broadcast_to(x.reshape(-1, *shape), (cut.step, *shape))
            return x.reshape(cut.loops, cut.pieces, *shape)

        def of_launches(x: Array) -> Array:
            """Take [loops, pieces, 1, length]."""
            x = lax.dynamic_slice_in_dim(x, piece, cut.step)
            return x.reshape(cut.loops, cut.pieces, 1, cut.length)

        gpu, kernel = jax.tree.map(of_rows, (gpus, kernels))
        launch, weight = jax.tree.map(of_launches, (launches, weights))
        invariant, per_launch = split(
            partial(_seconds, models, cut), *jax.tree.map(lambda x: x[0], (gpu, kernel, launch))
        )
        fixed = jax.vmap(invariant)(*jax.tree.leaves((gpu, kernel, launch)))
        reduced = lax.map(
            lambda x: [_minimum_and_sum(s, x[1], whole) for s in per_launch(*x[0])], (fixed, weight)
        )

        def put(whole: Array, part: Array) -> Array:
            zero = jnp.zeros_like(block)
            return lax.dynamic_update_slice(
                whole, part.reshape(cut.step, cut.rows), (piece, zero + block * cut.rows)
            )

        return {
            model.name: jax.tree.map(put, best[model.name], new)
            for model, new in zip(models, reduced, strict=True)
        }

    none = jnp.zeros((cut.table, cut.blocks * cut.rows), weights.dtype)
    return lax.fori_loop(0, steps, step, {model.name: (none, none) for model in models})


def _seconds(
    models: Sequence[Model], cut: LoopSizes, gpu: Gpu, kernel: Kernel, launch: Launch
) -> list[Array]:
    full = (cut.pieces, cut.rows, cut.length)
    return [jnp.broadcast_to(seconds(model, gpu, kernel, launch), full) for model in models]


def _minimum_and_sum(seconds: Array, weight: Array, whole: bool) -> tuple[Array, Array]:
    """Reduce each row once with two results: the model is evaluated once for both.

    In `whole` rows a weight of 0 marks what cannot run. Else it marks copies, which change no minimum.
    """
    dtype = seconds.dtype.type
    worst, none = dtype(jnp.finfo(dtype).max), dtype(0)  # with an infinite one the loop is not vectorised
    weighted = seconds * weight
    if whole:
        seconds, weighted = jnp.where(weight > 0, seconds, worst), jnp.where(weight > 0, weighted, none)
    return lax.reduce(
        (seconds, weighted),
        (worst, none),
        lambda a, b: (jnp.minimum(a[0], b[0]), a[1] + b[1]),
        (2,),
    )
