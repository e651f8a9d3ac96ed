"""Transit: warps pass between computation and memory until supply meets demand.

Leaves out: instruction-level parallelism, more than two subsystems, the issue limit of all instructions
together, barriers. The cache-aware curves of the 2015 paper were not available.
Source: Lemeire et al., Sec. 2.2.1, Eqs. L4 to L14 (Li et al. 2015). Their Eqs. L9 and L10 are misprinted;
the solution L11 and what follows from it are right.
"""

from jaxtyping import Array

from dse.memory import safe_divide
from dse.models.notation import TwoPipes, comp_latency, two_pipes
from dse.types import Gpu, Kernel, Launch, Prediction

MONOTONE = True


def warps_in_memory(warps: Array, pipes: TwoPipes, latency: Array) -> Array:
    """k: how many of `warps` are in the memory subsystem, away from both roofs (Eq. L11).

    `latency` is Λ_comp.
    """
    in_memory = pipes.mem_insts * pipes.mem_latency
    return warps * safe_divide(in_memory, in_memory + pipes.comp_insts * latency)


def predict(gpu: Gpu, kernel: Kernel, launch: Launch) -> Prediction:
    """Cycles of a launch.

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
