"""The profile of a core: instruction, warp, subsystem and time of each entry."""

from dataclasses import dataclass

import numpy as np

from dse.errors import DseError
from dse.simulator.case.program import Case

MOST_ENTRIES = 1 << 22


@dataclass(frozen=True)
class Profile:
    """The entries of one case in their order.

    **Shapes:** arrays [entries]. **Units:** cycles.
    """

    time: np.ndarray  # of entry
    accepts: np.ndarray  # time + λ, when the subsystem accepts the next one
    done: np.ndarray  # time + Λ, when the result is ready
    warp: np.ndarray  # slot on the core
    group: np.ndarray
    program: np.ndarray  # of the warp
    instruction: np.ndarray  # of that program
    subsystem: np.ndarray
    waited_for: np.ndarray  # the entry that set the binding constraint; -1: none
    critical: np.ndarray  # numbers of the entries on the critical path, ascending
    makespan: float
    subsystems: tuple[str, ...]  # names
    labels: tuple[tuple[str, ...], ...]  # for each program, of its instructions; empty: unnamed


def profile(
    case: Case, subsystems: tuple[str, ...] = (), labels: tuple[tuple[str, ...], ...] = ()
) -> Profile:
    """Simulate one case, in float64 and without skipping, and record every entry.

    **Errors:** DseError for more than four million entries.
    """
    from dse.simulator.engine.columns import CaseColumns  # Numba takes a third of a second
    from dse.simulator.engine.driver import new_record, run
    from dse.simulator.engine.graph import make_graph
    from dse.simulator.engine.inputs import make_inputs

    if case.entries > MOST_ENTRIES:
        raise DseError(f"profile: found {case.entries:,} entries, expected at most {MOST_ENTRIES:,}")
    labels = labels or tuple(() for _ in case.programs)
    if case.order == "dataflow":  # programs are unrolled
        named = zip(labels, case.programs, strict=True)
        labels = tuple(tuple(names[i] for i in program.order) if names else () for names, program in named)
    columns = CaseColumns.of([case])
    inputs, _ = make_inputs(columns, np.zeros(1, int), ticks=False, record=True)
    record = new_record(inputs, profile=True)
    graph = make_graph(columns, np.zeros(1, int)) if case.order == "dataflow" else None
    [end], _ = run(inputs, graph, record)
    instruction = record.term >> 2  # among all programs' instructions
    program = np.repeat(np.arange(len(columns.length)), columns.length)[instruction]
    return Profile(
        time=record.time,
        accepts=record.time + columns.throughput_cycles[instruction],
        done=record.time + columns.latency_cycles[instruction],
        warp=record.warp,
        group=record.group,
        program=program,
        instruction=instruction - columns.first[program],
        subsystem=columns.subsystem[instruction],
        waited_for=record.waited_for,
        critical=_path(record.waited_for, int(record.last[0])),
        makespan=float(end),
        subsystems=subsystems or tuple(f"subsystem {s}" for s in range(case.subsystems)),
        labels=labels,
    )


def _path(waited_for: np.ndarray, last: int) -> np.ndarray:
    path = [last]
    while waited_for[path[-1]] >= 0:
        path.append(int(waited_for[path[-1]]))
    return np.array(path[::-1])
