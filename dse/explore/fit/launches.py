"""A model's times of fixed launches as a function of the GPU's parameters, with derivatives.

A kernel's work and its occupancy do not depend on λ, Λ and clock, so they are computed once.
"""

from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from dse.core.precision import in_64_bits
from dse.core.programs import kept
from dse.core.progress import Progress, silent
from dse.explore.fit.parameters import moved
from dse.hardware import occupancy
from dse.hardware.gpus import column, stack
from dse.kernels.counts import Counts, KnownBatch, Number
from dse.models import get
from dse.models.protocol import Model, seconds
from dse.types import Gpu, Kernel, Launch


class Launches(eqx.Module):
    """L launches on one GPU: arrays [L]."""

    gpu: Gpu
    kernel: Kernel
    launch: Launch
    possible: Bool[Array, " launches"]
    runs: Float[Array, " launches"]  # probability to run; estimated kernels may fail

    def __len__(self) -> int:
        return len(self.possible)

    def rows(self, index: np.ndarray) -> "Launches":
        """Select some of them."""
        parts = (self.kernel, self.launch, self.possible, self.runs)
        with in_64_bits():
            return Launches(self.gpu, *jax.tree.map(lambda x: jax.device_put(np.asarray(x)[index]), parts))


def of_kernel(
    kernel: Counts,
    gpu: Gpu,
    parameters: Mapping[str, np.ndarray],
    problem: Mapping[str, Number] | None = None,
    progress: Progress = silent,
) -> Launches:
    """Convert a kernel's configurations to launches; a configuration without counts is impossible.

    **Shapes:** GPU fields are scalars, parameters [L]. **Precision:** of the GPU's fields.
    """
    count = len(next(iter(parameters.values())))
    gpus = stack([gpu])
    counted = kernel.count(parameters, gpus, problem, progress)
    with in_64_bits():
        known = counted.batch.take(np.arange(count)).on(column(gpus))
        launch, possible, counts = _laid_out(known, gpu)
        failed = np.isin(np.arange(count), list(counted.failures))
        runs = jnp.ones(count) if counted.runs is None else jnp.asarray(counted.runs, float)
        return Launches(gpu, counts, launch, jnp.asarray(np.asarray(possible) & ~failed, bool), runs)


@kept
def _laid_out(known: KnownBatch, gpu: Gpu) -> tuple[Launch, Array, Kernel]:
    """Convert each configuration to a launch on the one GPU, [L]."""
    kernel, resources = jax.tree.map(lambda x: x[0], (known.kernel, known.resources))
    launch, limiter = occupancy.launch(gpu, resources, kernel.work)
    whole = (launch, occupancy.possible(limiter), kernel)
    return jax.tree.map(lambda x: jnp.broadcast_to(x, resources.threads.shape), whole)


def log_seconds(
    launches: Launches, model: str | Model, names: tuple[str, ...], logs: Float[Array, " parameters"]
) -> Float[Array, " launches"]:
    """Predict logs of times with the GPU's parameters moved; those of impossible launches are undefined."""
    gpu = moved(launches.gpu, names, logs)
    return jnp.log(seconds(get(model), gpu, launches.kernel, launches.launch))


compiled_log_seconds = kept(log_seconds)  # outside `jit`: within it, the simulator is not nested in another


@kept
def linearised(
    launches: Launches, model: str | Model, names: tuple[str, ...], logs: Float[Array, " parameters"]
) -> tuple[Float[Array, " launches"], Float[Array, "launches parameters"]]:
    """Predict logs of times, and their derivatives by each parameter."""

    def predicted(logs: Array) -> tuple[Array, Array]:
        times = log_seconds(launches, model, names, logs)
        return times, times

    slopes, times = jax.jacfwd(predicted, has_aux=True)(logs)
    return times, slopes
