"""WFG in the Pipeline paper's notation: blocks of computation between the loads of a warp.

A kernel with known phases has separate blocks for each, executed as often as an average warp runs the phase;
a kernel given by counts alone has equal blocks. Bank conflicts are in Λ_comp: there are no scratch-pad nodes.
Known errors: Eq. L31 multiplies Eq. L30 by α^i twice (once is meant); every warp pays the exposed latency,
and cycles that already hide computation also hide memory (`wfg-corrected` corrects both).
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from dse.hardware.memory import safe_divide
from dse.models.about import About
from dse.models.notation import (
    TwoPipes,
    comp_latency,
    phase_accesses,
    phase_busy,
    phase_waits,
    two_pipes,
    waits,
)
from dse.models.wfg.graph import optional, own
from dse.types import COMPUTE, Gpu, Kernel, Launch, Phase, Prediction, Quantity, _Quantities, quantity

ABOUT = About(
    source="Lemeire et al., Sec. 2.4 (Baghsorkhi et al. 2010)",
    equations={
        "L30": "block i: α^i max(λ_comp, Λ_comp / (ILP^i ω))",
        "L32": "CYC_comp = Σ (L30) + λ_mem^instr (α_mem + α_sync)",
        "L34": "load: λ_mem^instr + max(0, (α_mem λ_mem − CYC_comp) / α_mem)",
        "L35": "NBC = CYC_comp / (α_mem + α_sync + 1)",
        "L36": "Λ_exp = Λ_mem − (ω − 1) NBC",
        "L37, L39": "CPR = ω CPW; a load costs the larger of L34 and L36",
    },
    inputs=(
        "λ and Λ of computation and of memory, lumped",
        "blocks of computation between the loads that are waited for, phase by phase where phases are known",
        "barriers",
        "instruction-level and memory-level parallelism",
        "resident warps",
    ),
    ignores=(
        "branches, beyond how often an average warp goes through a phase",
        "work groups that do not fill the SM evenly",
        "scratch-pad nodes of their own",
        "more than two subsystems, issue limit of all instructions together, schedulers",
    ),
    use_when="For comparison with the published model: it overrates latency by far.",
    aspects=frozenset({"ILP", "Λ_comp", "Λ_mem", "barriers"}),
    column="wfg",
    differs={
        "workgroups": "Sec. 2.4 takes all resident warps for one group",
        "divergent warps": "Sec. 2.4 has no branches",
    },
)


class ComputeBlock(_Quantities):
    """α^i computations of parallelism ILP^i and the global accesses after them, `repeats` times.

    A warp waits for the first access in a share `waits` of the repeats. `cpi` and `latency` of a computation
    are set if they differ from the whole kernel's.
    """

    comp_insts: Quantity = quantity("1")
    ilp: Quantity = quantity("1")
    mem_insts: Quantity = quantity("1")
    waits: Quantity = quantity("1")
    repeats: Quantity = quantity("1")
    cpi: Any = optional("cycles")
    latency: Any = optional("cycles")


def graph(gpu: Gpu, kernel: Kernel) -> tuple[ComputeBlock, ...]:
    """Make a work flow graph: for each phase one block per wait of a warp for memory, at least one. Without
    known phases, equal blocks with the whole kernel's counts.
    """
    if not kernel.phases:
        return (_of_counts(kernel),)
    phases = zip(kernel.phases, phase_accesses(kernel), strict=True)
    return tuple(_of_phase(gpu, *phase_with_accesses) for phase_with_accesses in phases)


def _of_phase(gpu: Gpu, phase: Phase, accesses: Array) -> ComputeBlock:
    """Make the blocks of a phase: λ of its busiest pipe, Λ / ILP of a single warp, without memory."""
    times = phase_waits(phase)
    trips = jnp.maximum(times, 1.0)
    insts = jnp.maximum(phase.insts - accesses, 0.0)
    alone = reduce(jnp.add, (getattr(phase.waits, name) * getattr(gpu.latency, name) for name in COMPUTE))
    return ComputeBlock(
        comp_insts=insts / trips,
        ilp=jnp.ones_like(trips),
        mem_insts=accesses / trips,
        waits=jnp.minimum(times, 1.0),
        repeats=phase.passes * trips,
        cpi=safe_divide(phase_busy(gpu, phase, accesses, COMPUTE), insts),
        latency=safe_divide(alone + phase.slots, insts),
    )


def _of_counts(kernel: Kernel) -> ComputeBlock:
    times = waits(kernel)
    some = times > 0
    repeats = jnp.where(some, times, 1.0)
    return ComputeBlock(
        comp_insts=kernel.comp_insts / repeats,
        ilp=kernel.ilp,
        mem_insts=kernel.mem_insts / repeats,
        waits=jnp.where(some, 1.0, 0.0).astype(repeats.dtype),
        repeats=repeats,
    )


Exposed = Callable[[Array, Array, Array, Array, ComputeBlock], Array]


def exposed(warps: Array, mem_latency: Array, between: Array, latency: Array, block: ComputeBlock) -> Array:
    """Return Λ_exp of the load after `block` (Eq. L36); `between` is NBC, `latency` Λ_comp."""
    return mem_latency - (warps - 1.0) * between


def terms(
    warps: Array,
    pipes: TwoPipes,
    latency: Array,
    issue: Array | None,
    barriers: Array,
    blocks: Sequence[ComputeBlock],
    exposed: Exposed = exposed,
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the parts of CPR, cycles for a run of `warps`, and the intermediates named in the paper.

    `latency` is Λ_comp, `issue` λ_mem^instr or None if it takes no time, `barriers` α_sync. NBC counts the
    waits of a warp: with one load per block, as in the paper, α_mem.
    """
    mem_insts = jnp.asarray(sum(block.repeats * block.mem_insts for block in blocks))
    times = sum(block.repeats * block.waits for block in blocks)
    insts = [block.repeats * block.comp_insts for block in blocks]
    comp_of_blocks = [  # Eq. L30, cycles of a block's computations, all repeats
        jnp.maximum(
            number * own(block.cpi, pipes.comp_cpi), number * own(block.latency, latency) / block.ilp / warps
        )
        for number, block in zip(insts, blocks, strict=True)
    ]
    comp = reduce(jnp.add, comp_of_blocks)
    slot, of_barriers, of_all = 0.0, 0.0, 0.0
    if issue is not None:
        slot, of_barriers, of_all = issue, issue * barriers, issue * (mem_insts + barriers)
    comp_cycles = comp + of_all  # Eq. L32, CYC_comp
    hidden = comp_cycles * safe_divide(jnp.ones_like(mem_insts), mem_insts)  # behind one transfer
    transfer = slot + jnp.maximum(0.0, pipes.mem_cpi - hidden)  # Eqs. L33, L34
    between = comp_cycles / (times + barriers + 1.0)  # Eq. L35, NBC
    beyond = sum(  # a load costs the larger of its two arcs
        block.repeats
        * block.waits
        * jnp.maximum(
            0.0, exposed(warps, pipes.mem_latency, between, own(block.latency, latency), block) - transfer
        )
        for block in blocks
    )
    per_warp = {  # Eqs. L37, L39: CPR = ω CPW
        "compute": comp + of_barriers,
        "memory": transfer * mem_insts,
        "latency": beyond,
    }
    parts = {name: warps * cycles for name, cycles in per_warp.items()}
    return parts, {"comp_cycles": comp_cycles, "between_waits": between}


def predict(gpu: Gpu, kernel: Kernel, launch: Launch) -> Prediction:
    """Predict the cycles of a launch.

    **Shapes:** every field broadcasts. **Units:** cycles of `gpu.clock`.
    **Gap:** λ_mem^instr is one issue slot, 1/IL. **Source:** Eqs. L30 to L40.
    """
    return predicted(gpu, kernel, launch, 1.0 / gpu.issue_limit, exposed)


def predicted(gpu: Gpu, kernel: Kernel, launch: Launch, issue: Array | None, exposed: Exposed) -> Prediction:
    """Predict the cycles of a launch, with `issue` and `exposed` as in `terms`."""
    barriers, blocks = kernel.work.barrier, graph(gpu, kernel)
    pipes, latency = two_pipes(gpu, kernel), comp_latency(gpu, kernel)
    run, details = terms(launch.warps_per_sm, pipes, latency, issue, barriers, blocks, exposed)
    return Prediction.of(gpu.clock, details, launch.waves, **run)
