"""GPUMech for a greedy-then-oldest scheduler: other warps issue into a stall until it is full.

With an issue probability of 1 in every interval and equal stalls it equals Volkov's model without latency of
computation.
Known errors: Eqs. G15 and G16 are printed with min and max exchanged (corrected here). Where p s_i is below 1
the probability drops instructions, so that IPC can exceed 1: a kernel without stalls takes as long as one
warp. With unequal stalls it is below Volkov around the ridge: each interval is filled separately.
"""

from dataclasses import replace

import jax.numpy as jnp
from jaxtyping import Array

from dse.hardware.memory import safe_divide
from dse.models import gpumech
from dse.models.gpumech import Intervals
from dse.types import Gpu, Kernel, Launch, Prediction

ABOUT = replace(
    gpumech.ABOUT,
    equations={
        "G9": "p = Σ n_i / Σ (n_i / r + s_i)",
        "G15": "p_i = min(1, p s_i)",
        "G12, G14": "instructions issued in a stall: p_i (W − 1) mean(n)",
        "G16": "o_i = max(0, p_i (W − 1) mean(n) − r s_i)",
    }
    | gpumech.ABOUT.equations,
    use_when="For a greedy scheduler, of kernels that wait for memory and do not fill it (it knows no "
    "bandwidth); not of kernels that hardly stall.",
)


def nonoverlapped(intervals: Intervals, warps: Array, probability: Array, rate: Array) -> Array:
    """Return o_i (Eqs. G12, G14 to G16)."""
    in_stall = jnp.minimum(1.0, probability * intervals.stalls)
    number = jnp.sum(intervals.repeats, -1, keepdims=True)
    mean = safe_divide(jnp.sum(intervals.repeats * intervals.insts, -1, keepdims=True), number)
    return jnp.maximum(0.0, in_stall * (warps - 1.0) * mean - rate * intervals.stalls)


def predict(gpu: Gpu, kernel: Kernel, launch: Launch) -> Prediction:
    """Predict the cycles of a launch: `gpumech.predict` with Eqs. G12 and G14 to G16."""
    return gpumech.predict(gpu, kernel, launch, nonoverlapped)
