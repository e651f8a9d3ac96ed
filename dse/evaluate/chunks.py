"""One chunk of a kernel's configurations, on all GPUs, by all closed forms, in one jitted function.

The same function works out what the simulator needs, which then runs on the host. Counts come
from a description, or are given.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from dse.hardware import occupancy
from dse.kernels.description import Description, Number, describe
from dse.models import SIMULATED, predictor
from dse.progress import Progress, silent
from dse.simulator import pipeline
from dse.simulator.case import idg
from dse.types import Gpu, Kernel, Launch, Resources

CHUNK = 65_536  # configurations at a time: larger ones leave the cache
SMALLEST = 1_024


@dataclass(frozen=True)
class Forecast:
    """What one model says of each configuration on each GPU: arrays [G, L]."""

    cycles: np.ndarray  # infinite for a launch that cannot run
    seconds: np.ndarray
    bottleneck: np.ndarray  # index into `terms`; -1 for a launch that cannot run
    terms: tuple[str, ...]

    def bottleneck_names(self) -> np.ndarray:
        """The bottleneck in words; empty for a launch that cannot run."""
        return np.array([*self.terms, ""], object)[self.bottleneck]


@dataclass(frozen=True)
class Evaluation:
    """Configurations of one kernel on G GPUs: arrays [G, L]."""

    resources: dict[str, np.ndarray]  # threads, blocks, registers, shared_bytes
    warps_per_sm: np.ndarray
    occupancy: np.ndarray
    limiter: np.ndarray  # a code of dse.hardware.occupancy.LIMITERS
    forecasts: dict[str, Forecast]  # by model

    @property
    def possible(self) -> np.ndarray:
        """Which launches can run at all."""
        return self.limiter < len(occupancy.BINDING)

    def limited_by(self) -> np.ndarray:
        """The limiter in words."""
        return np.array(occupancy.LIMITERS, object)[self.limiter]


@eqx.filter_jit
def _evaluate(
    description: Description,
    models: tuple[str, ...],
    gpus: Gpu,
    parameters: Mapping[str, Array],
    problem: Mapping[str, Array],
) -> dict[str, Any]:
    kernel, resources = describe(description, parameters, problem, gpus, gpus.clock.dtype)
    shape = jnp.broadcast_shapes(*(jnp.shape(x) for x in (*parameters.values(), gpus.clock)))
    return _forecasts(models, gpus, kernel, resources, shape)


def _forecasts(
    models: tuple[str, ...], gpus: Gpu, kernel: Kernel, resources: Resources, shape: tuple[int, ...]
) -> dict[str, Any]:
    launch, limiter = occupancy.launch(gpus, resources)
    possible = occupancy.possible(limiter)

    def full(x: Array) -> Array:
        return jnp.broadcast_to(x, shape)

    forecasts = {}
    for name in models:
        if name in SIMULATED:
            continue
        prediction = predictor(name)(gpus, kernel, launch)
        forecasts[name] = {
            "cycles": full(jnp.where(possible, prediction.cycles, jnp.inf)),
            "seconds": full(jnp.where(possible, prediction.seconds, jnp.inf)),
            "bottleneck": full(jnp.where(possible, prediction.bottleneck, -1)),
            "terms": tuple(prediction.terms),  # static: filter_jit hands strings through
        }
    simulated = jax.tree.map(full, (idg.warp(gpus, kernel), launch)) if set(models) & set(SIMULATED) else ()
    return {
        "simulated": simulated,
        "resources": {name: full(getattr(resources, name)) for name in Resources.__dataclass_fields__},
        "warps_per_sm": full(jnp.where(possible, launch.warps_per_sm, 0.0)),
        "occupancy": full(jnp.where(possible, occupancy.occupancy(gpus.limits, launch), 0.0)),
        "limiter": full(limiter),
        "forecasts": forecasts,
    }


def evaluate(
    description: Description,
    models: Sequence[str],
    gpus: Gpu,
    parameters: Mapping[str, np.ndarray],
    problem: Mapping[str, Number] | None = None,
    settings: pipeline.Settings | None = None,
    progress: Progress = silent,
) -> Evaluation:
    """What `models` say of the given configurations of a described kernel.

    `settings` are those of what is simulated, and `progress` is opened for it.

    **Shapes:** `gpus` fields [G] (`dse.gpus.read.stack`), parameters [L]; results [G, L].
    **Precision:** expressions in 64 bits, models in the precision of `gpus`.
    Chunks of one fixed shape serve any L with one compilation.
    """
    sizes = description.sizes(**(problem or {}))
    count = len(next(iter(parameters.values())))
    column = jax.tree.map(lambda x: x[:, None], gpus)
    with jax.enable_x64(True):
        scalars = {name: jnp.asarray(value) for name, value in sizes.items()}

    def chunk(index: np.ndarray) -> dict[str, Any]:
        block = {name: jnp.asarray(values[index][None, :]) for name, values in parameters.items()}
        return _evaluate(description, tuple(models), column, block, scalars)

    return _in_chunks(chunk, count, description.name, models, gpus, settings, progress)


_evaluate_counted = eqx.filter_jit(_forecasts)


def evaluate_counted(
    name: str,
    models: Sequence[str],
    gpu: Gpu,
    kernel: Kernel,
    resources: Resources,
    settings: pipeline.Settings | None = None,
    progress: Progress = silent,
) -> Evaluation:
    """What `models` say of launches whose counts are known already, on the GPU that they were counted for.

    **Shapes:** GPU fields are scalars, those of the kernel and its resources [L]; results [1, L].
    **Precision:** of the GPU.
    """
    gpus = jax.tree.map(lambda x: x[None], gpu)
    column = jax.tree.map(lambda x: x[:, None], gpus)
    dtype, count = np.asarray(gpu.clock).dtype, len(resources.threads)
    kernel, resources = jax.tree.map(np.asarray, (kernel, resources))

    def chunk(index: np.ndarray) -> dict[str, Any]:
        shape = (1, len(index))
        counts = jax.tree.map(lambda x: np.broadcast_to(x, (count,))[index][None].astype(dtype), kernel)
        asked = jax.tree.map(lambda x: np.broadcast_to(x, (count,))[index][None], resources)
        return _evaluate_counted(tuple(models), column, counts, asked, shape)

    return _in_chunks(chunk, count, name, models, gpus, settings, progress)


def _in_chunks(
    chunk: Callable[[np.ndarray], dict[str, Any]],
    count: int,
    name: str,
    models: Sequence[str],
    gpus: Gpu,
    settings: pipeline.Settings | None,
    progress: Progress,
) -> Evaluation:
    """`chunk` of the numbers of `count` configurations, so many at a time that few shapes are compiled."""
    if not count:
        raise ValueError("evaluate: no configurations")
    size = min(CHUNK, max(SMALLEST, 1 << (count - 1).bit_length()))
    parts = []
    with jax.enable_x64(True):
        for start in range(0, count, size):
            rows = min(size, count - start)
            # The last chunk is padded with its last row, so that all have one shape.
            part = chunk(np.minimum(np.arange(start, start + size), count - 1))
            parts.append(
                jax.tree.map(lambda x, n=rows: x if isinstance(x, str) else np.asarray(x)[:, :n], part)
            )
    whole = jax.tree.map(lambda *x: x[0] if isinstance(x[0], str) else np.concatenate(x, axis=1), *parts)
    by_model = whole.pop("forecasts")  # jit hands dictionaries back in the order of their keys
    if simulated := whole.pop("simulated"):
        possible = whole["limiter"] < len(occupancy.BINDING)
        with progress(f"Simulating {name}", int(possible.sum())) as advance:
            warp, launch = simulated
            by_model["pipeline"] = _simulate(gpus, warp, launch, possible, settings, advance)
    return Evaluation(forecasts={name: Forecast(**by_model[name]) for name in models}, **whole)


def _simulate(
    gpus: Gpu,
    warp: idg.Warp,
    launch: Launch,
    possible: np.ndarray,
    settings: pipeline.Settings | None,
    advance: Callable[[int], None],
) -> dict[str, Any]:
    """A forecast of what can run at all; arrays [G, L]."""
    dtype = np.asarray(gpus.clock).dtype
    warp, launch = jax.tree.map(lambda x: x[possible].astype(np.float64), (warp, launch))
    found, bottlenecks = pipeline.predict(warp, launch, settings, advance)
    cycles, bottleneck = np.full(possible.shape, np.inf, dtype), np.full(possible.shape, -1, np.int32)
    cycles[possible], bottleneck[possible] = found, bottlenecks
    seconds = cycles / np.asarray(gpus.clock)[:, None]
    return {"cycles": cycles, "seconds": seconds, "bottleneck": bottleneck, "terms": pipeline.TERMS}


def chunks(parameters: Mapping[str, np.ndarray], size: int = CHUNK) -> Iterator[dict[str, np.ndarray]]:
    """The configurations, `size` at a time."""
    count = len(next(iter(parameters.values())))
    for start in range(0, count, size):
        yield {name: values[start : start + size] for name, values in parameters.items()}
