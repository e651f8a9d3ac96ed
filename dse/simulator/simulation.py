"""Simulate any mix of cases: sort them into batches, run each, and put the results in the cases' order."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dse.errors import DseError
from dse.simulator.case.program import Case
from dse.simulator.engine.batch import CaseBatch, make_batch
from dse.simulator.engine.old_columns import Columns, ceil_power
from dse.simulator.engine.features import TOP
from dse.simulator.engine.loop import run
from dse.simulator.engine.step import OF_VALVE
from dse.simulator.result.critical_path import TERMS, path_counts

MOST_CASES = 8_192  # of a batch
MOST_RECORDED = 1 << 25  # entries of a batch whose causes are kept: 8 bytes each
MOST_WALKED = 1 << 27  # entries of one case with a critical path
WORTHWHILE = 1 << 20  # entries for which a width of its own is compiled
STATE = 8_192  # warps of all lanes: their times stay in a core's first cache


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
    in_ticks: np.ndarray  # bool [N]: simulated in integers; else in float64
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
    makespan, and each term twice over, has room in a word beside the number of a warp: 2^23 ticks with 64 to
    127 warps, twice that for each halving. Whatever turns out not to have room runs again in float64, as does
    everything else. Both give the same makespan where both can.

    Where loops or groups repeat, periods are skipped (`steady`), which changes no makespan; not in dataflow
    order, nor where critical paths are asked for.
    **Errors:** DseError where a case whose critical path is asked for has too many entries to keep.
    """
    makespan = np.full(len(cases), math.nan)
    in_ticks = np.zeros(len(cases), bool)
    skipped = np.zeros(len(cases), np.int64)
    paths: list[Critical | None] = [None] * len(cases)
    entries = np.array([case.entries for case in cases], np.int64)
    if critical and (entries > MOST_WALKED).any():
        found = f"a case of {entries.max():,} entries"
        raise DseError(f"critical path: found {found}, expected at most {MOST_WALKED:,}")
    if cases:
        suits = _suits_ticks(cases)
        for ticks in (True, False):
            numbers = np.nonzero(suits if ticks else np.isnan(makespan))[0]
            for batch in batches(cases, numbers, entries, ticks, critical, steady):
                ends, leapt, *record = run(batch)
                makespan[batch.cases] = ends
                skipped[batch.cases] = np.where(np.isnan(ends), 0, leapt)
                in_ticks[batch.cases] = ticks & ~np.isnan(ends)
                if critical:
                    for number, path in _paths(batch, cases, ends, tuple(record)):
                        paths[number] = path
    known = tuple(path for path in paths if path is not None)
    return Simulation(tuple(cases), makespan, entries, in_ticks, skipped, known if critical else None)


def _suits_ticks(cases: Sequence[Case]) -> np.ndarray:
    """Tell which cases have terms that are ticks, few enough to try: the busiest subsystem alone has room."""
    if len(cases) > MOST_CASES:
        parts = (cases[i : i + MOST_CASES] for i in range(0, len(cases), MOST_CASES))
        return np.concatenate([_suits_ticks(part) for part in parts])
    columns = Columns.of(cases)
    resident = np.array([case.warps * case.slots for case in cases])
    room = TOP / 2.0 ** np.maximum(np.frexp(_width(resident))[1], 3)  # ticks
    cycles = columns.busiest()
    with np.errstate(over="ignore"):
        tick = 0.5 ** columns.exponents()
        return (columns.largest() / tick < room / 2) & (cycles / tick < room)


def _width(resident: np.ndarray) -> np.ndarray:
    """Return the rows of warps in the batch of cases with so many: few widths, as each is compiled."""
    exponent = np.ceil(np.log2(np.maximum(resident, 2)))
    return 2 ** np.maximum(exponent, 3).astype(int)


def batches(
    cases: Sequence[Case],
    numbers: np.ndarray,
    entries: np.ndarray,
    ticks: bool,
    record: bool,
    steady: bool = True,
) -> Iterator[CaseBatch]:
    """Put the cases with these numbers into batches of one order and similar width, of bounded size."""
    dataflow = np.array([cases[n].order == "dataflow" for n in numbers], bool)
    for order in np.unique(dataflow):
        alike = numbers[dataflow == order]
        resident = np.array([cases[n].warps * cases[n].slots for n in alike])
        for width, fitting in _by_width(alike, _width(resident), entries[alike]):
            most = entries[fitting].cumsum() // MOST_RECORDED if record else 0 * fitting
            parts = np.stack([most, np.arange(len(fitting)) // MOST_CASES])
            parts = np.unique(parts, axis=1, return_inverse=True)[1]
            for part in range(int(parts.max()) + 1):
                chosen = fitting[parts == part]
                lanes = min(max(8, ceil_power(-(-len(chosen) // 8))), max(8, STATE // width))
                yield make_batch(
                    [cases[n] for n in chosen],
                    chosen,
                    ticks=ticks,
                    record=record,
                    steady=steady,
                    width=width,
                    lanes=lanes,
                )


def _by_width(
    numbers: np.ndarray, widths: np.ndarray, entries: np.ndarray
) -> Iterator[tuple[int, np.ndarray]]:
    """Group cases by width: few entries join those of the next one, as a width costs a compilation."""
    waiting, waited = np.zeros(0, int), 0
    left = int(entries.sum())
    for width in np.unique(widths):
        here = widths == width
        waiting = np.concatenate([waiting, numbers[here]])
        waited += int(entries[here].sum())
        left -= int(entries[here].sum())
        if (waited >= WORTHWHILE and left >= WORTHWHILE) or left == 0:
            yield int(width), waiting
            waiting, waited = np.zeros(0, int), 0


def _paths(
    batch: CaseBatch, cases: Sequence[Case], ends: np.ndarray, record: tuple[np.ndarray, ...]
) -> Iterator[tuple[int, Critical]]:
    """Yield each case's number and counts."""
    counts = path_counts(batch, ends, record)
    firsts = iter(batch.columns.first.tolist())
    for number, end in zip(batch.cases.tolist(), ends, strict=True):
        case = cases[number]
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
        if math.isnan(end):
            continue
        terms = {name: tuple(own[code] for own in of_programs) for name, code in TERMS.items()}
        yield number, Critical(**terms, valve=int(sum(own[OF_VALVE].sum() for own in of_programs)))
