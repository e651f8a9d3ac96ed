"""Simulate any mix of cases: their makespans and critical paths."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dse.errors import DseError
from dse.simulator.case.program import Case
from dse.simulator.engine.layout import OF_LATENCY, OF_SAME_WARP, OF_THROUGHPUT, OF_VALVE

TERMS = {"throughput_cycles": OF_THROUGHPUT, "latency_cycles": OF_LATENCY, "same_warp": OF_SAME_WARP}
MOST_CASES = 8_192  # whose columns are made at a time, to bound memory
MOST_WALKED = 1 << 27  # entries of one case with a critical path


@dataclass(frozen=True)
class Critical:
    """The counts of each term on a case's critical path: the makespan is the sum of count times term.

    So the counts are its derivatives, wherever it has them.
    """

    throughput_cycles: tuple[np.ndarray, ...]  # per program [instructions]
    latency_cycles: tuple[np.ndarray, ...]
    same_warp: tuple[np.ndarray, ...]
    valve: int  # of 1/IL


@dataclass(frozen=True)
class Simulation:
    """The results of N cases."""

    cases: tuple[Case, ...]
    makespan: np.ndarray  # cycles [N], exact: as float64 would give them
    entries: np.ndarray  # [N]
    in_ticks: np.ndarray  # bool [N]: simulated in integers; else, as all with critical paths, in float64
    skipped: np.ndarray  # [N], of the entries: in periods that repeat, found to be so and not simulated again
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
    """Simulate all cases: their exact makespans, and if asked for their critical paths.

    A case runs in integers where every term is a multiple of a power of two of cycles (a tick) and its
    makespan, and each term twice over, has room in a word beside the number of a warp: 2^24 ticks with 64 to
    127 warps, twice that for each halving. Whatever turns out not to have room runs again in float64, as does
    everything else, and what has a critical path. Both give the same makespan where both can.

    Where loops or groups repeat, periods are skipped (`steady`), which changes no makespan; not in dataflow
    order, nor where critical paths are asked for.
    **Errors:** DseError where a case whose critical path is asked for has too many entries to keep.
    """
    from dse.simulator.engine.batches import simulate_columns  # Numba takes a third of a second
    from dse.simulator.engine.columns import CaseColumns

    entries = np.array([case.entries for case in cases], np.int64)
    if critical and (entries > MOST_WALKED).any():
        found = f"a case of {entries.max():,} entries"
        raise DseError(f"critical path: found {found}, expected at most {MOST_WALKED:,}")
    makespan, in_ticks = np.zeros(len(cases)), np.zeros(len(cases), bool)
    skipped, paths = np.zeros(len(cases), np.int64), list[Critical]()
    for start in range(0, len(cases), MOST_CASES):
        some = slice(start, start + MOST_CASES)
        columns = CaseColumns.of(cases[some])
        result = simulate_columns(columns, critical, steady)
        makespan[some], in_ticks[some], skipped[some] = result.makespan, result.in_ticks, result.skipped
        if critical:
            paths += _paths(cases[some], columns.first, result.counts)
    critical_paths = tuple(paths) if critical else None
    return Simulation(tuple(cases), makespan, entries, in_ticks, skipped, critical_paths)


def _paths(cases: Sequence[Case], first: np.ndarray, counts: np.ndarray) -> Iterator[Critical]:
    """Yield each case's counts, of all [4, instructions]; `first` is where each program starts."""
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
        terms = {name: tuple(own[code] for own in of_programs) for name, code in TERMS.items()}
        yield Critical(**terms, valve=int(sum(own[OF_VALVE].sum() for own in of_programs)))
