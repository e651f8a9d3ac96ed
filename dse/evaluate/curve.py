"""Throughput of one configuration against the warps resident on an SM: each model's occupancy roofline."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dse.errors import DseError
from dse.evaluate.rank import rank
from dse.hardware import occupancy
from dse.kernels.description import Description, Number, describe
from dse.models import DEFAULT, SIMULATED, predictor
from dse.simulator import pipeline
from dse.simulator.case import idg
from dse.types import Gpu, Kernel, Launch


def fastest(description: Description, gpu: Gpu, problem: Mapping[str, Number]) -> dict[str, Number]:
    """The configuration that the default model puts first.

    **Raises:** DseError where the space holds no valid one, or none that the GPU can launch.
    """
    ranking = rank(description, gpu, (DEFAULT,), problem)
    return {name: values[ranking.order[0]].item() for name, values in ranking.parameters.items()}


def laid_out(
    description: Description, gpu: Gpu, parameters: Mapping[str, Number], problem: Mapping[str, Number]
) -> tuple[Kernel, Launch]:
    """One configuration on a GPU: scalars, counts in the GPU's precision.

    **Raises:** DseError where it cannot be launched.
    """
    with jax.enable_x64(True):
        values = {name: jnp.asarray(value) for name, value in {**parameters, **problem}.items()}
        own = {name: values[name] for name in parameters}
        sizes = {name: values[name] for name in problem}
        kernel, resources = describe(description, own, sizes, gpu, gpu.clock.dtype)
        launch, limiter = occupancy.launch(gpu, resources)
    if not occupancy.possible(limiter):
        found = ", ".join(f"{name}={value}" for name, value in parameters.items())
        why = occupancy.LIMITERS[int(limiter)]
        raise DseError(f"{description.name}: launch: found {why} with {found}, expected one that can run")
    return kernel, launch


def curve(
    kernel: Kernel,
    gpu: Gpu,
    launch: Launch,
    models: Sequence[str],
    settings: pipeline.Settings | None = None,
) -> list[dict[str, Any]]:
    """Rows with `model`, `warps`, `throughput` (warps a cycle of an SM), `instructions` (a cycle), `seconds`.

    From one resident block up to as many as the launch has; the blocks that the busiest SM runs in all stay
    the same, so fewer of them at a time take more rounds.
    """
    most = int(launch.resident_blocks)
    resident = jnp.arange(1, most + 1).astype(launch.waves.dtype)
    blocks = launch.resident_blocks * launch.waves
    limited = replace(launch, resident_blocks=resident, waves=blocks / resident)
    warps = np.asarray(limited.warps_per_sm, float)
    total = float(blocks * launch.warps_per_block)
    rows = []
    for name in models:
        if name in SIMULATED:
            warp, each = jax.tree.map(
                lambda x: np.broadcast_to(np.asarray(x, np.float64), (most,)),
                (idg.warp(gpu, kernel), limited),
            )
            cycles = pipeline.predict(warp, each, settings)[0]
        else:
            cycles = np.broadcast_to(predictor(name)(gpu, kernel, limited).cycles, (most,)).astype(float)
        rows += [
            {
                "model": name,
                "warps": int(w),
                "throughput": total / c,
                "instructions": total / c * float(kernel.insts),
                "seconds": c / float(gpu.clock),
            }
            for w, c in zip(warps.tolist(), cycles.tolist(), strict=True)
        ]
    return rows
