"""A model's times of fixed launches as a function of the GPU's parameters, and how each moves them.

What a kernel does and what fits on an SM does not hang on λ, Λ and clock, so it is worked out once.
"""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from dse.fitting.parameters import moved
from dse.hardware import occupancy
from dse.kernels.description import Description, Number, describe
from dse.models import predictor
from dse.types import Gpu, Kernel, Launch, Resources


class Launches(eqx.Module):
    """L launches on one GPU: arrays [L]."""

    gpu: Gpu
    kernel: Kernel
    launch: Launch
    possible: Bool[Array, " launches"]

    def __len__(self) -> int:
        return len(self.possible)

    def rows(self, chosen: np.ndarray) -> "Launches":
        """Some of them."""
        parts = (self.kernel, self.launch, self.possible)
        with jax.enable_x64(True):
            return Launches(self.gpu, *jax.tree.map(lambda x: jnp.asarray(np.asarray(x)[chosen]), parts))


def described(
    description: Description,
    gpu: Gpu,
    parameters: Mapping[str, np.ndarray],
    problem: Mapping[str, Number] | None = None,
) -> Launches:
    """Launches of a described kernel. Precision: of the GPU's fields; expressions in 64 bits."""
    with jax.enable_x64(True):
        sizes = {name: jnp.asarray(value) for name, value in description.sizes(**(problem or {})).items()}
        columns = {name: jnp.asarray(values) for name, values in parameters.items()}
        return _launches(
            gpu, *_described(description, gpu, columns, sizes), len(next(iter(columns.values())))
        )


@eqx.filter_jit
def _described(description: Description, gpu: Gpu, columns: Any, sizes: Any) -> tuple[Kernel, Resources]:
    return describe(description, columns, sizes, gpu, gpu.clock.dtype)


def counted(gpu: Gpu, kernel: Kernel, resources: Resources) -> Launches:
    """Launches of which the counts are known, as read from source."""
    with jax.enable_x64(True):
        dtype = gpu.clock.dtype
        kernel = jax.tree.map(lambda x: jnp.asarray(x, dtype), kernel)
        return _launches(gpu, kernel, resources, len(np.atleast_1d(resources.threads)))


def _launches(gpu: Gpu, kernel: Kernel, resources: Resources, count: int) -> Launches:
    launch, limiter = occupancy.launch(gpu, resources)
    kernel, launch, possible = jax.tree.map(
        lambda x: jnp.broadcast_to(x, (count,)), (kernel, launch, occupancy.possible(limiter))
    )
    return Launches(gpu, kernel, launch, possible)


def log_seconds(
    launches: Launches, model: str, names: tuple[str, ...], logs: Float[Array, " parameters"]
) -> Float[Array, " launches"]:
    """Logs of predicted times with the GPU's parameters moved; of impossible launches they mean nothing."""
    gpu = moved(launches.gpu, names, logs)
    return jnp.log(predictor(model)(gpu, launches.kernel, launches.launch).seconds)


@eqx.filter_jit
def linearised(
    launches: Launches, model: str, names: tuple[str, ...], logs: Float[Array, " parameters"]
) -> tuple[Float[Array, " launches"], Float[Array, "launches parameters"]]:
    """Logs of the times, and their derivative by each parameter."""

    def predicted(logs: Array) -> tuple[Array, Array]:
        found = log_seconds(launches, model, names, logs)
        return found, found

    slopes, found = jax.jacfwd(predicted, has_aux=True)(logs)
    return found, slopes
