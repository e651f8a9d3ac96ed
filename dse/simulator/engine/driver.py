"""The driver: the cases of some inputs to the loop that fits them, on all cores."""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from dse.simulator.engine import dataflow_order, layout
from dse.simulator.engine.graph import Graph
from dse.simulator.engine.layout import Inputs, Record, no_record
from dse.simulator.engine.pick import WIDTH
from dse.simulator.engine.program_order import simulate_any, simulate_plain, simulate_recording
from dse.simulator.engine.state import new_state

PLAIN = ~int(layout.HAS_VALVE | layout.HAS_SEVERAL)  # of the flags, what the plain loop has nothing for
PARTS = 8  # for each thread: cases differ in length
WORTH_A_THREAD = 1 << 18  # entries: about two milliseconds


def run(
    inputs: Inputs, record: Record | None = None, graph: Graph | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Simulate all cases: their ends in the type of the inputs' times, and the entries that were skipped.

    In dataflow order where there is a graph. An end is `never` where a time grew too large for its word. The record is filled where there is one.
    """
    count = len(inputs.cases)
    ends, skipped = np.zeros(count, inputs.terms.dtype), np.zeros(count, np.int64)
    end = never(inputs)
    jobs = [(loop, part) for loop, order in _by_loop(inputs, record, graph) for part in _parts(inputs, order)]

    def one(job: tuple[Any, np.ndarray]) -> None:
        loop, order = job
        state = new_state(inputs, order, record is not None)
        if graph is None:
            loop(inputs, state, order, ends, skipped, record or no_record(), end)
        else:
            rows = dataflow_order.new_rows(inputs, graph, order)
            loop(inputs, state, graph, rows, order, ends, record or no_record(), end)

    if len(jobs) == 1 or threads() == 1:
        for job in jobs:
            one(job)
    else:
        with ThreadPoolExecutor(threads()) as pool:
            list(pool.map(one, jobs))
    return ends, skipped


def threads() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def never(inputs: Inputs) -> Any:
    """Return the time that does not come, in the type of the inputs' times."""
    return np.uint32(2**32 - 1) if inputs.terms.dtype == np.uint32 else np.float64(np.inf)


def _by_loop(inputs: Inputs, record: Record | None, graph: Graph | None) -> list[tuple[Any, np.ndarray]]:
    """Sort the cases by the loop that simulates them, and then so that neighbours are alike: long ones first."""
    cases = inputs.cases.astype(np.int64)
    vectors = -(-(cases[:, layout.CASE_WARPS] * cases[:, layout.CASE_SLOTS]) // WIDTH)
    order = np.lexsort((-cases[:, layout.CASE_ENTRIES], cases[:, layout.CASE_FLAGS], vectors))
    if graph is not None:
        return [(dataflow_order.simulate_recording if record else dataflow_order.simulate_any, order)]
    if record is not None:
        return [(simulate_recording, order)]
    plain = (cases[:, layout.CASE_FLAGS] & PLAIN == 0) & (cases[:, layout.CASE_SCHEDULER] == layout.RR)
    plain &= inputs.terms.dtype == np.uint32
    loops = ((simulate_plain, order[plain[order]]), (simulate_any, order[~plain[order]]))
    return [(loop, order) for loop, order in loops if len(order)]


def _parts(inputs: Inputs, order: np.ndarray) -> list[np.ndarray]:
    """Cut an order into parts for the threads."""
    entries = int(inputs.cases[order, layout.CASE_ENTRIES].astype(np.int64).sum())
    parts = min(PARTS * threads(), entries // WORTH_A_THREAD, len(order)) if threads() > 1 else 1
    return [order[n :: max(parts, 1)] for n in range(max(parts, 1))]


def new_record(inputs: Inputs, profile: bool = False) -> Record:
    """Make a record for the entries of all cases."""
    entries = int(inputs.cases[:, layout.CASE_ENTRIES].astype(np.int64).sum())
    profiled = entries if profile else 0
    return Record(
        True,
        profile,
        np.zeros(len(inputs.cases), np.int32),
        np.zeros(entries, np.int32),
        np.zeros(entries, np.int32),
        np.zeros(profiled),
        np.zeros(profiled, np.int32),
        np.zeros(profiled, np.int32),
    )
