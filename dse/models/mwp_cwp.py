"""MWP-CWP as published, with Eq. 23 as described in Section 3.2.2.

The numbers of warps that can wait for memory at a time (MWP) and that can compute meanwhile (CWP) decide
between three cases.

Both sides of a branch are counted. On a GPU with caches, Mem_LD is the mean latency over the levels that
serve an access, and only bytes from DRAM count against its bandwidth; on the paper's GPUs both agree with the
paper.
Known errors: Eq. 1 has c_p · MWP where Eq. 23 has c_p · (MWP − 1); Eq. 23's printed condition sends
compute-bound kernels to the memory case (`mwp-cwp-printed` keeps it). More bandwidth can increase the time.
Equation numbers are those of Hong & Kim, ISCA 2009.
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool

from dse.hardware.memory import access_latency, safe_divide, served
from dse.models.about import About
from dse.models.notation import first_case
from dse.types import Gpu, Kernel, Launch, Prediction

ABOUT = About(
    source="Hong & Kim, ISCA 2009",
    equations={
        "HK5": "MWP = min(Mem_L / Departure_delay, MWP_peak_BW, N)",
        "HK6": "MWP_peak_BW = Mem_Bandwidth / (BW_per_warp #ActiveSM)",
        "HK9": "CWP = min((Mem_cycles + Comp_cycles) / Comp_cycles, N)",
        "HK15": "Departure_delay = d_u k_u w_u + d_c w_c",
        "HK18": "Mem_cycles = Mem_L_Uncoal n_u + Mem_L_Coal n_c",
        "HK19": "Comp_cycles = #Issue_cycles #total_insts",
        "HK22": "MWP = CWP = N: (Mem_cycles + Comp_cycles + Comp_p (MWP − 1)) #Rep",
        "HK23": "CWP ≥ MWP: (Mem_cycles N / MWP + Comp_p (MWP − 1)) #Rep",
        "HK24": "MWP > CWP: (Mem_L + Comp_cycles N) #Rep",
        "HK26": "Synch_cost = Departure_delay (MWP − 1) #synch_insts #Active_blocks_per_SM #Rep",
    },
    inputs=(
        "clock, DRAM bandwidth, memory latency, issue cycles and departure delays",
        "counts of computation, coalesced and uncoalesced accesses, barriers",
        "bytes of an access",
        "resident blocks and warps, active SMs",
    ),
    ignores=(
        "bank conflicts",
        "instruction-level parallelism and latency of computation",
        "pipes other than issue and DRAM",
        "work groups, divergent warps, schedulers",
    ),
    use_when="For GPUs whose departure delays are known (the paper's own), or as the published baseline.",
    aspects=frozenset({"Λ_mem", "barriers", "issue limit"}),
    column="mwp_cwp",
)
CASES = ("no-memory", "few-warps", "memory", "compute")


def memory_period(gpu: Gpu, kernel: Kernel) -> tuple[Array, Array]:
    """Return Mem_L and Departure_delay, cycles (Eqs. 10-15)."""
    mem_ld = access_latency(gpu, kernel)
    uncoal = safe_divide(kernel.uncoal_insts, kernel.mem_insts)  # Eq. 13
    coal = safe_divide(kernel.mem_insts - kernel.uncoal_insts, kernel.mem_insts)  # Eq. 14
    per_mw = kernel.transactions_per_uncoal  # #Uncoal_per_mw
    uncoal_latency = mem_ld + (per_mw - 1.0) * gpu.departure_delay_uncoal_cycles  # Eq. 10
    mem_l = uncoal_latency * uncoal + mem_ld * coal  # Eqs. 11, 12
    delay = gpu.departure_delay_uncoal_cycles * per_mw * uncoal + gpu.departure_delay_coal_cycles * coal
    return mem_l, delay  # Eq. 15


def narrated(mwp: Array, cwp: Array, comp: Array, mem: Array) -> Bool[Array, "*#batch"]:
    """Decide which launches are memory bound, by Section 3.2.2 (Eq. 23 without its second half)."""
    return (cwp >= mwp) & (comp <= mem)


def printed(mwp: Array, cwp: Array, comp: Array, mem: Array) -> Bool[Array, "*#batch"]:
    """Decide which launches are memory bound, by Eq. 23 as printed."""
    return ((cwp >= mwp) | (comp > mem)) & (mem > 0)


def predict(gpu: Gpu, kernel: Kernel, launch: Launch, memory_bound=narrated) -> Prediction:
    """Predict the cycles of a launch, with `mwp`, `cwp` and cycles per instruction `cpi` as details.

    **Shapes:** every field broadcasts. **Units:** cycles of `gpu.clock`.
    **Edges:** MWP is one warp at least (the paper's machines never come near). With no memory instruction,
    N times the issue time, and barriers are free (the paper is silent). #Rep is `launch.waves`: whole blocks
    of the busiest SM (the paper leaves rounding open).
    **Source:** Eqs. 5-9 and 16-27.
    """
    n = launch.warps_per_sm  # N, Eq. 20
    mem_l, delay = memory_period(gpu, kernel)
    mem_insts = kernel.mem_insts
    mem = mem_l * mem_insts  # Eq. 18, with Mem_L the weighted mean
    comp = gpu.issue_cycles * (kernel.comp_insts + mem_insts)  # Eq. 19

    _, from_dram = served(kernel)
    warp_bandwidth = safe_divide(gpu.clock * kernel.bytes_per_access * from_dram, mem_l)  # Eq. 7, B/s
    peak = safe_divide(gpu.dram_bandwidth, warp_bandwidth, jnp.inf)  # of Eq. 6, for all SMs together
    overlapping = safe_divide(mem_l, delay, jnp.inf)  # Eq. 16
    mwp = jnp.minimum(jnp.minimum(overlapping, n), peak / launch.active_sms)  # Eqs. 5, 6, 17
    mwp = jnp.maximum(mwp, 1.0)  # else Eqs. 22, 23 and 26 would have negative terms
    cwp = jnp.minimum(safe_divide(mem + comp, comp, jnp.inf), n)  # Eqs. 8, 9

    # N / MWP from the parts of MWP: all but one of these divisions do not depend on the launch.
    turns = jnp.maximum(jnp.maximum(n / overlapping, 1.0), n * launch.active_sms / peak)
    turns = jnp.minimum(turns, n)
    exposed = safe_divide(comp, mem_insts) * (mwp - 1.0)  # of Eqs. 22, 23; Comp_p is Eq. 2
    cases = [
        (mwp == n) & (cwp == n),  # Eq. 22: too few warps
        memory_bound(mwp, cwp, comp, mem),  # Eq. 23; else Eq. 24
    ]
    # The paper has no case without memory instructions. Here it is Eq. 24, pure issue time: Mem_L is 0.
    memory = first_case(cases, [mem, mem * turns], mem_l)
    compute = first_case(cases, [comp + exposed, exposed], comp * n)
    sync = delay * kernel.work.barrier * launch.resident_blocks * (mwp - 1.0)  # Eq. 26
    details = {
        "mwp": mwp,
        "cwp": cwp,
        "cpi": safe_divide(memory + compute, (kernel.comp_insts + mem_insts) * n),  # Eq. 25, without barriers
        "case": first_case([mem_insts == 0, *cases], [0, 1, 2], 3),  # into CASES
    }
    return Prediction.of(gpu.clock, details, launch.waves, memory=memory, compute=compute, sync=sync)
