"""Phases: the blocks of a wave start together and, between barriers, wait for latency or saturate a pipe.

Between two barriers a wave takes as long as a single warp, or as the busy time of the SM's busiest pipe for
all its warps, whichever is longer. Phases run in sequence, and so do waves, the last with fewer blocks. In
repeated phases the blocks of an SM drift apart: one loads while another computes. Such a loop takes as long
as a single block, or as the busy time of the pipe that is busiest over its phases together. So do all phases
of a kernel that copies asynchronously, whose loops the compiler may have unrolled. Computation of a block
hides its asynchronous copies in flight; but a block takes at least as long as one of its warps that waits for
its copies and, where known, for the other warps in step with it. All SMs and phases share DRAM: a launch
takes at least the time of its DRAM traffic, of the row changes for short runs, and of what it evicts
of a flush before it (`dirty_bytes`). SMs without blocks leave
their share of L2 to others. Tensor cores at full rate lower their clock.
Where two such times are close, both count: their power mean is taken, which also makes the model smooth. The
same holds for arithmetic, L1 and L2 of NVIDIA's SMs, whose schedulers issue one instruction per cycle for
all of them; AMD's issue one of each kind, and the busiest decides.

A kernel without known phases is a single phase.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from dse.hardware.coalescing import L2_PORT, SECTOR
from dse.hardware.memory import safe_divide, written
from dse.hardware.tensor import heat_cycles, tensor_cycles
from dse.models.about import About
from dse.models.roofline import busy_cycles
from dse.models.volkov import latency_of_one_warp
from dse.types import ARITHMETIC, CLASSES, MEMORY, TENSOR, Gpu, Kernel, Launch, PerClass, Phase, Prediction

ABOUT = About(
    source="our own; a phase is bounded as Volkov bounds a kernel (Lemeire et al., Sec. 2.2)",
    equations={
        "L2": "Λ of a phase = Σ waits Λ + slots",
        "L3": "a wave's phase takes the power mean of Λ and the busiest pipes' Σ α λ",
        "L4": "Λ with copies = Λ + Σ async waits Λ + async slots; it bounds a block over all its phases",
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
        "atomic operations that wait for each other at one address",
        "warps that differ",
    ),
    use_when="By default: the best without tuning, above all where phases are known, as of kernels "
    "that are read from their source.",
    aspects=frozenset(
        {"ILP", "Λ_comp", "Λ_mem", "barriers", "more than 2 subsystems", "workgroups", "issue limit"}
    ),
    bounded=True,
    monotone=True,
)
SHARPNESS = 4.0  # exponent of the power mean: squares and square roots are faster than other powers
ROW = 3.25  # sectors that DRAM could transfer in the time of a row change: A100, HBM2e
APART = 4  # most phases computed separately: XLA fuses them into one loop, 70 times faster

IN_PARTITIONS = (*ARITHMETIC, "tensor", "fma", "vector", "issue")  # each sub-partition of the SM has its own
IN_SM = ("shared", "l1", "l2", "lsu", "barrier")
PIPES = (*IN_PARTITIONS, *IN_SM)
SIDE_BY_SIDE = (IN_PARTITIONS, ("shared", "l1", "lsu", "barrier"), ("l2",))
CAUSES = ("latency", "copies", *PIPES)  # of a phase's cycles
_LATENCY, _COPIES = np.int32(0), np.int32(1)


class _Phases(NamedTuple):
    """Phases of a kernel, on the first axis of every array."""

    passes: Array
    alone: Array  # Λ
    copies: Array  # further cycles of waiting for asynchronous copies and the block's other warps
    pipes: dict[str, Array]  # busy cycles of a warp
    holding: dict[str, Array]  # of these, cycles that a single block cannot overlap


class _Piece(NamedTuple):
    """Cycles and their cause, an index into CAUSES."""

    cycles: Array
    cause: Array | np.int32


def latency(gpu: Gpu, phase: Phase) -> Array:
    """Return Λ of a phase: the cycles of a single warp that does not wait for its copies."""
    waits = (getattr(phase.waits, name) * getattr(gpu.latency, name) for name in CLASSES)
    return reduce(jnp.add, waits, phase.slots)


def copy_latency(gpu: Gpu, phase: Phase) -> Array:
    """Return the further cycles of waiting for asynchronous copies and the warps in step with a warp."""
    if phase.async_waits is None:
        return jnp.zeros_like(phase.slots)
    waits = (getattr(phase.async_waits, name) * getattr(gpu.latency, name) for name in MEMORY)
    return reduce(jnp.add, waits, phase.async_slots)


def busy(gpu: Gpu, phase: Phase) -> dict[str, Array]:
    """Return α λ of a phase by pipe: the busy cycles of each for one warp.

    Integer multiply-adds share the FMA pipe with those of floats, unless they have a pipe as wide (Nsight
    Compute's pipe `fma`). On AMD one vector unit executes all arithmetic.
    """
    return work_cycles(gpu, phase.work) | {
        "issue": phase.insts / gpu.issue_limit,
        "lsu": phase.memory_insts * gpu.lsu_cycles,
    }


def work_cycles(gpu: Gpu, work: PerClass) -> dict[str, Array]:
    """Return α λ by pipe, for the pipes of the classes of work."""
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
    """Predict the cycles of a launch, with the `latency_of_one_warp` of a single warp on an SM.

    **Shapes:** every field broadcasts. **Units:** cycles of `gpu.clock`.
    A phase's time is attributed to its busiest pipe, or to `latency` if a single warp takes longer; a loop's
    to the busiest pipe over its phases together, or to `latency` if a single block takes longer.
    """
    gpu = _of_active_sms(gpu, launch)
    shapes = [jnp.shape(x) for x in jax.tree.leaves((gpu, kernel.work, launch))]
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
    warps = launch.warps_per_sm * launch.waves  # of the busiest SM
    mean_warps = launch.warps_per_block * launch.blocks / gpu.sm_count
    kind = kernel.work.dram.dtype  # defaults have double precision
    runs, stored = kernel.dram_runs.astype(kind), kernel.dram_stores.astype(kind) * mean_warps
    dram = _power_mean(kernel.work.dram, ROW * runs) * mean_warps
    left = gpu.dirty_bytes.astype(kind) / SECTOR / gpu.sm_count
    evicted = written(kernel.work.dram * mean_warps - stored, stored, left) - stored
    dram = (dram + evicted) * gpu.cpi.dram
    heat = heat_cycles(gpu, kernel.work) * warps
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


def arranged(kernel: Kernel) -> Kernel:
    """Put more than APART phases side by side, as one: their thousands of arrays would be slow to trace."""
    if len(kernel.phases) <= APART:
        return kernel
    return replace(kernel, phases=(jax.tree.map(lambda *x: np.stack(x), *kernel.phases),))


def _of_active_sms(gpu: Gpu, launch: Launch) -> Gpu:
    """Return the GPU with the bandwidth of L2 shared by the active SMs alone, as far as their ports allow.

    The cycles of a port are those in which the L1 makes a pass.
    """
    least = jnp.minimum(gpu.cpi.l2, SECTOR / L2_PORT * gpu.cpi.l1)
    shared = gpu.cpi.l2 * (launch.active_sms / gpu.sm_count)
    return eqx.tree_at(lambda x: x.cpi.l2, gpu, jnp.maximum(shared, least))


def _phases(gpu: Gpu, kernel: Kernel, dimensions: int) -> list[_Phases]:
    """Return a kernel's phases, for a GPU with an additional first axis and arrays of `dimensions` axes.

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
    """Add a first axis to an array that broadcasts with others of this many dimensions."""
    return jnp.reshape(x, (1,) * (dimensions + 1 - jnp.ndim(x)) + jnp.shape(x))


class _Bound(NamedTuple):
    """Bounds on the cycles of a phase, or of all repeated phases together, in any wave."""

    passes: Array | float
    own: _Piece  # of a single warp or block
    busiest: tuple[_Piece, ...]  # of each of SIDE_BY_SIDE: cycles per warp
    all_felt: Array | None  # whether all of these count, not only the busiest; None: never
    in_both: Array | float  # cycles that are part of both


def _bounds(gpu: Gpu, warps_per_block: Array, phases: Sequence[_Phases]) -> list[_Bound]:
    """Return the bounds of each phase that runs once and, last, of all others together.

    Copies in flight overlap with later phases: with any, all phases are together.
    """
    of_block = _warps(gpu, warps_per_block)
    together, held = dict[str, Array](), dict[str, Array]()
    bounds: list[_Bound] = []
    by_itself = copied = jnp.zeros_like(warps_per_block)
    ahead = sum(_over_phases(phase.passes, phase.pipes["l2"] - phase.holding["l2"]) for phase in phases)
    for passes, alone, copies, pipes, holding in phases:
        once = jnp.where((passes > 1.0) | (ahead > 0.0), 0.0, passes)
        waited = _Piece(alone + copies, jnp.where(copies > alone, _COPIES, _LATENCY))
        bounds.append(_Bound(once, waited, _busiest(pipes), gpu.gfx == 0, 0.0))
        # Of the repeated phases: a single block, one of its warps that waits for its copies, and all of its
        # warps.
        again = passes - once
        by_itself = by_itself + _over_phases(again, _power_mean(alone, _most(holding, of_block)))
        copied = copied + _over_phases(again, waited.cycles)
        for totals, cycles in ((together, pipes), (held, holding)):
            for name, value in cycles.items():
                totals[name] = totals.get(name, 0.0) + _over_phases(again, value)
    own = _larger(_Piece(by_itself, _LATENCY), _Piece(copied, _COPIES))
    return [*bounds, _Bound(1.0, own, _busiest(together), None, _most(held, of_block))]


def _wave(bound: _Bound, warps: tuple[Array, Array]) -> _Piece:
    """Return the cycles of a phase or a loop with `warps` on an SM."""
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
    """Sum the cycles of the passes over the phases."""
    return jnp.sum(passes * cycles, axis=0, keepdims=True)


def _warps(gpu: Gpu, warps: Array) -> tuple[Array, Array]:
    """Return the warps that pipes of sub-partitions serve, by the fullest one, and pipes of the SM."""
    partitions = gpu.limits.sub_partitions.astype(gpu.clock.dtype)
    return jnp.ceil(warps / partitions) * partitions, warps


def _busiest(pipes: dict[str, Array]) -> tuple[_Piece, ...]:
    """Return the busiest pipe of each of SIDE_BY_SIDE, for one warp.

    All pipes of a kind serve equally many warps, so the busiest does not depend on the launch.
    """
    by_kind = (
        (_Piece(pipes[name], np.int32(CAUSES.index(name))) for name in names if name in pipes)
        for names in SIDE_BY_SIDE
    )
    return tuple(reduce(_larger, kind) for kind in by_kind)


def _most(pipes: dict[str, Array], warps: tuple[Array, Array]) -> Array:
    """Return the busy cycles of the busiest pipe for `warps`."""
    by_kind = (
        reduce(_maximum, (pipes[name] for name in names if name in pipes)) * most
        for names, most in zip((IN_PARTITIONS, IN_SM), warps, strict=True)
    )
    return reduce(_maximum, by_kind)


def _larger(a: _Piece, b: _Piece) -> _Piece:
    """Return the longer one, the first of equals."""
    return _Piece(_maximum(a.cycles, b.cycles), jnp.where(b.cycles > a.cycles, b.cause, a.cause))


def _by_cause(causes: Sequence[int], pieces: Sequence[_Piece]) -> Array:
    """Sum the cycles of pieces by cause, with `causes` on the first axis.

    A loop, since XLA would otherwise compute all pieces again for each cause, and compile slowly.
    """

    def of_cause(cause: Array) -> Array:
        felt = (jnp.where(piece.cause == cause, piece.cycles, 0.0) for piece in pieces)
        return reduce(jnp.add, (jnp.sum(cycles, axis=0) for cycles in felt))

    return jax.lax.map(of_cause, np.array(causes, np.int32))


def _power_mean(a: Array, b: Array, in_both: Array | float = 0.0) -> Array:
    """Return (a^p + b^p - in_both^p)^(1/p): about the larger, or more where both are similar.

    `in_both`, at most the smaller of both, counts once. The gradient is finite at 0.
    """
    larger = _maximum(a, b)
    unit = jnp.where(larger > 0.0, larger, 1.0)
    both = _to_the_fourth(a / unit) + _to_the_fourth(b / unit) - _to_the_fourth(in_both / unit)
    return larger * jnp.sqrt(jnp.sqrt(jnp.where(larger > 0.0, both, 1.0)))


def _maximum(a: Array, b: Array) -> Array:
    """Return the larger one, the first of equals: jnp.maximum's mean of their slopes takes ten operations.

    What is not a number stays so, as there.
    """
    return jnp.where((b > a) | jnp.isnan(b), b, a)


def _to_the_fourth(x: Array) -> Array:
    return jnp.square(jnp.square(x))
