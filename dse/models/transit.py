"""Transit: warps pass between computation and memory until supply meets demand.

The cache-aware curves of the 2015 paper were not available.
Known errors: Eqs. L9 and L10 are misprinted; the solution L11 and its consequences are correct.
"""

from jaxtyping import Array

from dse.hardware.memory import safe_divide
from dse.models.about import About
from dse.models.notation import TwoPipes, comp_latency, two_pipes
from dse.types import Gpu, Kernel, Launch, Prediction

ABOUT = About(
    source="Lemeire et al., Sec. 2.2.1 (Li et al. 2015)",
    equations={
        "L4 to L7": "f(k) = min(1 / λ_mem, k / Λ_mem) / α_mem, g(x) = min(1 / λ_comp, x / Λ_comp) / α_comp",
        "L8": "f(k) = g(ω − k)",
        "L11": "k = ω / (1 + CI Λ_comp / Λ_mem)",
        "L14": "WPC = ω / (α_mem Λ_mem + α_comp Λ_comp), away from both roofs",
    },
    inputs=("λ and Λ of computation and of memory, lumped", "counts of both", "resident warps"),
    ignores=(
        "instruction-level parallelism",
        "more than two subsystems",
        "issue limit of all instructions together",
        "barriers, work groups, divergent warps, schedulers",
    ),
    use_when="To picture how warps divide between computation and memory; else `volkov` says more.",
    aspects=frozenset({"Λ_comp", "Λ_mem"}),
    monotone=True,
)


def warps_in_memory(warps: Array, pipes: TwoPipes, latency: Array) -> Array:
    """Return k, the number of `warps` in the memory subsystem below both roofs (Eq. L11).

    `latency` is Λ_comp.
    """
    in_memory = pipes.mem_insts * pipes.mem_latency
    return warps * safe_divide(in_memory, in_memory + pipes.comp_insts * latency)


def predict(gpu: Gpu, kernel: Kernel, launch: Launch) -> Prediction:
    """Predict the cycles of a launch.

    **Shapes:** every field broadcasts. **Units:** cycles of `gpu.clock`.
    **Source:** supply f(k) = demand g(ω − k), Eqs. L4 to L8; solved, Eqs. L11 to L14, under both roofs.
    """
    pipes, latency = two_pipes(gpu, kernel), comp_latency(gpu, kernel)
    warps = launch.warps_per_sm
    return Prediction.largest(
        gpu.clock,
        launch.waves,
        {"warps_in_memory": warps_in_memory(warps, pipes, latency)},
        compute=pipes.comp_insts * pipes.comp_cpi * warps,
        memory=pipes.mem_insts * pipes.mem_cpi * warps,
        latency=pipes.mem_insts * pipes.mem_latency + pipes.comp_insts * latency,
    )
