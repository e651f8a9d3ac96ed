"""Phases: the blocks of a wave start together and, from barrier to barrier, wait or fill a pipe.

Between two barriers a wave takes as long as one warp alone, or as its warps keep the busiest pipe of the SM
busy, whichever is longer; phases follow one another, and waves do, the last of them with fewer blocks. In
phases that are gone through again and again the blocks of an SM drift apart: one loads while another
computes. Such a loop takes as long as one block alone, or as all blocks keep the pipe that is busiest over
its phases together. What a block computes while its asynchronous copies are under way hides them; but no
block takes less than one of its warps that waits for its copies and, where that is known, for the others
that go in step with it. DRAM is shared by all SMs and all phases: a launch takes no less than what it moves
there, nor than DRAM takes to turn to the rows where short runs lie. Tensor cores at work lower their clock.
Where two such times come close, both are felt: their power mean is taken, which also makes the model smooth.
So with the arithmetic, the L1 and the L2 of NVIDIA's SM, whose schedulers issue one instruction a cycle for
all of them; AMD's issue one of each kind, and what is busiest decides.

Where a kernel's phases are not known, it is taken to be one.
"""

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from dse.hardware.memory import safe_divide
from dse.hardware.tensor import HEAT, tensor_cycles
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
        "L4": "Λ with copies = Λ + Σ async waits Λ + async slots; in loops it bounds a block, not each phase",
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
    use_when="By default: the best without tuning, above all where phases are known, as of kernels "
    "that are read from their source.",
    aspects=frozenset(
        {"ILP", "Λ_comp", "Λ_mem", "barriers", "more than 2 subsystems", "workgroups", "issue limit"}
    ),
    bounded=True,
)
SHARPNESS = 4.0  # exponent of the power mean: to square and to take roots is faster than other powers
ROW = 3.25  # sectors that DRAM could give in the time that it takes to turn to another row: A100, HBM2e
APART = 4  # phases up to which each is computed separately: compilers make one loop of them, 70 times faster

IN_PARTITIONS = (*ARITHMETIC, "tensor", "fma", "vector", "issue")  # each sub-partition of the SM has its own
IN_SM = ("shared", "l1", "l2", "lsu", "barrier")
PIPES = (*IN_PARTITIONS, *IN_SM)
SIDE_BY_SIDE = (IN_PARTITIONS, ("shared", "l1", "lsu", "barrier"), ("l2",))
CAUSES = ("latency", "copies", *PIPES)  # of a phase's cycles
_LATENCY, _COPIES = np.int32(0), np.int32(1)


class _Phases(NamedTuple):
    """Some phases of a kernel, or all; their number is the first axis of every array."""

    passes: Array
    alone: Array  # Λ
    copies: Array  # cycles that asynchronous copies are waited for besides, and the block's other warps
    pipes: dict[str, Array]  # busy cycles of a warp
    holding: dict[str, Array]  # of these, what a block that has the SM for itself cannot run ahead of


class _Piece(NamedTuple):
    """Cycles, and of what: a place in CAUSES."""

    cycles: Array
    cause: Array | np.int32


def latency(gpu: Gpu, phase: Phase) -> Array:
    """Return Λ of a phase: the cycles that a warp alone takes for it, if its copies are there in time."""
    waits = (getattr(phase.waits, name) * getattr(gpu.latency, name) for name in CLASSES)
    return reduce(jnp.add, waits, phase.slots)


def copy_latency(gpu: Gpu, phase: Phase) -> Array:
    """Return the cycles that a warp waits besides, for asynchronous copies and the warps in step with it."""
    if phase.async_waits is None:
        return jnp.zeros_like(phase.slots)
    waits = (getattr(phase.async_waits, name) * getattr(gpu.latency, name) for name in MEMORY)
    return reduce(jnp.add, waits, phase.async_slots)


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
    """Return α λ by pipe, of the pipes that work of some class takes."""
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
    shapes = [jnp.shape(x) for x in jax.tree.leaves((gpu, kernel, launch))]
    dimensions = max(map(len, shapes))
    wide, warps = jax.tree.map(lambda x: _first_axis(x, dimensions), (gpu, launch.warps_per_block))
    phases = _phases(wide, kernel, dimensions)
    full = jnp.floor(launch.waves)
    left = jnp.round((launch.waves - full) * launch.resident_blocks)  # blocks of the last wave
    bounds = _bounds(wide, warps, phases)
    pieces: list[_Piece] = []
    for waves, blocks in ((full, launch.resident_blocks), (jnp.minimum(left, 1.0), left)):
        resident = _warps(wide, _first_axis(blocks, dimensions) * warps)
        for cycles, cause in (_wave(bound, resident) for bound in bounds):
            pieces.append(_Piece(_first_axis(waves, dimensions) * cycles, cause))
    phases_alone = reduce(jnp.add, (jnp.sum(piece.cycles, axis=0) for piece in pieces))
    warps = launch.warps_per_sm * launch.waves
    runs = kernel.dram_runs.astype(kernel.work.dram.dtype)  # a default is of double precision
    dram = _power_mean(kernel.work.dram, ROW * runs) * gpu.cpi.dram * warps
    heat = jnp.where(gpu.gfx > 0, 0.0, HEAT * tensor_cycles(gpu, kernel.work)) * warps
    cycles = _power_mean(phases_alone, dram)
    by_phases = phases_alone > dram
    scale = jnp.where(by_phases, safe_divide(cycles, phases_alone), 0.0)
    names = [name for name in CAUSES if name in ("latency", "copies", *phases[0].pipes)]
    cycles_of = _by_cause([CAUSES.index(name) for name in names], pieces)
    terms = {name: scale * of_cause for name, of_cause in zip(names, cycles_of, strict=True)}
    terms["dram"] = jnp.where(by_phases, 0.0, cycles)
    terms["tensor"] += heat
    cycles = cycles + heat
    alone = (jnp.sum(some.passes * (some.alone + some.copies), axis=0) for some in phases)
    details = {"latency_of_one_warp": reduce(jnp.add, alone)}
    return Prediction(cycles=cycles, seconds=cycles / gpu.clock, terms=terms, details=details)


def _phases(gpu: Gpu, kernel: Kernel, dimensions: int) -> list[_Phases]:
    """Take a kernel's phases, for a GPU with a first axis of its own and arrays of `dimensions` axes.

    Up to APART phases are computed separately, so that a result does not depend on its batch.
    """
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
    """Give an array that is to broadcast with others of this many dimensions a first axis besides."""
    return jnp.reshape(x, (1,) * (dimensions + 1 - jnp.ndim(x)) + jnp.shape(x))


class _Bound(NamedTuple):
    """Bounds on the cycles of a phase, or of all repeated phases together, in any wave."""

    passes: Array | float
    own: _Piece  # what a warp or a block takes separately
    busiest: tuple[_Piece, ...]  # of each of SIDE_BY_SIDE: cycles of a warp
    all_felt: Array | None  # whether all of these are felt, not only the busiest; None: never
    in_both: Array | float  # cycles that are felt in either


def _bounds(gpu: Gpu, warps_per_block: Array, phases: Sequence[_Phases]) -> list[_Bound]:
    """Return what bounds each phase that is gone through once, and, last, all the others together."""
    of_block = _warps(gpu, warps_per_block)
    together, held = dict[str, Array](), dict[str, Array]()
    bounds: list[_Bound] = []
    by_itself = copied = jnp.zeros_like(warps_per_block)
    for passes, alone, copies, pipes, holding in phases:
        once = jnp.where(passes > 1.0, 0.0, passes)
        waited = _Piece(alone + copies, jnp.where(copies > alone, _COPIES, _LATENCY))
        bounds.append(_Bound(once, waited, _busiest(pipes), gpu.gfx == 0, 0.0))
        # Of what a block goes through again and again: it alone, one of its warps that waits for its copies,
        # and all of them.
        again = passes - once
        by_itself = by_itself + _over_phases(again, _power_mean(alone, _most(holding, of_block)))
        copied = copied + _over_phases(again, waited.cycles)
        for totals, cycles in ((together, pipes), (held, holding)):
            for name, value in cycles.items():
                totals[name] = totals.get(name, 0.0) + _over_phases(again, value)
    own = _larger(_Piece(by_itself, _LATENCY), _Piece(copied, _COPIES))
    return [*bounds, _Bound(1.0, own, _busiest(together), None, _most(held, of_block))]


def _wave(bound: _Bound, warps: tuple[Array, Array]) -> _Piece:
    """Return the cycles of a phase, or of a loop, with this many warps on an SM."""
    in_partitions, in_sm = warps
    counts = (in_partitions, *(in_sm for _ in SIDE_BY_SIDE[1:]))
    loads = [_Piece(of.cycles * count, of.cause) for of, count in zip(bound.busiest, counts, strict=True)]
    load = reduce(_larger, loads)
    filled = load.cycles
    if bound.all_felt is not None:
        felt = reduce(_power_mean, (piece.cycles for piece in loads))
        filled = jnp.where(bound.all_felt, felt, filled)
    cycles = _power_mean(bound.own.cycles, filled, bound.in_both)
    return _Piece(bound.passes * cycles, _larger(bound.own, load).cause)


def _over_phases(passes: Array, cycles: Array) -> Array:
    """Add up what this many passes take."""
    return jnp.sum(passes * cycles, axis=0, keepdims=True)


def _warps(gpu: Gpu, warps: Array) -> tuple[Array, Array]:
    """Return the warps that pipes of sub-partitions serve, the fullest counts, and those of the SM."""
    partitions = gpu.limits.sub_partitions.astype(gpu.clock.dtype)
    return jnp.ceil(warps / partitions) * partitions, warps


def _busiest(pipes: dict[str, Array]) -> tuple[_Piece, ...]:
    """Return the busiest pipe of each of SIDE_BY_SIDE, for one warp.

    Pipes of each kind serve as many warps: which is busiest does not depend on the launch.
    """
    by_kind = (
        (_Piece(pipes[name], np.int32(CAUSES.index(name))) for name in names if name in pipes)
        for names in SIDE_BY_SIDE
    )
    return tuple(reduce(_larger, kind) for kind in by_kind)


def _most(pipes: dict[str, Array], warps: tuple[Array, Array]) -> Array:
    """Return the cycles that this many warps keep the busiest pipe busy."""
    by_kind = (
        reduce(jnp.maximum, (pipes[name] for name in names if name in pipes)) * most
        for names, most in zip((IN_PARTITIONS, IN_SM), warps, strict=True)
    )
    return reduce(jnp.maximum, by_kind)


def _larger(a: _Piece, b: _Piece) -> _Piece:
    """Return the one that takes longer, the first of equals."""
    return _Piece(jnp.maximum(a.cycles, b.cycles), jnp.where(b.cycles > a.cycles, b.cause, a.cause))


def _by_cause(causes: Sequence[int], pieces: Sequence[_Piece]) -> Array:
    """Add up the cycles of pieces by what causes them, `causes` along the first axis.

    In a loop, since XLA would otherwise compute all pieces for each cause again, and take long to compile it.
    """

    def of_cause(cause: Array) -> Array:
        felt = (jnp.where(piece.cause == cause, piece.cycles, 0.0) for piece in pieces)
        return reduce(jnp.add, (jnp.sum(cycles, axis=0) for cycles in felt))

    return jax.lax.map(of_cause, np.array(causes, np.int32))


def _power_mean(a: Array, b: Array, in_both: Array | float = 0.0) -> Array:
    """Return (a^p + b^p - in_both^p)^(1/p): the larger, or more where both are about as large.

    `in_both`, which is no more than either, is felt once. It has a gradient at 0.
    """
    larger = jnp.maximum(a, b)
    unit = jnp.where(larger > 0.0, larger, 1.0)
    both = _to_the_fourth(a / unit) + _to_the_fourth(b / unit) - _to_the_fourth(in_both / unit)
    return larger * jnp.sqrt(jnp.sqrt(jnp.where(larger > 0.0, both, 1.0)))


def _to_the_fourth(x: Array) -> Array:
    return jnp.square(jnp.square(x))
