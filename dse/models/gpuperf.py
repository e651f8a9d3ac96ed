"""GPUPerf: MWP-CWP with instruction-level parallelism, caches, and computation and memory as separate times.

Second hand: the equations are from a public implementation that cites the paper's numbers. Two parts are its
own: Γ of Eq. S8, and the departure delays of a DRAM access with several transactions. Eq. S6 names overheads
of divergence and of bank conflicts, but their equations are unknown.
On a GPU with two levels of cache, AMAT is the mean latency over the levels, weighted by accesses served.
Source: Sim et al., PPoPP 2012. Numbers S are that paper's.
"""

import jax.numpy as jnp
from jaxtyping import Array

from dse.hardware.memory import access_latency, safe_divide, served
from dse.models.about import About
from dse.models.mwp_cwp import memory_period
from dse.models.notation import comp_latency
from dse.types import Gpu, Kernel, Launch, Prediction

SYNC = 64.0  # Γ of Eq. S8
ABOUT = About(
    source="Sim et al., PPoPP 2012, second hand: a public implementation that names the paper's equations",
    equations={
        "S1": "T = T_c + T_m − T_o",
        "S2": "T_c = W_p + W_s",
        "S3": "W_p = (n W_t / n_SM) t / ITILP",
        "S4, S5": "ITILP = min(ILP W, t / (32 / SIMD width))",
        "S7, S8": "O_sync = (n_s n_blk / n_SM) Γ t_D n_m / n",
        "S9, S10": "O_SFU = (n_SFU W_t / n_SM) (32 / SFU width) F_SFU, "
        "F_SFU = min(1, max(0, n_SFU / n − SFU width / SIMD width))",
        "S11": "T_m = n_m W_t AMAT / (n_SM ITMLP)",
        "S14, S15": "ITMLP = min(MLP min(max(1, CWP − 1), MWP), MWP_peak_BW)",
        "S16, S17": "T_o = min(T_c (W − ζ) / W, T_m), ζ = 1 if CWP ≤ MWP, else 0",
    },
    inputs=(
        "clock, DRAM bandwidth, latencies of arithmetic and of memory, departure delays",
        "λ of fp32 and of special functions",
        "counts of computation, special functions, coalesced and uncoalesced accesses, barriers",
        "instruction-level and memory-level parallelism",
        "resident blocks and warps, active SMs",
    ),
    ignores=(
        "divergence and bank conflicts (named in the paper, equations not established)",
        "pipes other than fp32 and special functions",
        "issue limit, schedulers",
    ),
    use_when="As `mwp-cwp`, where parallelism within a warp matters. Second hand: compare it before use.",
    aspects=frozenset({"ILP", "Λ_comp", "Λ_mem", "barriers"}),
)


def predict(gpu: Gpu, kernel: Kernel, launch: Launch) -> Prediction:
    """Predict the cycles of a launch, with `mwp`, `cwp` and `itmlp` as details.

    **Shapes:** every field broadcasts. **Units:** cycles of `gpu.clock`.
    **Edges:** MWP is at least one warp, as in `mwp-cwp`. **Source:** Eqs. S1 to S17.
    """
    warps, runs = launch.warps_per_sm, launch.warps_per_sm * launch.waves  # W, and W_t / n_SM
    insts, mem_insts = kernel.insts, kernel.mem_insts  # n, n_m
    pace = jnp.maximum(comp_latency(gpu, kernel) / (kernel.ilp * warps), gpu.cpi.fp32)  # t / ITILP, S4 and S5
    amat, delay = memory_period(gpu, kernel)

    _, from_dram = served(kernel)
    warp_bandwidth = safe_divide(gpu.clock * kernel.bytes_per_access * from_dram, amat)
    peak = safe_divide(gpu.dram_bandwidth / launch.active_sms, warp_bandwidth, jnp.inf)  # MWP_peak_BW
    mwp = jnp.minimum(jnp.minimum(safe_divide(amat, delay, jnp.inf), warps), peak)
    mwp = jnp.maximum(mwp, 1.0)
    comp, mem = insts * pace, mem_insts * amat / kernel.mlp  # C_c, C_m
    cwp = jnp.minimum(safe_divide(mem + comp, comp, jnp.inf), warps)

    parallel = runs * comp  # S3
    sync = _barriers(gpu, kernel) * launch.resident_blocks * launch.waves
    special = runs * kernel.work.sfu * gpu.cpi.sfu * _special(gpu, kernel)
    computation = parallel + sync + special  # S2, S6

    itmlp = jnp.minimum(kernel.mlp * jnp.minimum(jnp.maximum(1.0, cwp - 1.0), mwp), jnp.maximum(peak, 1.0))
    memory = runs * mem_insts * amat / itmlp  # S11
    alone = jnp.where(cwp <= mwp, 1.0, 0.0)  # ζ
    hidden = jnp.minimum(computation * (warps - alone) / warps, memory)  # S16
    return Prediction.of(
        gpu.clock,
        {"mwp": mwp, "cwp": cwp, "itmlp": itmlp},
        compute=parallel,
        sync=sync,
        sfu=special,
        memory=memory - hidden,
    )


def _barriers(gpu: Gpu, kernel: Kernel) -> Array:
    """Return the cycles of a block's barriers (Eqs. S7, S8)."""
    share = safe_divide(kernel.mem_insts, kernel.insts)
    return kernel.work.barrier * SYNC * access_latency(gpu, kernel) * share


def _special(gpu: Gpu, kernel: Kernel) -> Array:
    """Return F_SFU, the share of special functions that wait for their unit (Eq. S10)."""
    waiting = safe_divide(kernel.work.sfu, kernel.insts) - safe_divide(gpu.cpi.fp32, gpu.cpi.sfu, jnp.inf)
    return jnp.clip(waiting, 0.0, 1.0)
