"""Simulate any mix of cases: their makespans and critical paths."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dse.errors import DseError
from dse.simulator.case.program import Case
from dse.simulator.engine.layout import OF_LATENCY, OF_SAME_WARP, OF_THROUGHPUT, OF_VALVE

TERMS = {"throughput_cycles": OF_THROUGHPUT, "latency_cycles": OF_LATENCY, "same_warp": OF_SAME_WARP}
MOST_CASES = 8_192  # simulated at a time, to bound memory
MOST_WALKED = 1 << 27  # entries of a case with a critical path


@dataclass(frozen=True)
class Critical:
    """The counts of each term on a case's critical path: the makespan is the sum of count times term.

    So the counts are its derivatives, where it is differentiable.
    """

    throughput_cycles: tuple[np.ndarray, ...]  # per program [instructions]
    latency_cycles: tuple[np.ndarray, ...]
    same_warp: tuple[np.ndarray, ...]
    valve: int  # of 1/IL


@dataclass(frozen=True)
class Simulation:
    """The results of N cases."""

    cases: tuple[Case, ...]
    makespan: np.ndarray  # cycles [N], exact: equal to those of float64
    entries: np.ndarray  # [N]
    in_ticks: np.ndarray  # bool [N]: simulated in integers; else, and always with critical paths, in float64
    skipped: np.ndarray  # [N], entries in repeated periods, which were not simulated again
    critical: tuple[Critical, ...] | None = None

    def busy(self, n: int) -> np.ndarray:
        """Return each subsystem's share of case n's makespan, [S]: above 1 only if λ exceeds Λ at the end."""
        cycles, makespan = self.cases[n].cycles_of_subsystems(), self.makespan[n]
        return cycles / makespan if makespan > 0 else np.full_like(cycles, math.nan)

    @property
    def ipc(self) -> np.ndarray:
        """Instructions a cycle, [N]."""
        with np.errstate(divide="ignore"):
            return self.entries / self.makespan


def simulate(cases: Sequence[Case], critical: bool = False, steady: bool = True) -> Simulation:
    """Simulate all cases: their exact makespans, and optionally their critical paths.

    A case runs in integers if every term is a multiple of a power of two of cycles (a tick) and its makespan,
    and twice each term, fit into a word beside a warp's number: 2^24 ticks with 64 to 127 warps, twice as
    many for each halving. Other cases, cases that turn out not to fit, and cases with critical paths run in
    float64. Both give the same makespan where both are possible.

    `steady` skips repeating periods of loops and groups, which changes no makespan; not in dataflow order,
    nor with critical paths.
    **Errors:** DseError if a case has too many entries for its critical path.
    """
    from dse.simulator.engine.batches import simulate_columns  # Numba takes a third of a second
    from dse.simulator.engine.columns import CaseColumns

    entries = np.array([case.entries for case in cases], np.int64)
    if critical and (entries > MOST_WALKED).any():
        size = f"a case of {entries.max():,} entries"
        raise DseError(f"critical path: found {size}, expected at most {MOST_WALKED:,}")
    makespan, in_ticks = np.zeros(len(cases)), np.zeros(len(cases), bool)
    skipped, paths = np.zeros(len(cases), np.int64), list[Critical]()
    for start in range(0, len(cases), MOST_CASES):
        part = slice(start, start + MOST_CASES)
        columns = CaseColumns.of(cases[part])
        result = simulate_columns(columns, critical, steady)
        makespan[part], in_ticks[part], skipped[part] = result.makespan, result.in_ticks, result.skipped
        if critical:
            paths += _paths(cases[part], columns.first, result.counts)
    critical_paths = tuple(paths) if critical else None
    return Simulation(tuple(cases), makespan, entries, in_ticks, skipped, critical_paths)


def _paths(cases: Sequence[Case], first: np.ndarray, counts: np.ndarray) -> Iterator[Critical]:
    """Yield each case's counts, from `counts` [4, instructions]; `first` is each program's first."""
    firsts = iter(first.tolist())
    for case in cases:
        of_programs = []
        for program in case.programs:
            first = next(firsts)
            if case.order == "dataflow" and program.loops:  # simulated unrolled
                unrolled = counts[:, first : first + program.entries]
                rolled = [np.bincount(program.order, x, len(program)) for x in unrolled]
                of_program = np.stack(rolled).astype(int)
            else:
                of_program = counts[:, first : first + len(program)]
            of_programs.append(of_program)
        terms = {name: tuple(x[code] for x in of_programs) for name, code in TERMS.items()}
        yield Critical(**terms, valve=int(sum(x[OF_VALVE].sum() for x in of_programs)))
