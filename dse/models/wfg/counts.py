"""WFG of a kernel: a loop for each of its phases, with computation, shared memory, barriers and global
accesses; a warp waits for the first of these.

For a kernel read from source, or described by phases, the code between two barriers is a separate loop with
its own pipes and longest chain of dependences. Its weight is the number of executions by an average warp
(trips of loops, shares of branches); its trips are the waits of a warp for memory, by the dependences of the
code. A kernel given by counts alone has equal trips with the averages.

Λ of memory is that of the mean access, λ that of the busiest level. All warps are equal, so WLP_effect is
the number of resident warps. For other graphs see `dse.models.wfg.weights`.
Known error: every warp pays the exposed latency, and cycles that already hide computation also hide memory
(`wfg-corrected` corrects both).
"""

from dataclasses import replace
from functools import reduce

import jax.numpy as jnp
from jaxtyping import Array

from dse.hardware.memory import access_cpi, access_latency, safe_divide, shared_latency
from dse.hardware.tensor import tensor_cycles, tensor_latency
from dse.models.about import About
from dse.models.notation import phase_accesses, phase_busy, phase_waits, waits
from dse.models.wfg.graph import Barrier, Compute, Memory, Scratchpad, WfgBranch, WfgLoop, WorkFlow
from dse.models.wfg.weights import Hardware, average_warp
from dse.types import ARITHMETIC, Gpu, Kernel, Launch, Phase, Prediction

ABOUT = About(
    source="Baghsorkhi et al. 2010, Sec. 2; cycles of a launch from those of a warp: Lemeire et al., Eq. L37",
    equations={
        "B3": "n computations: n u max(1, P / (u ILP WLP))",
        "B4": "access: u + max(0, (CYC_mem − CYC_compute) / NUM_mem)",
        "B5": "NBC = CYC_compute / (NUM_mem + NUM_sync + 1)",
        "B6": "load that is waited for: Λ_mem − (WLP − 1) NBC, if that is longer than the code between",
    },
    inputs=(
        "λ and Λ of computation, of shared memory and of global memory, each lumped",
        "counts of computation, accesses and barriers, phase by phase where phases are known",
        "how often a warp waits for memory",
        "instruction-level and memory-level parallelism",
        "resident warps",
    ),
    ignores=(
        "branches, beyond how often an average warp goes through a phase",
        "work groups that do not fill the SM evenly",
        "issue limit of all instructions together, schedulers",
    ),
    use_when="For comparison with the published model on whole spaces: it overrates latency by far.",
    aspects=frozenset({"ILP", "Λ_comp", "Λ_mem", "barriers"}),
    column="wfg",
    differs={
        "workgroups": "all resident warps are alike; effective() has groups",
        "divergent warps": "a phase has its mean over warps; average_warp() has branches",
    },
)


def graph(gpu: Gpu, kernel: Kernel, launch: Launch) -> WorkFlow:
    """Make a graph: a loop for each phase, with one trip per wait of a warp for memory. Without known
    phases, one loop with the whole kernel's counts.
    """
    if not kernel.phases:
        return (_of_counts(gpu, kernel, launch),)
    phases = zip(kernel.phases, phase_accesses(kernel), strict=True)
    return tuple(_of_phase(gpu, kernel, launch, *phase_with_accesses) for phase_with_accesses in phases)


def _of_phase(gpu: Gpu, kernel: Kernel, launch: Launch, phase: Phase, accesses: Array) -> WfgLoop:
    times = phase_waits(phase)
    busy = phase_busy(gpu, phase, accesses, ARITHMETIC)
    waited = reduce(jnp.add, (getattr(phase.waits, name) * getattr(gpu.latency, name) for name in ARITHMETIC))
    shared = jnp.maximum(phase.work.shared * gpu.cpi.shared, (phase.memory_insts - accesses) * gpu.lsu_cycles)
    return _loop(
        jnp.maximum(times, 1.0),
        phase.passes,
        # Eq. 3 of all its instructions: n λ is the busy time of its pipe, n Λ / ILP that of a single warp.
        Compute(insts=jnp.ones_like(busy), ilp=jnp.ones_like(busy), cpi=busy, latency=waited + phase.slots),
        jnp.maximum(shared, phase.waits.shared * gpu.latency.shared / launch.warps_per_sm),
        phase.work.barrier,
        accesses,
        jnp.minimum(times, 1.0),
        access_cpi(gpu, kernel),
    )


def _of_counts(gpu: Gpu, kernel: Kernel, launch: Launch) -> WfgLoop:
    times = waits(kernel)
    insts = kernel.other_insts
    busy, alone = insts / gpu.issue_limit, kernel.other_insts * gpu.latency.int32
    for name in ARITHMETIC:
        work = getattr(kernel.work, name)
        insts, alone = insts + work, alone + work * getattr(gpu.latency, name)
        busy = jnp.maximum(busy, work * getattr(gpu.cpi, name))
    products = kernel.work.mma_warp
    insts, alone = insts + products, alone + products * tensor_latency(gpu, kernel.work)
    busy = jnp.maximum(jnp.maximum(busy, tensor_cycles(gpu, kernel.work)), insts / gpu.issue_limit)
    insts = jnp.where((insts == 0.0) & (busy > 0.0), 1.0, insts)  # matrix products only
    # An access to shared memory is an instruction of Eq. 3: its passes issue, and others hide its latency.
    passes = jnp.maximum(kernel.work.shared * gpu.cpi.shared, kernel.shared_insts * gpu.lsu_cycles)
    waited = kernel.shared_insts * shared_latency(gpu, kernel) / (kernel.ilp * launch.warps_per_sm)
    return _loop(
        jnp.where(times > 0, times, 1.0),
        1.0,
        Compute(insts=insts, ilp=kernel.ilp, cpi=safe_divide(busy, insts), latency=safe_divide(alone, insts)),
        jnp.maximum(passes, waited),
        kernel.work.barrier,
        kernel.mem_insts,
        (times > 0).astype(times.dtype),
        access_cpi(gpu, kernel),
    )


def _loop(
    trips: Array,
    passes: Array | float,
    compute: Compute,
    shared: Array,
    barriers: Array,
    accesses: Array,
    waited: Array,
    access: Array,
) -> WfgLoop:
    """Divide the work of a pass into equal trips; a share `waited` of trips waits for an access."""
    return WfgLoop(
        trips=passes * trips,
        body=(
            replace(compute, insts=compute.insts / trips),
            Scratchpad(cycles=shared / trips),
            WfgLoop(trips=barriers / trips, body=(Barrier(),)),
            WfgBranch(taken=waited, passed=1.0 - waited, then=(Memory(bytes=access, name="load"),)),
            WfgLoop(trips=jnp.maximum(accesses / trips - waited, 0.0), body=(Memory(bytes=access),)),
            Scratchpad(cycles=0.0 * access, uses=("load",)),
        ),
    )


def hardware(gpu: Gpu, kernel: Kernel) -> Hardware:
    """Return the four numbers of the model, with cycles of busy memory as the bytes of an access.

    **Gap:** SIMD_work / SIMD_engine is one issue slot, 1 / IL, for other instructions.
    """
    return Hardware(
        issue_cycles=1.0 / gpu.issue_limit,
        pipeline_latency=gpu.latency.int32,  # unused: each node has its own
        bytes_per_cycle=jnp.ones_like(gpu.clock),
        mem_latency=access_latency(gpu, kernel),
    )


def predict(gpu: Gpu, kernel: Kernel, launch: Launch) -> Prediction:
    """Predict the cycles of a launch.

    **Shapes:** every field broadcasts. **Units:** cycles of `gpu.clock`.
    **Source:** Eqs. 3 to 6.
    """
    of_gpu = hardware(gpu, kernel)
    warp = average_warp(graph(gpu, kernel, launch), of_gpu, launch.warps_per_sm)
    bandwidth = warp.mem_insts * (warp.bandwidth_latency - of_gpu.issue_cycles)
    per_warp = {
        "compute": warp.comp_cycles,
        "memory": bandwidth,
        "latency": jnp.maximum(0.0, warp.warp_latency - warp.comp_cycles - bandwidth),
    }
    terms = {name: launch.warps_per_sm * launch.waves * cycles for name, cycles in per_warp.items()}
    details = {"comp_cycles": warp.comp_cycles, "between_waits": warp.between_waits}
    return Prediction.of(gpu.clock, details, **terms)
