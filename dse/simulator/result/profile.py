"""The profile of a core, entry by entry: which instruction of which warp enters which subsystem, and when."""

from dataclasses import dataclass, replace

import numpy as np

from dse.errors import DseError
from dse.simulator.case.program import Case
from dse.simulator.engine.loop import run
from dse.simulator.simulation import batches

MOST_ENTRIES = 1 << 22


@dataclass(frozen=True)
class Profile:
    """The entries of one case in their order.

    **Shapes:** arrays [entries]. **Units:** cycles.
    """

    time: np.ndarray  # of entry
    accepts: np.ndarray  # time + λ, when the subsystem takes the next one
    done: np.ndarray  # time + Λ, when the result is ready
    warp: np.ndarray  # slot on the core
    group: np.ndarray
    program: np.ndarray  # that the warp runs
    instruction: np.ndarray  # of that program
    subsystem: np.ndarray
    waited_for: np.ndarray  # the entry that set the binding constraint; -1: none
    critical: np.ndarray  # numbers of the entries on the critical path, ascending
    makespan: float
    subsystems: tuple[str, ...]  # names
    labels: tuple[tuple[str, ...], ...]  # per program, of its instructions; empty: they have no names


def profile(
    case: Case, subsystems: tuple[str, ...] = (), labels: tuple[tuple[str, ...], ...] = ()
) -> Profile:
    """Simulate one case and keep every entry; loops are not skipped. Times are those of float64.

    **Errors:** DseError for more than four million entries.
    """
    if case.entries > MOST_ENTRIES:
        raise DseError(f"profile: found {case.entries:,} entries, expected at most {MOST_ENTRIES:,}")
    labels = labels or tuple(() for _ in case.programs)
    if case.order == "dataflow":  # which is simulated unrolled
        named = zip(labels, case.programs, strict=True)
        labels = tuple(tuple(names[i] for i in program.order) if names else () for names, program in named)
    [batch] = batches([case], np.zeros(1, int), np.array([case.entries]), ticks=False, record=True)
    batch = replace(batch, features=replace(batch.features, profile=True))
    [end], _, last, waited_for, words, time, warp, group = run(batch)
    columns, kept = batch.columns, slice(case.entries)
    waited_for, time, warp, group = (x[kept] for x in (waited_for, time, warp, group))
    at = words[kept] >> 2  # of all instructions
    return Profile(
        time=time,
        accepts=time + columns.throughput_cycles[at],
        done=time + columns.latency_cycles[at],
        warp=warp,
        group=group,
        program=columns.program[at],
        instruction=at - columns.starts[at],
        subsystem=columns.subsystem[at],
        waited_for=waited_for,
        critical=_path(waited_for, int(last[0])),
        makespan=float(end),
        subsystems=subsystems or tuple(f"subsystem {s}" for s in range(case.subsystems)),
        labels=labels,
    )


def _path(waited_for: np.ndarray, last: int) -> np.ndarray:
    path = [last]
    while waited_for[path[-1]] >= 0:
        path.append(int(waited_for[path[-1]]))
    return np.array(path[::-1])
