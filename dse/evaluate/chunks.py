"""Evaluate chunks of a kernel's configurations on all GPUs with all models.

Closed forms are jitted; models on the host get the launches computed here.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from dse.core.precision import in_64_bits
from dse.core.programs import kept
from dse.core.progress import Progress, silent
from dse.hardware import occupancy
from dse.hardware.gpus import column
from dse.kernels.counts import Batch, Counts, KnownBatch, Number
from dse.models import get_all
from dse.models.protocol import CHUNK, Model, arranged, predict
from dse.types import Gpu, Kernel, Launch, PerClass, Resources

RESOURCES = ("threads", "blocks", "registers", "shared_bytes")  # displayed fields of Resources
SIZES = (1_024, 8_192)  # of chunks: few, since models are compiled for each


class Forecast(eqx.Module):
    """Predictions of one model: arrays [G, L] of GPUs and configurations."""

    cycles: Any  # infinite for a launch that cannot run
    seconds: Any
    bottleneck: Any  # index into `terms`; -1 for a launch that cannot run
    terms: tuple[str, ...] = eqx.field(static=True)

    def bottleneck_names(self) -> np.ndarray:
        """The bottleneck in words; empty for a launch that cannot run."""
        return np.array([*self.terms, ""], object)[self.bottleneck]

    def take(self, index: np.ndarray) -> "Forecast":
        """Select configurations by index."""
        return jax.tree.map(lambda x: x[:, index], self)


@dataclass(frozen=True)
class Evaluation:
    """Configurations of one kernel on G GPUs: arrays [G, L]."""

    resources: dict[str, np.ndarray]  # RESOURCES
    warps_per_sm: np.ndarray
    occupancy: np.ndarray
    limiter: np.ndarray  # a code of dse.hardware.occupancy.LIMITERS
    forecasts: dict[str, Forecast]  # by model

    @property
    def possible(self) -> np.ndarray:
        """Whether each launch can run."""
        return self.limiter < len(occupancy.BINDING)

    def limited_by(self) -> np.ndarray:
        """The limiter in words."""
        return np.array(occupancy.LIMITERS, object)[self.limiter]

    def columns(self, model: str, gpu: Any, row: Any) -> dict[str, np.ndarray]:
        """Return the columns of a model's predictions for indices of GPUs and of configurations."""
        forecast = self.forecasts[model]
        return {name: self.resources[name][gpu, row] for name in RESOURCES} | {
            "warps_per_sm": self.warps_per_sm[gpu, row],
            "occupancy": self.occupancy[gpu, row],
            "limited_by": self.limited_by()[gpu, row],
            "possible": self.possible[gpu, row],
            "cycles": forecast.cycles[gpu, row],
            "time_s": forecast.seconds[gpu, row],
            "bottleneck": forecast.bottleneck_names()[gpu, row],
        }

    def take(self, index: np.ndarray) -> "Evaluation":
        """Select configurations by index."""
        return Evaluation(
            {name: x[:, index] for name, x in self.resources.items()},
            self.warps_per_sm[:, index],
            self.occupancy[:, index],
            self.limiter[:, index],
            {name: forecast.take(index) for name, forecast in self.forecasts.items()},
        )


def evaluate(
    kernel: Counts,
    models: Iterable[str | Model],
    gpus: Gpu,
    parameters: Mapping[str, np.ndarray],
    problem: Mapping[str, Number] | None = None,
    progress: Progress = silent,
) -> Evaluation:
    """Predict configurations of a kernel on each GPU with each model.

    `progress` reports on slow steps: counting from source, and simulation.

    **Shapes:** `gpus` fields [G] (`dse.hardware.gpus.stack`), parameters [L]; results [G, L].
    **Precision:** expressions in 64 bits, models in the precision of `gpus`.
    **Raises:** DseError as the kernel's `count`, and for an unknown model.
    """
    count = len(next(iter(parameters.values())))
    if not count:
        raise ValueError("evaluate: no configurations")
    registered = get_all(models)
    counted = kernel.count(parameters, gpus, problem, progress)
    return evaluate_counted(counted.batch, count, kernel.name, registered, gpus, progress)


def evaluate_counted(
    batch: Batch,
    count: int,
    name: str,
    models: Sequence[Model],
    gpus: Gpu,
    progress: Progress = silent,
    sizes: Sequence[int] = SIZES,
) -> Evaluation:
    """Predict `count` configurations with known counts, as `evaluate`. Chunks have one of `sizes`."""
    size = next((size for size in sizes if size >= count), sizes[-1])
    traced = tuple(model for model in models if model.differentiable)
    on_host = tuple(model for model in models if not model.differentiable)
    parts = []
    with in_64_bits():
        gpu_column = column(gpus)
        for start in range(0, count, size):
            rows = min(size, count - start)
            # The last chunk is padded with its last row, so that all have the same shape.
            chunk = batch.take(np.minimum(np.arange(start, start + size), count - 1))
            part = _evaluate(traced, gpu_column, chunk.on(gpu_column), bool(on_host))
            parts.append(jax.tree.map(lambda x, n=rows: np.asarray(x)[:, :n], part))
    whole = jax.tree.map(lambda *x: np.concatenate(x, axis=1), *parts)
    by_model = whole.pop("forecasts")  # jit sorts dictionaries by key
    launches = whole.pop("launches")
    if on_host:
        kernel, launch = launches
        possible = whole["limiter"] < len(occupancy.BINDING)
        for model in on_host:
            with progress(f"Simulating {name}", int(possible.sum())) as advance:
                by_model[model.name] = _on_host(model, gpus, kernel, launch, possible, advance)
    return Evaluation(forecasts={model.name: by_model[model.name] for model in models}, **whole)


def _evaluate(models: tuple[Model, ...], gpus: Gpu, chunk: KnownBatch, launches: bool) -> dict[str, Any]:
    """Evaluate all closed forms on one chunk; with `launches` also return the inputs of models on the host.

    Launches and each model are compiled separately, so that any combination of models reuses them.
    """
    launch, possible, facts = place_launches(gpus, chunk.resources, chunk.kernel.work)
    return facts | {
        "launches": (chunk.kernel, launch) if launches else (),
        "forecasts": {
            model.name: forecast(model, gpus, arranged(model, chunk.kernel), launch, possible)
            for model in models
        },
    }


@kept
def place_launches(gpus: Gpu, resources: Resources, work: PerClass) -> tuple[Launch, Array, dict[str, Any]]:
    """Return launches, which can run, and the other fields of `Evaluation` but forecasts: [G, L]."""
    launch, limiter = occupancy.launch(gpus, resources, work)
    possible = occupancy.possible(limiter)
    facts = {
        "resources": {name: getattr(resources, name) for name in RESOURCES},
        "warps_per_sm": jnp.where(possible, launch.warps_per_sm, 0.0),
        "occupancy": jnp.where(possible, occupancy.occupancy(gpus.limits, launch), 0.0),
        "limiter": limiter,
    }
    return jax.tree.map(lambda x: jnp.broadcast_to(x, limiter.shape), launch), possible, facts


@kept
def forecast(
    model: Model, gpus: Gpu, kernel: Kernel, launch: Launch, possible: Array | np.ndarray
) -> Forecast:
    """Evaluate one closed form."""
    prediction = predict(model, gpus, kernel, launch)
    return Forecast(
        jnp.where(possible, prediction.cycles, jnp.inf),
        jnp.where(possible, prediction.seconds, jnp.inf),
        jnp.where(possible, prediction.bottleneck, -1),
        tuple(prediction.terms),
    )


def _on_host(
    model: Model,
    gpus: Gpu,
    kernel: Kernel,
    launch: Launch,
    possible: np.ndarray,
    advance: Callable[[int], None],
) -> Forecast:
    """Evaluate a model on the host for launchable configurations, GPU by GPU; arrays [G, L]."""
    dtype = np.asarray(gpus.clock).dtype
    cycles, seconds = (np.full(possible.shape, np.inf, dtype) for _ in range(2))
    bottleneck, terms = np.full(possible.shape, -1, np.int32), ()
    for g, runs in enumerate(possible):
        if not runs.any():
            continue
        gpu = jax.tree.map(lambda x, g=g: x[g], gpus)
        rows = jax.tree.map(lambda x, g=g, runs=runs: x[g, runs], (kernel, launch))
        prediction = predict(model, gpu, *rows, advance)
        cycles[g, runs], seconds[g, runs] = prediction.cycles, prediction.seconds
        terms = tuple(prediction.terms)
        bottleneck[g, runs] = np.argmax(np.stack([np.asarray(x) for x in prediction.terms.values()]), axis=0)
    return Forecast(cycles, seconds, bottleneck, terms)


def chunks(parameters: Mapping[str, np.ndarray], size: int = CHUNK) -> Iterator[dict[str, np.ndarray]]:
    """Yield the configurations, `size` at a time."""
    count = len(next(iter(parameters.values())))
    for start in range(0, count, size):
        yield {name: values[start : start + size] for name, values in parameters.items()}
