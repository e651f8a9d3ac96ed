"""WFG corrected: exposed latency is paid once, and cycles hide either computation or memory.

Known error: Eq. L42 uses the mean over all blocks for the code before each load. With unequal blocks a load
after a short one is credited with cycles that do not exist, and cycles can decrease with more warps. A kernel
given by counts alone has equal blocks; otherwise compare with Volkov's Λ_app.
"""

from dataclasses import replace

import jax.numpy as jnp
from jaxtyping import Array

from dse.models.wfg import pipeline as wfg_pipeline
from dse.models.wfg.pipeline import ComputeBlock
from dse.types import Gpu, Kernel, Launch, Prediction

ABOUT = replace(
    wfg_pipeline.ABOUT,
    source="Lemeire et al., Sec. 2.4.2 (WFG*, with λ_mem^instr = 0)",
    equations=wfg_pipeline.ABOUT.equations
    | {"L36": "replaced by L42: Λ_exp = (Λ_mem − max(0, (ω − 1) NBC − α^i Λ_comp / ILP^i)) / ω"},
    use_when="For kernels of equal blocks: what successive warps cannot hide behind the first one.",
)


def exposed(warps: Array, mem_latency: Array, between: Array, latency: Array, block: ComputeBlock) -> Array:
    """Return Λ_exp of the load after `block` (Eq. L42); `between` is NBC, `latency` Λ_comp."""
    hidden = (warps - 1.0) * between - block.comp_insts * latency / block.ilp
    return (mem_latency - jnp.maximum(0.0, hidden)) / warps


def predict(gpu: Gpu, kernel: Kernel, launch: Launch) -> Prediction:
    """Predict the cycles of a launch.

    **Shapes:** every field broadcasts. **Units:** cycles of `gpu.clock`. **Source:** Eqs. L30 to L39, L42.
    """
    return wfg_pipeline.predicted(gpu, kernel, launch, None, exposed)
