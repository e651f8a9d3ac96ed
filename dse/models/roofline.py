"""Roofline: the busiest pipe sets the pace.

Leaves out: latency, occupancy, barriers, issue limits. A launch takes as long as its busiest pipe.
Source: Lemeire et al., Sec. 2.1, Eq. L1 (Williams et al. 2009), over all pipes of an SM.
"""

from jaxtyping import Array

from dse.types import CLASSES, Gpu, Kernel, Launch, Prediction

MONOTONE = True  # a faster pipe never makes it slower


def busy_cycles(gpu: Gpu, kernel: Kernel) -> dict[str, Array]:
    """α_s λ_s: cycles that one warp keeps each pipe busy."""
    return {name: getattr(kernel.work, name) * getattr(gpu.cpi, name) for name in CLASSES}


def predict(gpu: Gpu, kernel: Kernel, launch: Launch) -> Prediction:
    """Cycles of a launch.

    **Shapes:** every field broadcasts. **Units:** cycles of `gpu.clock`.
    **Source:** WPC = 1 / max_s(α_s λ_s), Eq. L1.
    """
    return Prediction.largest(gpu.clock, launch.warps_per_sm * launch.waves, **busy_cycles(gpu, kernel))
