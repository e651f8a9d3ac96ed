"""GPUMech for a round-robin scheduler, as published.

An instruction of another warp overlaps with an interval unless it comes after one of the interval's own, and
that at the rate at which a warp alone issues.
Known error: the probability should be 1, as the paper's own Fig. 8 has it, and more instructions are taken to
overlap than there are stall cycles: IPC exceeds 1 for nearly every kernel. `gpumech-rr-corrected` mends both.
"""

import jax.numpy as jnp
from jaxtyping import Array

from dse.models import gpumech
from dse.models.about import About
from dse.models.gpumech import Intervals
from dse.types import Gpu, Kernel, Launch, Prediction

MONOTONE = False
ABOUT = About(
    source=gpumech.SOURCE,
    equations={
        "G9": "p = Σ n_i / Σ (n_i / r + s_i)",
        "G11": "o_i = p (W − 1) (n_i − 1)",
        "G7": "IPC = W Σ n_i / (Σ (n_i / r + s_i) + Σ o_i / r)",
    },
    inputs=gpumech.INPUTS,
    ignores=gpumech.IGNORES,
    use_when="For comparison with the published model only: it is much too fast at high occupancy.",
    aspects=frozenset({"Λ_mem", "scheduler"}),
    column="gpumech",
    differs=gpumech.DIFFERS,
)


def nonoverlapped(intervals: Intervals, warps: Array, probability: Array, rate: Array) -> Array:
    """Return o_i (Eq. G11); an interval of less than one instruction has none."""
    return probability * (warps - 1.0) * jnp.maximum(intervals.insts - 1.0, 0.0)


def predict(gpu: Gpu, kernel: Kernel, launch: Launch) -> Prediction:
    """Predict the cycles of a launch: `gpumech.predict` with Eq. G11."""
    return gpumech.predict(gpu, kernel, launch, nonoverlapped)
