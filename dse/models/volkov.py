"""Volkov: either a pipe is saturated, or too few warps hide the latency of a warp.

The ridge is a sharp corner: Volkov's contention function, which rounds it, was not available. Barriers cost
their latency but do not synchronise the warps of a block.
"""

from functools import reduce

import jax.numpy as jnp
from jaxtyping import Array

from dse.hardware.memory import access_cpi, access_latency
from dse.hardware.tensor import tensor_cycles
from dse.models.about import About
from dse.models.notation import comp_latencies, waits
from dse.models.roofline import busy_cycles
from dse.types import COMPUTE, Gpu, Kernel, Launch, Prediction

ABOUT = About(
    source="Lemeire et al., Sec. 2.2 (Volkov 2016), with the issue limit",
    equations={
        "L2": "Λ_app = Σ Λ_i (waited for) + Σ λ_j (overlapping within the warp)",
        "L3": "WPC = min(1 / max_s (α_s λ_s), IL / Σ α_s, ω / Λ_app)",
    },
    inputs=(
        "λ and Λ of each pipe",
        "work of a warp for each pipe",
        "instruction-level and memory-level parallelism",
        "issue limit",
        "resident warps",
    ),
    ignores=(
        "how the two regimes blend at the ridge",
        "time to fill and drain the pipes",
        "barriers that hold a block together",
        "work groups, divergent warps, schedulers",
    ),
    use_when="To see whether more occupancy helps: the ridge says how many warps are enough.",
    aspects=frozenset({"ILP", "Λ_comp", "Λ_mem", "more than 2 subsystems", "issue limit"}),
    column="volkov",
    bounded=True,
    monotone=True,
)


def latency_of_one_warp(gpu: Gpu, kernel: Kernel) -> Array:
    """Return Λ_app, the cycles of a single warp on an SM (Eq. L2).

    Of α instructions with parallelism ILP, a warp waits for α/ILP (Λ) and the rest overlap (λ).
    """
    comp_waits = comp_latencies(gpu, kernel) / kernel.ilp
    pipes = sum(getattr(kernel.work, name) * getattr(gpu.cpi, name) for name in COMPUTE)
    comp_overlaps = (pipes + tensor_cycles(gpu, kernel.work)) * (1.0 - 1.0 / kernel.ilp)
    mem_waits = waits(kernel)
    return (
        comp_waits
        + comp_overlaps
        + mem_waits * access_latency(gpu, kernel)
        + (kernel.mem_insts - mem_waits) * access_cpi(gpu, kernel)
        + kernel.work.barrier * gpu.latency.barrier
    )


def predict(gpu: Gpu, kernel: Kernel, launch: Launch) -> Prediction:
    """Predict the cycles of a launch; `ridge` is the number of warps that saturates a pipe.

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
