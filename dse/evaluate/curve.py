"""Occupancy roofline: throughput of one configuration against resident warps, by each model."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from dse.core.precision import in_64_bits
from dse.errors import DseError
from dse.evaluate.chunks import SIZES, forecast
from dse.evaluate.rank import rank
from dse.hardware import occupancy
from dse.hardware.gpus import column, stack
from dse.kernels.counts import Counts, Number
from dse.models import DEFAULT, get_all
from dse.models.protocol import Model, arranged
from dse.types import Gpu, Kernel, Launch


def fastest(kernel: Counts, gpu: Gpu, problem: Mapping[str, Number]) -> dict[str, Number]:
    """Return the fastest configuration by the default model.

    **Raises:** DseError if none is valid, or the GPU can launch none.
    """
    ranking = rank(kernel, gpu, (DEFAULT,), problem)
    return {name: values[ranking.order[0]].item() for name, values in ranking.parameters.items()}


def place_launch(
    kernel: Counts, gpu: Gpu, parameters: Mapping[str, Number], problem: Mapping[str, Number]
) -> tuple[Kernel, Launch]:
    """Place one configuration on a GPU: scalars, counts in the GPU's precision.

    **Raises:** DseError if it cannot be launched.
    """
    columns = {name: np.asarray([value]) for name, value in parameters.items()}
    gpus = stack([gpu])
    counted = kernel.count(columns, gpus, problem)
    with in_64_bits():
        known = counted.batch.take(np.zeros(1, int)).on(column(gpus))
        counts, resources = jax.tree.map(lambda x: jax.device_put(x[0, 0]), (known.kernel, known.resources))
        launch, limiter = jax.jit(occupancy.launch)(gpu, resources, counts.work)
    if not occupancy.possible(limiter):
        values = ", ".join(f"{name}={value}" for name, value in parameters.items())
        reason = occupancy.LIMITERS[int(limiter)]
        raise DseError(f"{kernel.name}: launch: found {reason} with {values}, expected one that can run")
    return counts, launch


def curve(kernel: Kernel, gpu: Gpu, launch: Launch, models: Iterable[str | Model]) -> list[dict[str, Any]]:
    """Return rows with `model`, `warps`, `throughput` (warps a cycle of an SM), `instructions`, `time_s`.

    From one resident block up to those of the launch. The busiest SM runs the same number of blocks in total,
    so fewer resident ones take more waves.
    """
    most = int(launch.resident_blocks)
    resident = np.minimum(np.arange(1, SIZES[0] + 1), most)[None, :].astype(launch.waves.dtype)
    blocks = np.asarray(launch.resident_blocks * launch.waves)
    limited = replace(launch, resident_blocks=resident, waves=blocks / resident)
    # The shape of small spaces, so that all share the compiled models.
    kernel, limited = jax.tree.map(
        lambda x: np.broadcast_to(np.asarray(x), resident.shape), (kernel, limited)
    )
    warps = resident[0, :most] * float(launch.warps_per_block)
    total = float(blocks * launch.warps_per_block)
    insts = float(kernel.insts[0, 0])
    rows = []
    for model in get_all(models):
        cycles = _cycles(model, gpu, kernel, limited)[:most].astype(float)
        rows += [
            {
                "model": model.name,
                "warps": int(w),
                "throughput": total / c,
                "instructions": total / c * insts,
                "time_s": c / float(gpu.clock),
            }
            for w, c in zip(warps.tolist(), cycles.tolist(), strict=True)
        ]
    return rows


def _cycles(model: Model, gpu: Gpu, kernel: Kernel, launch: Launch) -> np.ndarray:
    if model.differentiable:
        with in_64_bits():
            possible = np.ones(launch.waves.shape, bool)
            gpus = column(stack([gpu]))
            return np.asarray(forecast(model, gpus, arranged(model, kernel), launch, possible).cycles)[0]
    once, place = np.unique(launch.resident_blocks[0], return_inverse=True)
    rows = jax.tree.map(lambda x: x[0, : len(once)], (kernel, launch))
    return np.asarray(model.predict(gpu, *rows).cycles)[place]
