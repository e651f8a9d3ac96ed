"""The Pipeline simulator between arrays of JAX: launches of one GPU in, cycles and their derivatives out.

The simulator runs on the host. Its input, the parts of an average warp, is a differentiable function of the
GPU; its output has exact derivatives by those parts (`dse.simulator.pipeline.with_slopes`). Where a change of
the GPU changes the runs of the warp, times jump, and derivatives are one-sided.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from dse.core.precision import in_64_bits
from dse.simulator import pipeline
from dse.simulator.case import idg
from dse.simulator.case.idg import Warp
from dse.simulator.pipeline import TERMS, Settings
from dse.types import Gpu, Kernel, Launch, Prediction

average_warp = jax.jit(idg.warp)


def predict(
    gpu: Gpu, kernel: Kernel, launch: Launch, settings: Settings, advance: Callable[[int], None]
) -> Prediction:
    """Cycles of N launches on one GPU; the bottleneck has all of them.

    **Shapes:** GPU fields are scalars, the others broadcast to [N].
    """
    shapes = (np.shape(x) for x in jax.tree.leaves((kernel, launch)))
    count = np.broadcast_shapes((1,), *shapes)[-1]
    # Padded to a power of two, so that few lengths are compiled.
    index = np.minimum(np.arange(1 << (count - 1).bit_length()), count - 1)

    def padded(x: Any) -> np.ndarray:
        return np.broadcast_to(np.asarray(x), (count,))[index]

    with in_64_bits():
        warp = average_warp(gpu, jax.tree.map(padded, kernel))

        def whole(x: Any) -> np.ndarray:
            return np.broadcast_to(np.asarray(x, np.float64), index.shape)[:count]

        warp = jax.tree.map(whole, warp)
        fixed = jax.tree.map(lambda x: np.broadcast_to(np.asarray(x, np.float64), (count,)), launch)
        cycles, bottleneck = pipeline.predict(warp, fixed, settings, advance)
        terms = {name: np.where(bottleneck == i, cycles, 0.0) for i, name in enumerate(TERMS)}
        clock = np.asarray(gpu.clock)
        cycles, terms = jax.tree.map(lambda x: np.asarray(x, clock.dtype), (cycles, terms))
        return Prediction(
            cycles=cycles, seconds=cycles / clock, terms=jax.tree.map(jax.device_put, terms), details={}
        )


def seconds(gpu: Gpu, kernel: Kernel, launch: Launch, settings: Settings) -> Array:
    """Seconds of N launches on one GPU inside `jit`, in forward and reverse mode; float64.

    **Shapes:** launch fields are [N].
    """
    count = len(launch.blocks)
    warp = jax.tree.map(lambda x: jnp.broadcast_to(x, (count,)).astype(float), idg.warp(gpu, kernel))
    parts, structure = jax.tree.flatten(warp)
    return _cycles(structure, launch, settings, tuple(parts)) / gpu.clock


def _cycles(structure: Any, launch: Launch, settings: Settings, parts: tuple[Array, ...]) -> Array:
    count = len(parts[0])
    # A callback runs in another thread, where JAX has no float64: a number is passed as two of float32.
    shape = jax.ShapeDtypeStruct((2, 1 + len(parts), count), jnp.float32)

    def simulated(launch: Launch, *parts: np.ndarray) -> np.ndarray:
        warp: Warp = jax.tree.unflatten(structure, [np.asarray(x, float) for x in parts])
        fixed = jax.tree.map(lambda x: np.asarray(x, float), launch)
        cycles, slopes = pipeline.with_slopes(warp, fixed, settings)
        results = np.stack([cycles, *jax.tree.leaves(slopes)])
        return np.stack([results, results - results.astype(np.float32)]).astype(np.float32)

    def run(parts: tuple[Array, ...]) -> Array:
        """Cycles, then their derivative by each part."""
        return jnp.sum(
            jax.pure_callback(simulated, shape, launch, *parts, vmap_method="sequential").astype(float), 0
        )

    @jax.custom_jvp
    def cycles(*parts: Array) -> Array:
        return run(parts)[0]

    @cycles.defjvp
    def _(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
        results = run(primals)
        return results[0], jnp.sum(results[1:] * jnp.stack(tangents), axis=0)

    return cycles(*parts)
