"""Simulate the cases of some columns, a batch at a time: in ticks where that is exact, else in float64."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from dse.core.numba_cache import compiled
from dse.simulator.engine import layout
from dse.simulator.engine.columns import CaseColumns
from dse.simulator.engine.driver import never, new_record, run
from dse.simulator.engine.graph import make_graph
from dse.simulator.engine.inputs import make_inputs, rows_of, suit_ticks
from dse.simulator.engine.layout import EntryRecord, Inputs

MOST_CASES = 8_192  # in a batch
MOST_RECORDED = 1 << 25  # entries of a batch with recorded causes: 8 bytes each


class Makespans(NamedTuple):
    """The results of the cases of some columns."""

    makespan: np.ndarray  # cycles [cases]
    in_ticks: np.ndarray  # bool [cases]
    skipped: np.ndarray  # entries [cases]
    counts: np.ndarray  # [4, instructions] of each term on the critical paths; [4, 0] without


def simulate_columns(
    columns: CaseColumns, critical: bool = False, steady: bool = True, ticks: bool = True
) -> Makespans:
    """Simulate the cases of some columns, as `simulate` does."""
    count = len(columns.warps)
    makespan = np.full(count, math.nan)
    in_ticks = np.zeros(count, bool)
    skipped = np.zeros(count, np.int64)
    counts = np.zeros((KINDS, len(columns.subsystem) if critical else 0), np.int64)
    suits = suit_ticks(columns) if ticks and not critical else np.zeros(count, bool)
    for ticks in (True, False):
        for numbers in batches(columns, np.nonzero(suits if ticks else np.isnan(makespan))[0], critical):
            inputs, unit = make_inputs(columns, numbers, ticks=ticks, record=critical, steady=steady)
            record = new_record(inputs) if critical else None
            graph = make_graph(columns, numbers) if columns.dataflow[numbers[0]] else None
            ends, leapt = run(inputs, graph, record)
            fits = ends < never(inputs)  # a makespan too large for ticks runs again in float64
            makespan[numbers] = np.where(fits, ends * unit, math.nan)
            skipped[numbers] = np.where(fits, leapt, 0)
            in_ticks[numbers] = ticks & fits
            if record is not None:
                counts[:, rows_of(columns, numbers)] = path_counts(inputs, record, ends)
    return Makespans(makespan, in_ticks, skipped, counts)


def batches(columns: CaseColumns, numbers: np.ndarray, record: bool) -> Iterator[np.ndarray]:
    """Split cases into batches of one order and limited size."""
    for order in (False, True):
        same_order = numbers[columns.dataflow[numbers] == order]
        count = len(same_order)
        recorded = columns.entries[same_order].cumsum() // MOST_RECORDED if record else np.zeros(count, int)
        part = np.stack([recorded, np.arange(count) // MOST_CASES])
        starts = np.nonzero((np.diff(part, axis=1) != 0).any(0))[0] + 1
        yield from (batch for batch in np.split(same_order, starts) if len(batch))


KINDS = 4


def path_counts(inputs: Inputs, record: EntryRecord, ends: np.ndarray) -> np.ndarray:
    """Count how often each instruction's terms are on the path of its case, int64 [4, instructions].

    In the order of the terms' codes; the valve's are counted at the entry that closed it. A case with an
    unknown end has no path.
    """
    counts = np.zeros((KINDS, len(inputs.words) - 1), np.int64)
    base = inputs.cases[:, layout.CASE_BASE].astype(np.int64)
    _walk(base, np.isfinite(ends), record.last, record.waited_for, record.term, counts)
    return counts


@compiled
def _walk(base: Any, walks: Any, last: Any, waited_for: Any, term: Any, counts: Any) -> None:
    for case in range(len(base)):
        entry, kind = last[case], layout.OF_LATENCY
        if not walks[case]:
            continue
        while entry >= 0:
            word = term[base[case] + entry]
            counts[kind, word >> 2] += 1
            entry, kind = waited_for[base[case] + entry], word & 3
