"""Launches of kernels that are known by their counts, simulated: which cases represent each of them.

All warps are alike, with equal phases, in which runs of instructions represent single ones. Of a long launch
the beginning is simulated; the rest is taken to continue as that ends.
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

PHASES = (1, 3)  # what is simulated of a warp that has more
ROUNDS = 2  # of resident blocks, and what the last one has beside
CHUNK = 2_048  # launches at a time, to bound memory
ENTRIES = 2**17  # of a case on its own, unless its size is said
TICKS = 2.0**21  # that a makespan is expected to have

TERMS = (*SUBSYSTEMS, "issue", "latency")


@dataclass(frozen=True)
class Settings:
    """The settings of a simulation."""

    scheduler: str = "rr"  # the others come no closer to measured times
    order: str = "program"
    groups: int | None = None  # blocks of which all phases are simulated, two rounds at least; None: a sample


def predict(
    warp: Warp,
    launch: Launch,
    settings: Settings | None = None,
    advance: Callable[[int], None] = lambda launches: None,
) -> tuple[np.ndarray, np.ndarray]:
    """Predict cycles of N launches, and the bottleneck of each, an index into TERMS.

    **Shapes:** all fields are NumPy arrays [N] of float64. **Units:** cycles.
    Exact for its programs where a launch has few phases and rounds (PHASES, ROUNDS). Else a few makespans are
    taken on along straight lines: 3 % off on average for the catalogue's matrix multiplication.
    Never faster than the busiest pipe. That is the bottleneck, or the issue slots, or latency where a warp
    alone would take longer than any of them.
    `advance` gets the number of launches that are done.
    """
    settings = settings or Settings()
    distinct, which = _distinct(warp, launch)
    warp, launch = jax.tree.map(lambda x: x[distinct], (warp, launch))
    cycles, launches = np.empty(len(distinct)), np.bincount(which, minlength=len(distinct))
    for start in range(0, len(distinct), CHUNK):
        some = slice(start, start + CHUNK)
        part = jax.tree.map(lambda x, some=some: x[some], (warp, launch))
        cycles[some] = _simulated(part[0], part[1], settings)
        advance(int(launches[some].sum()))
    bounds = _bounds(warp, launch)
    cycles = np.maximum(cycles, bounds[:, :-1].max(1))
    return cycles[which], np.argmax(bounds, 1)[which]


def one(warp: Warp, launch: Launch, settings: Settings) -> tuple[Case, tuple[str, ...]]:
    """Make a case of a launch, with the parts of the kernel that its instructions represent.

    All phases, in cycles, of `settings.groups` blocks; else of all that the busiest SM runs, or of as many as
    ENTRIES allows, a round at least. **Shapes:** all fields are scalars.
    """
    warp, launch = jax.tree.map(lambda x: np.asarray(x, np.float64).reshape(1), (warp, launch))
    made = plan(warp, settings.order == "dataflow")
    program = made.program(0, int(made.phases[0]))
    warps, slots = int(launch.warps_per_block[0]), int(launch.resident_blocks[0])
    blocks = int(np.rint(launch.resident_blocks * launch.waves)[0])
    most = max(ENTRIES // (program.entries * warps), slots)
    groups = settings.groups or min(blocks, most)
    issue = float((warp.issue / made.phases / made.entries)[0])
    case = Case(
        programs=(program,),
        warps=warps,
        slots=min(slots, groups),
        groups=groups,
        issue_limit=1.0 / issue if issue else math.inf,
        order=settings.order,
        scheduler=settings.scheduler,
    )
    names = tuple(PARTS[part] for part in made.graphs[0].part)
    return case, names * (len(program) // len(names))


def _distinct(warp: Warp, launch: Launch) -> tuple[np.ndarray, np.ndarray]:
    """Find launches that differ, and for each of all launches which of these it equals."""
    columns = [*jax.tree.leaves(warp), launch.warps_per_block, launch.resident_blocks, launch.waves]
    _, distinct, which = np.unique(np.stack(columns, -1), axis=0, return_index=True, return_inverse=True)
    return distinct, which.ravel()


def _bounds(warp: Warp, launch: Launch) -> np.ndarray:
    """Return cycles of a launch in which each of TERMS is all that takes time, [N, TERMS]."""
    busy = {name: np.zeros(len(warp.waits)) for name in SUBSYSTEMS}
    for part, subsystem in SUBSYSTEM_OF.items():
        busy[subsystem] += warp.busy[part]
    warps = launch.warps_per_block * launch.resident_blocks * launch.waves
    alone = np.sum(list(warp.alone.values()), 0) * launch.waves
    return np.stack([*(x * warps for x in (*busy.values(), warp.issue)), alone], -1)


def with_slopes(warp: Warp, launch: Launch, settings: Settings | None = None) -> tuple[np.ndarray, Warp]:
    """Predict cycles of N launches as `predict` does, and their derivative by each number of the warp.

    A makespan is the sum of terms on its critical path, so how often each is there are its derivatives.
    **Shapes:** as `predict`; the derivatives by counts of waits and barriers are 0: they give the structure.
    """
    settings = settings or Settings()
    from dse.simulator.engine.batches import simulate_columns  # Numba takes a third of a second

    sampled = _sample(warp, launch, settings)
    simulated = simulate_columns(sampled.columns, critical=True)
    made, launches, weights = sampled.made, sampled.launches, sampled.weights
    none = np.zeros(len(warp.waits))
    cycles = np.bincount(launches, weights * simulated.makespan * sampled.tick[launches], len(none))
    case = sampled.columns.case.repeat(sampled.columns.length)  # of each instruction
    of_launch = launches[case]
    weight = weights[case] / made.phases[of_launch]
    busy, alone = (
        _of_parts(weight * sampled.share * simulated.counts[term], sampled.part, of_launch, len(none))
        for term in (OF_THROUGHPUT, OF_LATENCY)
    )
    issue = np.bincount(of_launch, weight * simulated.counts[OF_VALVE], len(none)) / made.entries

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
    """The simulations that represent N launches, C cases, each with a weight among those of its launch."""

    made: PhasePlan
    columns: "CaseColumns"
    launches: np.ndarray  # [C], of each case
    weights: np.ndarray  # [C]
    tick: np.ndarray  # [N], cycles
    part: np.ndarray  # [instructions], of PARTS
    share: np.ndarray  # [instructions], of what a phase has of that part


def _simulated(warp: Warp, launch: Launch, settings: Settings) -> np.ndarray:
    """Return cycles of N launches, each a weighted sum of a few makespans."""
    from dse.simulator.engine.batches import simulate_columns

    sampled = _sample(warp, launch, settings)
    makespan = sampled.weights * simulate_columns(sampled.columns).makespan
    return np.bincount(sampled.launches, makespan, len(sampled.tick)) * sampled.tick


def _sample(warp: Warp, launch: Launch, settings: Settings) -> _SampledWarps:
    made = plan(warp, settings.order == "dataflow")
    warps, slots = (np.asarray(x).astype(int) for x in (launch.warps_per_block, launch.resident_blocks))
    blocks = np.rint(launch.resident_blocks * launch.waves).astype(int)
    phases, groups, weights = _samples(made.phases, blocks, slots, settings.groups)

    # Terms in whole ticks let the simulator count in integers. Of those there are enough for any precision.
    sampled = phases.max(1) / made.phases * groups.max(1) / blocks
    tick = np.maximum(_bounds(warp, launch).max(1) * sampled / TICKS, np.finfo(float).tiny)
    # An entry represents many instructions, and closes the valve for as long as their mean number does.
    issue = np.asarray(warp.issue) / made.phases / made.entries
    valve = _two_reciprocals(issue / tick)
    tick = np.where(valve > 0, issue / np.maximum(valve, 1.0), tick)

    launches, nth = np.nonzero(weights)
    patterns, which = _patterns(made, launches, phases[launches, nth], settings)
    columns = patterns.take(which)
    part, share = columns.latency_cycles.astype(int), columns.throughput_cycles
    of_launch = launches.repeat(columns.length)
    throughput_cycles, latency_cycles = (
        np.rint(cycles[of_launch, part] * share / tick[of_launch])
        for cycles in (made.throughput_cycles, made.latency_cycles)
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
    return _SampledWarps(made, columns, launches, weights[launches, nth], tick, part, share)


def _patterns(
    made: PhasePlan, launches: np.ndarray, phases: np.ndarray, settings: Settings
) -> tuple["CaseColumns", np.ndarray]:
    """Make a case of each different program, and tell which one each simulation of a launch has.

    λ is what an instruction has of its part's cycles in a phase, and Λ the number of that part.
    """
    from dse.simulator.engine.columns import CaseColumns

    numbers: dict[tuple[int, int], int] = {}
    cases: list[Case] = []
    which = []
    for n, count in zip(launches.tolist(), phases.tolist(), strict=True):
        graph = made.graphs[n]
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

    A straight line through two numbers of phases, and one through two numbers of blocks a round apart, with
    the blocks of the last, incomplete round in both. Where there are not so many, or where `most` blocks are
    asked for and thus all their phases, one point is enough.
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
    """Weigh the values at two points, [N, 2], for that at a third; the first alone if they are one."""
    step = at[:, 1] - at[:, 0]
    second = np.where(step > 0, (to - at[:, 0]) / np.maximum(step, 1), 0.0)
    return np.stack([1.0 - second, second], 1)


def _two_reciprocals(x: np.ndarray) -> np.ndarray:
    """Find whole numbers near x, 0 or more, that are the reciprocal of their reciprocal, as few are not.

    A case has an issue limit, so it has no valve but such a one.
    """
    whole = np.rint(x)
    with np.errstate(divide="ignore"):
        while (other := 1.0 / (1.0 / whole) != whole).any():
            whole += other
    return whole
