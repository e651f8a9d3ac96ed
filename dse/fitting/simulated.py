"""The Pipeline simulator as a function that can be fitted: times, and their derivatives by the critical path.

The simulator runs on the host. What goes into it, the parts of an average warp, is a differentiable function
of the GPU; what comes out has exact derivatives by those parts (`dse.simulator.pipeline.with_slopes`). Where
a change of the GPU cuts the warp into other runs, times jump, and a derivative is of one side.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from dse.fitting.launches import Launches
from dse.fitting.parameters import moved
from dse.simulator import pipeline
from dse.simulator.case import idg
from dse.simulator.case.idg import Warp
from dse.types import Launch


def predict(launches: Launches, names: tuple[str, ...], logs: Array) -> Array:
    """As `dse.fitting.launches.log_seconds`, by simulation. Forward and reverse mode; float64."""
    gpu = moved(launches.gpu, names, logs)
    count = len(launches)
    warp = jax.tree.map(lambda x: jnp.broadcast_to(x, (count,)).astype(float), idg.warp(gpu, launches.kernel))
    parts, structure = jax.tree.flatten(warp)
    return jnp.log(_cycles(structure, launches.launch, tuple(parts)) / gpu.clock)


def _cycles(structure: Any, launch: Launch, parts: tuple[Array, ...]) -> Array:
    count = len(parts[0])
    # A callback runs in a thread of its own, where JAX has no float64: each number goes as two of float32.
    shape = jax.ShapeDtypeStruct((2, 1 + len(parts), count), jnp.float32)

    def simulated(launch: Launch, *parts: np.ndarray) -> np.ndarray:
        warp: Warp = jax.tree.unflatten(structure, [np.asarray(x, float) for x in parts])
        fixed = jax.tree.map(lambda x: np.asarray(x, float), launch)
        cycles, slopes = pipeline.with_slopes(warp, fixed)
        found = np.stack([cycles, *jax.tree.leaves(slopes)])
        return np.stack([found, found - found.astype(np.float32)]).astype(np.float32)

    def run(parts: tuple[Array, ...]) -> Array:
        """Cycles, and below them their derivative by each part."""
        return jnp.sum(
            jax.pure_callback(simulated, shape, launch, *parts, vmap_method="sequential").astype(float), 0
        )

    @jax.custom_jvp
    def cycles(*parts: Array) -> Array:
        return run(parts)[0]

    @cycles.defjvp
    def _(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
        found = run(primals)
        return found[0], jnp.sum(found[1:] * jnp.stack(tangents), axis=0)

    return cycles(*parts)
