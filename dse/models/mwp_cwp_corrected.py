"""MWP-CWP corrected: Volkov's latency of one warp, and the largest of the three cases.

It adds the time to fill and drain the pipes to Volkov's model.
The two-subsystem notation lacks barriers and the units that computation and memory share (issue slots,
load/store units, an L1 unified with shared memory), so Volkov's bounds for these are added to the three
cases: predictions are never faster than `volkov`.
Known error, corrected: taken literally, Eq. L26 charges MWP computation periods even for fewer warps;
min(MWP, ω) is used, as in Hong & Kim's Eq. 5.
"""

import jax.numpy as jnp
from jaxtyping import Array

from dse.models.about import About
from dse.models.mwp_cwp_pipeline import mwp_and_cwp
from dse.models.notation import TwoPipes, two_pipes
from dse.models.roofline import busy_cycles
from dse.models.volkov import latency_of_one_warp
from dse.types import Gpu, Kernel, Launch, Prediction

APART = ("l1", "lsu", "barrier", "issue")  # in neither subsystem
ABOUT = About(
    source="Lemeire et al., Sec. 2.3.2 (MWP-CWP*)",
    equations={
        "L2": "Λ_app = Σ Λ_i (waited for) + Σ λ_j (overlapping within the warp)",
        "L26": "memory: CPR = α_mem λ_mem ω + CI λ_comp min(MWP, ω)",
        "L27": "computation: CPR = α_comp λ_comp ω + Λ_mem",
        "L28": "latency: CPR = Λ_app + CI λ_comp (ω − 1)",
        "L3": "CPR ≥ ω α_s λ_s of what is no part of either subsystem alone",
        "Sec. 2.3.2": "the largest of these",
    },
    inputs=(
        "λ and Λ of each pipe; lumped for computation and for memory",
        "work of a warp for each pipe",
        "instruction-level and memory-level parallelism",
        "issue limit",
        "resident warps",
    ),
    ignores=(
        "barriers that hold a block together",
        "more than two subsystems, beyond what the lumped λ carry",
        "work groups, divergent warps, schedulers",
    ),
    use_when="For kernels known by their counts, beside `phase`: Volkov with the time to fill and drain.",
    aspects=frozenset({"ILP", "Λ_comp", "Λ_mem", "issue limit"}),
    monotone=False,  # not shown: in Eq. L26 the fill time grows with MWP = Λ_mem / λ_mem
    bounded=True,
)


def bounds(warps: Array, pipes: TwoPipes, latency_of_one: Array) -> dict[str, Array]:
    """Return CPR / ω of each case, cycles per warp; the largest applies.

    `latency_of_one` is Λ_app.
    """
    mwp, _ = mwp_and_cwp(pipes)
    has_memory = jnp.minimum(pipes.mem_insts, 1.0)  # share of warps with a period to fill and drain
    period = has_memory * pipes.comp_per_mem * pipes.comp_cpi  # CI λ_comp
    transfers = pipes.mem_insts * pipes.mem_cpi
    return {
        "memory": transfers + period * jnp.minimum(mwp / warps, 1.0),  # Eq. L26
        "compute": pipes.comp_insts * pipes.comp_cpi + has_memory * pipes.mem_latency / warps,  # Eq. L27
        "latency": period + (latency_of_one - period) / warps,  # Eq. L28
    }


def predict(gpu: Gpu, kernel: Kernel, launch: Launch) -> Prediction:
    """Predict the cycles of a launch, with `mwp` and `cwp`.

    **Shapes:** every field broadcasts. **Units:** cycles of `gpu.clock`.
    **Source:** Eqs. L26 to L28, Sec. 2.3.2; those of APART as Eq. L3.
    """
    pipes = two_pipes(gpu, kernel)
    mwp, cwp = mwp_and_cwp(pipes)
    warps = launch.warps_per_sm
    run = bounds(warps, pipes, latency_of_one_warp(gpu, kernel))
    busy = busy_cycles(gpu, kernel) | {"issue": kernel.insts / gpu.issue_limit}
    run |= {name: busy[name] for name in APART}  # Eq. L3
    return Prediction.largest(gpu.clock, warps * launch.waves, {"mwp": mwp, "cwp": cwp}, **run)
