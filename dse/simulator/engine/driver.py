"""The driver: runs each case of the inputs in the loop of its order, on all cores."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from dse.core.cluster import processors
from dse.simulator.engine import dataflow_order, layout, program_order
from dse.simulator.engine.dataflow_order import new_rows
from dse.simulator.engine.graph import Graph
from dse.simulator.engine.layout import EntryRecord, Inputs, no_record
from dse.simulator.engine.state import new_state
from dse.simulator.engine.vectors import WIDTH

# Flags of cases that are not plain.
NOT_PLAIN = ~int(layout.HAS_VALVE | layout.HAS_SEVERAL)
PARTS = 8  # for each thread, to balance cases of different lengths
WORTH_A_PART = 1 << 18  # entries: about two milliseconds


def run(
    inputs: Inputs, graph: Graph | None = None, record: EntryRecord | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Simulate all cases: their ends in the type of the inputs' times, and the entries that were skipped.

    In dataflow order if there is a graph. An end is `never` if a time exceeded its word. Fills the record, if
    any.
    """
    count = len(inputs.cases)
    ends, skipped = np.zeros(count, inputs.terms.dtype), np.zeros(count, np.int64)
    in_ticks, end = inputs.terms.dtype == np.uint32, never(inputs)
    notes = None if in_ticks else record or no_record()  # what is None is not compiled

    def simulate(job: tuple[bool, np.ndarray]) -> None:
        plain, order = job
        state = new_state(inputs, order, record is not None)
        if plain:
            program_order.simulate_plain(inputs, state, order, ends, end)
        elif graph is None:
            program_order.simulate(inputs, state, order, ends, skipped, notes, end)
        else:
            rows = new_rows(inputs, graph, order)
            dataflow_order.simulate(inputs, state, graph, rows, order, ends, notes, end)

    plainly = in_ticks and graph is None
    jobs = [(plain, part) for plain, order in _by_loop(inputs, plainly) for part in _parts(inputs, order)]
    if len(jobs) == 1 or processors() == 1:
        for job in jobs:
            simulate(job)
    else:
        with ThreadPoolExecutor(processors()) as pool:
            list(pool.map(simulate, jobs))
    return ends, skipped


def never(inputs: Inputs) -> Any:
    """Return the time that is never reached, in the type of the inputs' times."""
    return np.uint32(2**32 - 1) if inputs.terms.dtype == np.uint32 else np.float64(np.inf)


def _by_loop(inputs: Inputs, plainly: bool) -> list[tuple[bool, np.ndarray]]:
    """Sort the cases so that neighbours are similar, long ones first; apart by whether they run `plainly`."""
    cases = inputs.cases.astype(np.int64)
    flags, scheduler = cases[:, layout.CASE_FLAGS], cases[:, layout.CASE_SCHEDULER]
    vectors = -(-(cases[:, layout.CASE_WARPS] * cases[:, layout.CASE_SLOTS]) // WIDTH)
    order = np.lexsort((-cases[:, layout.CASE_ENTRIES], flags, vectors))
    plain = ((flags & NOT_PLAIN == 0) & (scheduler == layout.RR))[order] & plainly
    return [(some, order[plain == some]) for some in (True, False) if (plain == some).any()]


def _parts(inputs: Inputs, order: np.ndarray) -> list[np.ndarray]:
    """Split an order into parts for the threads."""
    entries = int(inputs.cases[order, layout.CASE_ENTRIES].astype(np.int64).sum())
    parts = max(1, min(PARTS * processors(), entries // WORTH_A_PART, len(order))) if processors() > 1 else 1
    return [np.ascontiguousarray(order[n::parts]) for n in range(parts)]  # a loop is compiled for these


def new_record(inputs: Inputs, profile: bool = False) -> EntryRecord:
    """Make a record for the entries of all cases."""
    entries = int(inputs.cases[:, layout.CASE_ENTRIES].astype(np.int64).sum())
    profiled = entries if profile else 0
    return EntryRecord(
        True,
        profile,
        np.zeros(len(inputs.cases), np.int32),
        np.zeros(entries, np.int32),
        np.zeros(entries, np.int32),
        np.zeros(profiled),
        np.zeros(profiled, np.int32),
        np.zeros(profiled, np.int32),
    )
