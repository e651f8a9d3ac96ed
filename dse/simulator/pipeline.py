"""Simulation of launches of kernels that are known by counts, by a few representative cases each.

All warps are alike, with equal phases, in which one instruction represents a run of equal ones. Of a long
launch the beginning is simulated and its end extrapolated.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np

from dse.errors import DseError
from dse.simulator.case.idg import PARTS, SUBSYSTEM_OF, SUBSYSTEMS, PhasePlan, Warp, plan
from dse.simulator.case.program import MOST_ENTRIES, Case
from dse.simulator.engine.layout import OF_LATENCY, OF_THROUGHPUT, OF_VALVE
from dse.types import Launch

if TYPE_CHECKING:
    from dse.simulator.engine.columns import CaseColumns

PHASES = (1, 3)  # simulated of a warp with more: two points of a straight line
ROUNDS = 2  # of resident blocks, besides the last, incomplete one
CHUNK = 2_048  # launches at a time, to bound memory
ENTRIES = 2**17  # of a single case, unless `groups` is set
TICKS = 2.0**21  # expected in a makespan: as many as a word holds, with room for error

TERMS = (*SUBSYSTEMS, "issue", "latency")


@dataclass(frozen=True)
class Settings:
    """The settings of a simulation."""

    scheduler: str = "rr"  # others are no closer to measured times
    order: str = "program"
    groups: int | None = None  # blocks simulated with all phases, two rounds at least; None: a sample


def predict(
    warp: Warp,
    launch: Launch,
    settings: Settings | None = None,
    advance: Callable[[int], None] = lambda launches: None,
) -> tuple[np.ndarray, np.ndarray]:
    """Predict cycles of N launches, and the bottleneck of each, an index into TERMS.

    **Shapes:** all fields are NumPy arrays [N] of float64. **Units:** cycles. Exact for its programs if a
    launch has few phases and rounds (PHASES, ROUNDS). Otherwise a few makespans are extrapolated along
    straight lines: 3 % off on average for the catalogue's matrix multiplication. Never faster than the
    busiest pipe. The bottleneck is that pipe, or the issue slots, or latency if a warp alone would take
    longer than any of them. `advance` gets the number of launches just done.
    """
    settings = settings or Settings()
    distinct, which = _distinct(warp, launch)
    warp, launch = jax.tree.map(lambda x: x[distinct], (warp, launch))
    cycles, launches = np.empty(len(distinct)), np.bincount(which, minlength=len(distinct))
    for start in range(0, len(distinct), CHUNK):
        chunk = slice(start, start + CHUNK)
        part = jax.tree.map(lambda x, chunk=chunk: x[chunk], (warp, launch))
        cycles[chunk] = _simulated(part[0], part[1], settings)
        advance(int(launches[chunk].sum()))
    bounds = _bounds(warp, launch)
    cycles = np.maximum(cycles, bounds[:, :-1].max(1))
    return cycles[which], np.argmax(bounds, 1)[which]


def one(warp: Warp, launch: Launch, settings: Settings) -> tuple[Case, tuple[str, ...]]:
    """Make one case of a launch, and name the part of the kernel of each instruction.

    It has all phases, in cycles, of `settings.groups` blocks; by default of all blocks of the busiest SM, or
    of as many as ENTRIES allows, at least a round. **Shapes:** all fields are scalars.
    """
    warp, launch = jax.tree.map(lambda x: np.asarray(x, np.float64).reshape(1), (warp, launch))
    phase_plan = plan(warp, settings.order == "dataflow")
    program = phase_plan.program(0, int(phase_plan.phases[0]))
    warps, slots = int(launch.warps_per_block[0]), int(launch.resident_blocks[0])
    blocks = int(np.rint(launch.resident_blocks * launch.waves)[0])
    most = max(ENTRIES // (program.entries * warps), slots)
    groups = settings.groups or min(blocks, most)
    issue = float((warp.issue / phase_plan.phases / phase_plan.entries)[0])
    case = Case(
        programs=(program,),
        warps=warps,
        slots=min(slots, groups),
        groups=groups,
        issue_limit=1.0 / issue if issue else math.inf,
        order=settings.order,
        scheduler=settings.scheduler,
    )
    names = tuple(PARTS[part] for part in phase_plan.graphs[0].part)
    return case, names * (len(program) // len(names))


def _distinct(warp: Warp, launch: Launch) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the distinct launches, and for each launch the number of its equal."""
    columns = [*jax.tree.leaves(warp), launch.warps_per_block, launch.resident_blocks, launch.waves]
    _, distinct, which = np.unique(np.stack(columns, -1), axis=0, return_index=True, return_inverse=True)
    return distinct, which.ravel()


def _bounds(warp: Warp, launch: Launch) -> np.ndarray:
    """Return the cycles of each of TERMS alone, [N, TERMS], which bound the launch from below."""
    busy = {name: np.zeros(len(warp.waits)) for name in SUBSYSTEMS}
    for part, subsystem in SUBSYSTEM_OF.items():
        busy[subsystem] += warp.busy[part]
    warps = launch.warps_per_block * launch.resident_blocks * launch.waves
    alone = np.sum(list(warp.alone.values()), 0) * launch.waves
    return np.stack([*(x * warps for x in (*busy.values(), warp.issue)), alone], -1)


def with_slopes(warp: Warp, launch: Launch, settings: Settings | None = None) -> tuple[np.ndarray, Warp]:
    """Predict cycles of N launches as `predict` does, and their derivative by each number of the warp.

    A makespan is the sum of the terms on its critical path, so the counts of these are its derivatives.
    **Shapes:** as `predict`; derivatives by waits and barriers are 0, since these only set the structure.
    """
    settings = settings or Settings()
    from dse.simulator.engine.batches import simulate_columns  # Numba takes a third of a second

    sampled = _sample(warp, launch, settings)
    simulated = simulate_columns(sampled.columns, critical=True)
    phase_plan, launches, weights = sampled.phase_plan, sampled.launches, sampled.weights
    none = np.zeros(len(warp.waits))
    cycles = np.bincount(launches, weights * simulated.makespan * sampled.tick[launches], len(none))
    case = sampled.columns.case.repeat(sampled.columns.length)  # of each instruction
    of_launch = launches[case]
    weight = weights[case] / phase_plan.phases[of_launch]
    busy, alone = (
        _of_parts(weight * sampled.share * simulated.counts[term], sampled.part, of_launch, len(none))
        for term in (OF_THROUGHPUT, OF_LATENCY)
    )
    issue = np.bincount(of_launch, weight * simulated.counts[OF_VALVE], len(none)) / phase_plan.entries

    bounds = _bounds(warp, launch)[:, :-1]
    binding, bound = np.argmax(bounds, 1), bounds.max(1)
    bound_binds = bound > cycles
    warps = np.asarray(launch.warps_per_block * launch.resident_blocks * launch.waves)
    for part, subsystem in SUBSYSTEM_OF.items():
        binds = binding == SUBSYSTEMS.index(subsystem)
        busy[part] = np.where(bound_binds, np.where(binds, warps, 0.0), busy[part])
        alone[part] = np.where(bound_binds, 0.0, alone[part])
    issue = np.where(bound_binds, np.where(binding == len(SUBSYSTEMS), warps, 0.0), issue)
    slopes = eqx.tree_at(
        lambda x: (x.busy, x.alone, x.waits, x.barriers, x.issue), warp, (busy, alone, none, none, issue)
    )
    return np.maximum(cycles, bound), slopes


def _of_parts(values: np.ndarray, part: np.ndarray, launch: np.ndarray, count: int) -> dict[str, Any]:
    """Sum up values of instructions for each part and launch."""
    sums = np.bincount(part * count + launch, values, len(PARTS) * count)
    return dict(zip(PARTS, sums.reshape(len(PARTS), count), strict=True))


@dataclass(frozen=True)
class _SampledWarps:
    """The C cases that represent N launches, each with a weight in its launch."""

    phase_plan: PhasePlan
    columns: "CaseColumns"
    launches: np.ndarray  # [C], of the cases
    weights: np.ndarray  # [C]
    tick: np.ndarray  # [N], cycles
    part: np.ndarray  # [instructions], index into PARTS
    share: np.ndarray  # [instructions], of that part's cycles in a phase


def _simulated(warp: Warp, launch: Launch, settings: Settings) -> np.ndarray:
    """Return cycles of N launches, each a weighted sum of a few makespans."""
    from dse.simulator.engine.batches import simulate_columns

    sampled = _sample(warp, launch, settings)
    makespan = sampled.weights * simulate_columns(sampled.columns).makespan
    return np.bincount(sampled.launches, makespan, len(sampled.tick)) * sampled.tick


def _sample(warp: Warp, launch: Launch, settings: Settings) -> _SampledWarps:
    phase_plan = plan(warp, settings.order == "dataflow")
    warps, slots = (np.asarray(x).astype(int) for x in (launch.warps_per_block, launch.resident_blocks))
    blocks = np.rint(launch.resident_blocks * launch.waves).astype(int)
    phases, groups, weights = _samples(phase_plan.phases, blocks, slots, settings.groups)

    # With terms in whole ticks the simulator counts in integers; TICKS is fine enough to round them.
    sampled = phases.max(1) / phase_plan.phases * groups.max(1) / blocks
    tick = np.maximum(_bounds(warp, launch).max(1) * sampled / TICKS, np.finfo(float).tiny)
    # An entry represents many instructions, and closes the valve for the issue time of their mean number.
    issue = np.asarray(warp.issue) / phase_plan.phases / phase_plan.entries
    valve = _two_reciprocals(issue / tick)
    tick = np.where(valve > 0, issue / np.maximum(valve, 1.0), tick)

    launches, nth = np.nonzero(weights)
    patterns, which = _patterns(phase_plan, launches, phases[launches, nth], settings)
    columns = patterns.take(which)
    part, share = columns.latency_cycles.astype(int), columns.throughput_cycles
    of_launch = launches.repeat(columns.length)
    throughput_cycles, latency_cycles = (
        np.rint(cycles[of_launch, part] * share / tick[of_launch])
        for cycles in (phase_plan.throughput_cycles, phase_plan.latency_cycles)
    )
    groups = groups[launches, nth]
    columns = replace(
        columns,
        throughput_cycles=throughput_cycles,
        latency_cycles=latency_cycles,
        warps=warps[launches],
        slots=np.minimum(slots[launches], groups),
        groups=groups,
        valve=valve[launches],
    )
    if (most := int(columns.entries.max())) > MOST_ENTRIES:
        raise DseError(f"pipeline: found {most:,} entries of a launch, expected at most {MOST_ENTRIES:,}")
    return _SampledWarps(phase_plan, columns, launches, weights[launches, nth], tick, part, share)


def _patterns(
    phase_plan: PhasePlan, launches: np.ndarray, phases: np.ndarray, settings: Settings
) -> tuple["CaseColumns", np.ndarray]:
    """Make a case of each distinct program, and return the number of each simulation's case.

    As placeholders, λ is an instruction's share of its part's cycles in a phase, and Λ the part's index.
    """
    from dse.simulator.engine.columns import CaseColumns

    numbers: dict[tuple[int, int], int] = {}
    cases: list[Case] = []
    which = []
    for n, count in zip(launches.tolist(), phases.tolist(), strict=True):
        graph = phase_plan.graphs[n]
        number = numbers.setdefault((id(graph), count), len(cases))
        if number == len(cases):
            program = graph.program(graph.share, graph.part.astype(float), count)
            cases.append(Case((program,), 1, order=settings.order, scheduler=settings.scheduler))
        which.append(number)
    return CaseColumns.of(cases), np.array(which)


def _samples(
    phases: np.ndarray, blocks: np.ndarray, slots: np.ndarray, most: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Choose simulations for N launches: phases of a warp and blocks, and each makespan's weight, [N, 4].

    Two numbers of phases and two numbers of blocks, a round apart and both with the blocks of the last,
    incomplete round, each define a straight line. Smaller launches, and those with `most` blocks and thus all
    phases, need one point.
    """
    few, many = (np.full_like(phases, x) for x in PHASES)
    short = (phases <= many) | (most is not None)
    trips = np.stack([np.where(short, phases, few), np.where(short, phases, many)], 1)

    rounds = np.full_like(blocks, ROUNDS) if most is None else np.maximum(most // slots, ROUNDS)
    high = np.minimum(blocks, blocks % slots + rounds * slots)
    low = np.minimum(high, np.maximum(high - slots, slots))
    groups = np.stack([low, high], 1)

    along, across = _line(trips, phases), _line(groups, blocks)
    weights = along[:, :, None] * across[:, None, :]
    return trips.repeat(2, 1), np.tile(groups, 2), weights.reshape(-1, 4)


def _line(at: np.ndarray, to: np.ndarray) -> np.ndarray:
    """Return the weights of values at two points, [N, 2], for the value at `to`; equal points: the first."""
    step = at[:, 1] - at[:, 0]
    second = np.where(step > 0, (to - at[:, 0]) / np.maximum(step, 1), 0.0)
    return np.stack([1.0 - second, second], 1)


def _two_reciprocals(x: np.ndarray) -> np.ndarray:
    """Round x, 0 or more, to integers that equal the reciprocal of their reciprocal, as most do.

    A case stores the issue limit 1/x, from which exactly these valves can be recovered.
    """
    integers = np.rint(x)
    with np.errstate(divide="ignore"):
        while (inexact := 1.0 / (1.0 / integers) != integers).any():
            integers += inexact
    return integers
