"""Phases: the blocks of a wave start together and, from barrier to barrier, wait or fill a pipe.

Between two barriers a wave takes as long as one warp alone, or as its warps keep the busiest pipe of the SM
busy, whichever is longer; phases follow one another, and waves do, the last of them with fewer blocks. In
phases that are gone through again and again the blocks of an SM drift apart: one loads while another
computes. Such a loop takes as long as one block alone, or as all blocks keep the pipe that is busiest over
its phases together. What a block computes while its asynchronous copies are under way hides them; but no
block takes less than one of its warps that waits for all its copies. DRAM is shared by all SMs and all
phases: a launch takes no less than what it moves there. Where two such times come close, both are felt: their
power mean is taken, which also makes the model smooth. So with the arithmetic, the L1 and the L2 of NVIDIA's
SM, whose schedulers issue one instruction a cycle for all of them; AMD's issue one of each kind, and what is
busiest decides.

Where a kernel's phases are not known, it is taken to be one.
"""

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from dse.hardware.memory import safe_divide
from dse.hardware.tensor import tensor_cycles
from dse.models.about import About
from dse.models.roofline import busy_cycles
from dse.models.volkov import latency_of_one_warp
from dse.types import ARITHMETIC, CLASSES, MEMORY, TENSOR, Gpu, Kernel, Launch, PerClass, Phase, Prediction

MONOTONE = True
ABOUT = About(
    source="our own; a phase is bounded as Volkov bounds a kernel (Lemeire et al., Sec. 2.2)",
    equations={
        "L2": "Λ of a phase = Σ waits Λ + slots",
        "L3": "a wave's phase takes the power mean of Λ and the busiest pipes' Σ α λ",
        "L4": "Λ with copies = Λ + Σ async waits Λ; in loops it bounds a block, not each of its phases",
    },
    inputs=(
        "λ and Λ of each pipe, issue limit, sub-partitions",
        "phases of a warp: work, results waited for, slots",
        "blocks of a wave, waves, and the blocks of the last one",
    ),
    ignores=(
        "schedulers",
        "how long a queue at a full pipe makes single accesses wait",
        "waves that drift apart",
        "warps that differ",
    ),
    use_when="By default: best of those that need no tuning, above all where phases are known, as of kernels "
    "that are read from their source.",
    aspects=frozenset(
        {"ILP", "Λ_comp", "Λ_mem", "barriers", "more than 2 subsystems", "workgroups", "issue limit"}
    ),
)
SHARPNESS = 4.0  # exponent of the power mean
APART = 4  # phases up to which each is worked out by itself: compilers make one loop of them

IN_PARTITIONS = (*ARITHMETIC, "tensor", "fma", "vector", "issue")  # each sub-partition of the SM has its own
IN_SM = ("shared", "l1", "l2", "lsu", "barrier")
PIPES = (*IN_PARTITIONS, *IN_SM)
SIDE_BY_SIDE = (IN_PARTITIONS, ("shared", "l1", "lsu", "barrier"), ("l2",))


class _Phases(NamedTuple):
    """Some phases of a kernel, or all; their number is the first axis of every array."""

    passes: Array
    alone: Array  # Λ
    copies: Array  # Λ of the asynchronous copies that are waited for besides
    pipes: dict[str, Array]  # busy cycles of a warp
    holding: dict[str, Array]  # of these, what a block that has the SM for itself cannot run ahead of


def latency(gpu: Gpu, phase: Phase) -> Array:
    """Return Λ of a phase: the cycles that a warp alone takes for it, if its copies are there in time."""
    waits = (getattr(phase.waits, name) * getattr(gpu.latency, name) for name in CLASSES)
    return reduce(jnp.add, waits, phase.slots)


def copy_latency(gpu: Gpu, phase: Phase) -> Array:
    """Return the cycles that a warp alone waits besides, for asynchronous copies."""
    if phase.async_waits is None:
        return jnp.zeros_like(phase.slots)
    waits = (getattr(phase.async_waits, name) * getattr(gpu.latency, name) for name in MEMORY)
    return reduce(jnp.add, waits)


def busy(gpu: Gpu, phase: Phase) -> dict[str, Array]:
    """Return α λ of a phase by pipe: the cycles that one warp keeps each of them busy.

    Integer multiply-adds share the FMA pipe with those of floats, if they have not one that is as wide
    (Nsight Compute's pipe `fma`). On AMD one vector unit does all arithmetic.
    """
    return work_cycles(gpu, phase.work) | {
        "issue": phase.insts / gpu.issue_limit,
        "lsu": phase.memory_insts * gpu.lsu_cycles,
    }


def work_cycles(gpu: Gpu, work: PerClass) -> dict[str, Array]:
    """Return α λ by pipe, of those that work of some class takes."""
    names = [name for name in CLASSES if name not in TENSOR]
    cycles = {name: getattr(work, name) * getattr(gpu.cpi, name) for name in names}
    cycles["l1"] = cycles["l1"] + gpu.l1_with_shared * cycles["shared"]
    vector = reduce(jnp.add, (cycles[name] for name in ARITHMETIC))
    return cycles | {
        "tensor": tensor_cycles(gpu, work),
        "fma": (work.fp32 + work.imul32) * gpu.cpi.fp32,
        "vector": jnp.where(gpu.gfx > 0, vector, 0.0),
    }


def predict(gpu: Gpu, kernel: Kernel, launch: Launch) -> Prediction:
    """Predict the cycles of a launch, with the `latency_of_one_warp` that has the SM for itself.

    **Shapes:** every field broadcasts. **Units:** cycles of `gpu.clock`.
    A phase's time counts to the pipe that is busiest in it, or to `latency` if a warp alone takes longer; a
    loop's to the pipe that is busiest in its phases together, or to `latency` if a block alone takes longer.
    """
    dimensions = max(jnp.ndim(x) for x in jax.tree.leaves((gpu, kernel, launch)))
    wide, warps = jax.tree.map(lambda x: _first_axis(x, dimensions), (gpu, launch.warps_per_block))
    phases = _phases(wide, kernel, dimensions)
    full = jnp.floor(launch.waves)
    left = jnp.round((launch.waves - full) * launch.resident_blocks)  # blocks of the last wave
    terms: dict[str, Array] = {}
    for times, blocks in ((full, launch.resident_blocks), (jnp.minimum(left, 1.0), left)):
        for name, cycles in _wave(wide, warps, phases, _first_axis(blocks, dimensions)).items():
            terms[name] = terms.get(name, 0.0) + times * cycles
    phases_alone = reduce(jnp.add, terms.values())
    dram = kernel.work.dram * gpu.cpi.dram * launch.warps_per_sm * launch.waves
    cycles = _power_mean(phases_alone, dram)
    scale = jnp.where(phases_alone > dram, safe_divide(cycles, phases_alone), 0.0)
    terms = {name: scale * value for name, value in terms.items()}
    terms["dram"] = jnp.where(phases_alone > dram, 0.0, cycles)
    alone = (jnp.sum(some.passes * (some.alone + some.copies), axis=0) for some in phases)
    details = {"latency_of_one_warp": reduce(jnp.add, alone)}
    return Prediction.of(gpu.clock, details, **terms)


def _phases(gpu: Gpu, kernel: Kernel, dimensions: int) -> list[_Phases]:
    """Take a kernel's phases, for a GPU with a first axis of its own, and so many dimensions."""
    if not kernel.phases:
        kernel = jax.tree.map(lambda x: _first_axis(x, dimensions), kernel)
        pipes = busy_cycles(gpu, kernel) | {"issue": kernel.insts / gpu.issue_limit}
        none = jnp.zeros_like(kernel.insts)
        return [_Phases(none + 1.0, latency_of_one_warp(gpu, kernel), none, pipes, pipes)]
    if len(kernel.phases) <= APART:
        return [_side_by_side(gpu, (phase,), dimensions) for phase in kernel.phases]
    return [_side_by_side(gpu, kernel.phases, dimensions)]


def _side_by_side(gpu: Gpu, phases: tuple[Phase, ...], dimensions: int) -> _Phases:
    def joined(*of_each: Array) -> Array:
        if len(of_each) == 1:
            return _first_axis(of_each[0], dimensions)
        return jnp.concatenate([_first_axis(x, dimensions) for x in jnp.broadcast_arrays(*of_each)])

    phase: Phase = jax.tree.map(joined, *phases)
    pipes = holding = busy(gpu, phase)
    if phase.async_work is not None:
        ahead = work_cycles(gpu, phase.async_work)
        holding = pipes | {name: pipes[name] - cycles for name, cycles in ahead.items() if name in IN_SM}
    return _Phases(phase.passes, latency(gpu, phase), copy_latency(gpu, phase), pipes, holding)


def _first_axis(x: Array, dimensions: int) -> Array:
    """Give an array that is to broadcast with others of so many dimensions a first axis besides."""
    return jnp.reshape(x, (1,) * (dimensions + 1 - jnp.ndim(x)) + jnp.shape(x))


def _wave(gpu: Gpu, warps_per_block: Array, phases: Sequence[_Phases], blocks: Array) -> dict[str, Array]:
    """Return the cycles of a wave of so many blocks on an SM, by what takes them."""
    in_step, together, held, one_block = (dict[str, Array]() for _ in range(4))
    for passes, alone, copies, pipes, holding in phases:
        loads = _loads(gpu, pipes, blocks * warps_per_block)
        once = jnp.where(passes > 1.0, 0.0, passes)
        _add(in_step, once, _by_cause(alone, copies, loads, _filled(gpu, loads)))
        # Of what a block goes through again and again: it alone, one of its warps that waits for its copies,
        # and all of them.
        again = passes - once
        by_block = _loads(gpu, holding, warps_per_block)
        waited = {
            "latency": _power_mean(alone, reduce(jnp.maximum, by_block.values())),
            "copies": alone + copies,
        }
        _add(one_block, again, waited)
        _add(together, again, loads)
        _add(held, again, by_block)
    longest, busiest = (reduce(jnp.maximum, causes.values()) for causes in (one_block, together))
    in_both = reduce(jnp.maximum, held.values())
    apart = _split(_power_mean(longest, busiest, in_both), one_block | together)
    return {name: in_step.get(name, 0.0) + cycles for name, cycles in apart.items()}


def _add(totals: dict[str, Array], passes: Array, cycles: dict[str, Array]) -> None:
    """Add what so many passes take, over all phases."""
    for name, value in cycles.items():
        totals[name] = totals.get(name, 0.0) + jnp.sum(passes * value, axis=0)


def _loads(gpu: Gpu, pipes: dict[str, Array], warps: Array) -> dict[str, Array]:
    """Return the cycles that so many warps keep each pipe busy; of sub-partitions the fullest counts."""
    partitions = gpu.limits.sub_partitions.astype(gpu.clock.dtype)
    fullest = jnp.ceil(warps / partitions) * partitions
    loads = {name: pipes[name] * fullest for name in IN_PARTITIONS if name in pipes}
    return loads | {name: pipes[name] * warps for name in IN_SM}


def _filled(gpu: Gpu, loads: dict[str, Array]) -> Array:
    """Return how long the pipes are busy: on AMD the busiest, else the power mean of those side by side."""
    groups = ([loads[name] for name in names if name in loads] for names in SIDE_BY_SIDE)
    busiest = [reduce(jnp.maximum, group) for group in groups if group]
    return jnp.where(gpu.gfx > 0, reduce(jnp.maximum, busiest), reduce(_power_mean, busiest))


def _by_cause(alone: Array, copies: Array, loads: dict[str, Array], filled: Array) -> dict[str, Array]:
    """Return the cycles of a phase, all of them under the name of what takes longest."""
    waited = {"latency": alone + jnp.where(copies > alone, 0.0, copies)}
    waited["copies"] = jnp.where(copies > alone, alone + copies, 0.0)
    return _split(_power_mean(alone + copies, filled), waited | loads)


def _split(cycles: Array, causes: dict[str, Array]) -> dict[str, Array]:
    """Put all of `cycles` under the name of the largest cause, the first of equals."""
    largest = reduce(jnp.maximum, causes.values())
    shares, taken = {}, jnp.zeros(jnp.shape(largest), bool)
    for name, value in causes.items():
        binds = (value == largest) & ~taken
        shares[name] = jnp.where(binds, cycles, 0.0)
        taken = taken | binds
    return shares


def _power_mean(a: Array, b: Array, in_both: Array | float = 0.0) -> Array:
    """Return (a^p + b^p - in_both^p)^(1/p): the larger, or more where both are about as large.

    `in_both`, which is no more than either, is felt once. It has a gradient at 0.
    """
    larger = jnp.maximum(a, b)
    unit = jnp.where(larger > 0.0, larger, 1.0)
    both = (a / unit) ** SHARPNESS + (b / unit) ** SHARPNESS - (in_both / unit) ** SHARPNESS
    return larger * jnp.where(larger > 0.0, both, 1.0) ** (1.0 / SHARPNESS)
