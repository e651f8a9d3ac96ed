"""Roofline: the busiest pipe sets the pace.

A launch takes as long as the busiest pipe of an SM. Each class of instruction has the roof of its own pipe,
as in the extension of Konstantinidis & Cotronis to a mix of instructions, instead of a single peak of the
GPU: a rarely used pipe is the bound of a kernel that fills it.
"""

from jaxtyping import Array

from dse.hardware.tensor import tensor_cycles
from dse.models.about import About
from dse.types import CLASSES, TENSOR, Gpu, Kernel, Launch, Prediction

ABOUT = About(
    source="Lemeire et al., Sec. 2.1 (Williams et al. 2009)",
    equations={"L1": "IPC = min(IPC_comp, BW CI), that is WPC = 1 / max_s (α_s λ_s)"},
    inputs=("λ of each pipe", "work of a warp for each pipe", "warps of an SM"),
    ignores=(
        "latency",
        "occupancy",
        "instruction-level parallelism",
        "barriers",
        "issue limit",
        "SMs with fewer blocks, which leave more of L2 and DRAM to others",
    ),
    use_when="For a bound that no launch on all SMs can beat, and which pipe sets it.",
    aspects=frozenset({"more than 2 subsystems"}),
    column="roofline",
    differs={"ILP": "the bound holds for any ILP: nothing of it is read"},
    bounded=True,
    monotone=True,
)


def busy_cycles(gpu: Gpu, kernel: Kernel) -> dict[str, Array]:
    """Return α_s λ_s, the busy cycles of each pipe for one warp.

    `lsu` are the load/store units, which all memory accesses pass.
    """
    names = [name for name in CLASSES if name not in TENSOR]
    busy = {name: getattr(kernel.work, name) * getattr(gpu.cpi, name) for name in names}
    busy["l1"] = busy["l1"] + gpu.l1_with_shared * busy["shared"]
    return busy | {
        "lsu": (kernel.shared_insts + kernel.mem_insts) * gpu.lsu_cycles,
        "tensor": tensor_cycles(gpu, kernel.work),
    }


def predict(gpu: Gpu, kernel: Kernel, launch: Launch) -> Prediction:
    """Predict the cycles of a launch.

    **Shapes:** every field broadcasts. **Units:** cycles of `gpu.clock`.
    **Source:** WPC = 1 / max_s(α_s λ_s), Eq. L1.
    """
    return Prediction.largest(gpu.clock, launch.warps_per_sm * launch.waves, **busy_cycles(gpu, kernel))
