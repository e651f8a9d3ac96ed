"""GPUMech for a round-robin scheduler, corrected: one instruction of each other warp overlaps with a stall.

After an instruction of the representative warp each other warp issues one, so the probability is 1; and at
most as many instructions overlap as there are stall cycles.
"""

from dataclasses import replace

import jax.numpy as jnp
from jaxtyping import Array

from dse.models import gpumech
from dse.models.gpumech import Intervals
from dse.types import Gpu, Kernel, Launch, Prediction

ABOUT = replace(
    gpumech.ABOUT,
    source="Lemeire et al., Sec. 2.5.1 (GPUMech(RR)*); Huang et al., MICRO 2014, second hand",
    equations={
        "Sec. 2.5.1": "o_i = (W − 1) n_i − min(s_i, W − 1), in place of G11",
    }
    | gpumech.ABOUT.equations,
    use_when="Where warps take turns, of kernels bound by latency or by issue slots (it knows no bandwidth). "
    "It lets one instruction of each other warp overlap with a stall: too slow where warps drift apart.",
    monotone=True,
)


def nonoverlapped(intervals: Intervals, warps: Array, probability: Array, rate: Array) -> Array:
    """Return o_i (Sec. 2.5.1); 0, not negative, for an interval of less than one instruction."""
    overlapped = jnp.minimum(intervals.stalls, warps - 1.0)
    return jnp.maximum((warps - 1.0) * intervals.insts - overlapped, 0.0)


def predict(gpu: Gpu, kernel: Kernel, launch: Launch) -> Prediction:
    """Predict the cycles of a launch: `gpumech.predict` with Sec. 2.5.1."""
    return gpumech.predict(gpu, kernel, launch, nonoverlapped)
