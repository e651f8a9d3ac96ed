"""GPUMech for a round-robin scheduler, as published.

Instructions of another warp overlap with an interval, except those that are issued after an instruction of
the interval, with the issue probability of a single warp.
Known error: the probability should be 1, as in the paper's Fig. 8, and more instructions overlap than there
are stall cycles: IPC exceeds 1 for nearly every kernel. `gpumech-rr-corrected` corrects both.
"""

from dataclasses import replace

import jax.numpy as jnp
from jaxtyping import Array

from dse.models import gpumech
from dse.models.gpumech import Intervals
from dse.types import Gpu, Kernel, Launch, Prediction

ABOUT = replace(
    gpumech.ABOUT,
    equations={
        "G9": "p = Σ n_i / Σ (n_i / r + s_i)",
        "G11": "o_i = p (W − 1) (n_i − 1)",
    }
    | gpumech.ABOUT.equations,
    use_when="For comparison with the published model only: it is much too fast at high occupancy.",
)


def nonoverlapped(intervals: Intervals, warps: Array, probability: Array, rate: Array) -> Array:
    """Return o_i (Eq. G11); 0 for an interval of less than one instruction."""
    return probability * (warps - 1.0) * jnp.maximum(intervals.insts - 1.0, 0.0)


def predict(gpu: Gpu, kernel: Kernel, launch: Launch) -> Prediction:
    """Predict the cycles of a launch: `gpumech.predict` with Eq. G11."""
    return gpumech.predict(gpu, kernel, launch, nonoverlapped)
