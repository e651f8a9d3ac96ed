"""MWP-CWP in the Pipeline paper's notation: α_mem equal periods of CI computations and one load.

Cycles can drop at a case boundary when a warp is added.
Gap closed: ω > MWP = CWP belongs to no case of Eqs. L26-L28; it counts as memory bound, as in Eq. 23 of
Hong & Kim.
"""

import jax.numpy as jnp
from jaxtyping import Array

from dse.hardware.memory import safe_divide
from dse.models.about import About
from dse.models.notation import TwoPipes, first_case, two_pipes
from dse.types import Gpu, Kernel, Launch, Prediction

ABOUT = About(
    source="Lemeire et al., Sec. 2.3",
    equations={
        "L15": "MWP = Λ_mem / λ_mem",
        "L16": "CWP = Λ_mem / (CI λ_comp) + 1",
        "L26": "memory: CPR = α_mem λ_mem ω + CI λ_comp MWP",
        "L27": "computation: CPR = α_comp λ_comp ω + Λ_mem",
        "L28": "few warps: CPR = α_mem Λ_mem + α_comp λ_comp + CI λ_comp (ω − 1)",
    },
    inputs=("λ of computation, λ and Λ of memory, lumped", "counts of both", "resident warps"),
    ignores=(
        "latency of computation and instruction-level parallelism",
        "uncoalesced accesses as a case of their own, and DRAM bandwidth apart from λ_mem",
        "barriers, work groups, divergent warps, schedulers",
    ),
    use_when="To compare MWP-CWP with the other models in one notation.",
    aspects=frozenset({"Λ_mem"}),
    column="mwp_cwp",
    differs={
        "barriers": "the notation has no place for them",
        "issue limit": "only that of computation, within λ_comp",
    },
)
CASES = ("no-memory", "few-warps", "memory", "compute")


def mwp_and_cwp(pipes: TwoPipes) -> tuple[Array, Array]:
    """Return MWP (Eq. L15) and CWP (Eq. L16), warps."""
    mwp = safe_divide(pipes.mem_latency, pipes.mem_cpi, jnp.inf)
    cwp = safe_divide(pipes.mem_latency, pipes.comp_per_mem * pipes.comp_cpi, jnp.inf) + 1.0
    return mwp, cwp


def conditions(warps: Array, pipes: TwoPipes) -> list[Array]:
    """Return the conditions of CASES for a run of `warps`: the first true one applies, else the last case."""
    mwp, cwp = mwp_and_cwp(pipes)
    return [
        pipes.mem_insts == 0,  # no case of the paper: pure computation
        warps <= jnp.minimum(mwp, cwp),  # Eq. L28, few warps
        cwp >= mwp,  # Eq. L26, memory; else Eq. L27, computation
    ]


def terms(warps: Array, pipes: TwoPipes) -> dict[str, Array]:
    """Return the memory and computation parts of CPR, cycles for a run of `warps` (Eqs. L26-L28)."""
    mwp, _ = mwp_and_cwp(pipes)
    mem = pipes.mem_insts * pipes.mem_latency  # C_m, Eq. L23
    comp = pipes.comp_insts * pipes.comp_cpi  # C_c, Eq. L24
    period = pipes.comp_per_mem * pipes.comp_cpi  # c_p, Eq. L22
    few = period * (warps - 1.0)
    cases = conditions(warps, pipes)
    memory = first_case(
        cases,
        [0.0 * mem * warps, mem + 0.0 * warps, pipes.mem_insts * pipes.mem_cpi * warps],
        pipes.mem_latency,
    )
    fill = period * jnp.minimum(mwp, warps)  # where L26 applies, MWP <= ω: the minimum only keeps it finite
    compute = first_case(cases, [comp * warps, comp + few, fill], comp * warps)
    return {"memory": memory, "compute": compute}


def predict(gpu: Gpu, kernel: Kernel, launch: Launch) -> Prediction:
    """Predict the cycles of a launch, with `mwp` and `cwp`.

    **Shapes:** every field broadcasts. **Units:** cycles of `gpu.clock`. **Source:** Eqs. L15 to L28.
    """
    pipes = two_pipes(gpu, kernel)
    mwp, cwp = mwp_and_cwp(pipes)
    warps = launch.warps_per_sm
    run = terms(warps, pipes)
    details = {"mwp": mwp, "cwp": cwp, "case": first_case(conditions(warps, pipes), [0, 1, 2], 3)}
    return Prediction.of(gpu.clock, details, launch.waves, **run)
