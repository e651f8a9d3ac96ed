"""Speed of light: the utilization of each pipe in the predicted time of a launch."""

from math import ceil

import jax
import numpy as np

from dse.core.precision import in_64_bits
from dse.hardware.gpus import column, stack
from dse.kernels.counts import KnownBatch
from dse.kernels.phases import phase_of
from dse.models.phase import busy
from dse.types import Gpu


def speed_of_light(gpu: Gpu, configuration: KnownBatch, cycles: float) -> dict[str, float]:
    """Compute busy cycles of each pipe of the average SM over the cycles of the launch, largest first.

    **Shapes:** `configuration` holds one configuration. **Units:** shares, 0 to 1; idle pipes are absent.
    **Source:** Σ α λ of a pipe (Lemeire et al., Eq. L1) over T; Nsight Compute's "speed of light".
    """
    gpus = stack([gpu])
    with in_64_bits():
        wide = column(gpus)
        known = configuration.on(wide)
        threads, blocks = known.resources.threads.item(), known.resources.blocks.item()
        warps = ceil(threads / int(gpu.limits.warp_size)) * blocks
        phase = jax.tree.map(lambda x: np.asarray(x, wide.clock.dtype), phase_of(wide, known.kernel))
        pipes = jax.jit(busy)(wide, phase)  # else each operation is compiled
        times = warps / float(gpu.sm_count) / cycles
        shares = {name: cycles_of.item() * times for name, cycles_of in pipes.items()}
    if shares["fma"] == shares["fp32"]:  # no integer multiply-adds share it
        del shares["fma"]
    return {name: shares[name] for name in sorted(shares, key=lambda name: -shares[name]) if shares[name] > 0}
