"""Volkov: either a pipe is full, or too few warps hide the latency of one.

Leaves out: how the two regimes blend (the ridge is a sharp corner: Volkov's contention function was not
available), fill and drain, barriers that hold a block together, schedulers.
Source: Lemeire et al., Sec. 2.2, Eqs. L2 and L3 (Volkov 2016), with the issue limit.
"""

from functools import reduce

import jax.numpy as jnp
from jaxtyping import Array

from dse.memory import access_cpi, access_latency
from dse.models.notation import comp_latencies, waits
from dse.models.roofline import busy_cycles
from dse.types import COMPUTE, Gpu, Kernel, Launch, Prediction

MONOTONE = True


def latency_of_one_warp(gpu: Gpu, kernel: Kernel) -> Array:
    """Λ_app: cycles of one warp that has the SM for itself (Eq. L2).

    Of α instructions with parallelism ILP, α/ILP are waited for (Λ) and the rest overlap (λ).
    """
    comp_waits = comp_latencies(gpu, kernel) / kernel.ilp
    comp_overlaps = sum(getattr(kernel.work, name) * getattr(gpu.cpi, name) for name in COMPUTE) * (
        1.0 - 1.0 / kernel.ilp
    )
    mem_waits = waits(kernel)
    return (
        comp_waits
        + comp_overlaps
        + mem_waits * access_latency(gpu, kernel)
        + (kernel.mem_insts - mem_waits) * access_cpi(gpu, kernel)
        + kernel.work.barrier * gpu.latency.barrier
    )


def predict(gpu: Gpu, kernel: Kernel, launch: Launch) -> Prediction:
    """Cycles of a launch; `ridge` is the number of warps from which on a pipe is full.

    **Shapes:** every field broadcasts. **Units:** cycles of `gpu.clock`.
    **Source:** WPC = min(1 / max_s(α_s λ_s), IL / Σ α_s, ω / Λ_app), Eq. L3.
    """
    latency = latency_of_one_warp(gpu, kernel)  # Λ_app
    busy = busy_cycles(gpu, kernel) | {"issue": kernel.insts / gpu.issue_limit}
    full = reduce(jnp.maximum, busy.values())
    return Prediction.largest(
        gpu.clock,
        launch.warps_per_sm * launch.waves,
        {"latency_of_one_warp": latency, "ridge": latency / full},
        **busy,
        latency=latency / launch.warps_per_sm,
    )
