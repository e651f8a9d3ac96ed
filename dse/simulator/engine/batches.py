"""Simulate the cases of some columns, a batch at a time: in ticks where that is exact, else in float64."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dse.simulator.engine.columns import CaseColumns
from dse.simulator.engine.critical_path import KINDS, path_counts
from dse.simulator.engine.driver import never, new_record, run
from dse.simulator.engine.graph import make_graph
from dse.simulator.engine.inputs import make_inputs, rows_of, suit_ticks

MOST_CASES = 8_192  # at a time
MOST_RECORDED = 1 << 25  # entries at a time whose causes are kept: 8 bytes each


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
            known = ends < never(inputs)
            makespan[numbers] = np.where(known, ends * unit, math.nan)
            skipped[numbers] = np.where(known, leapt, 0)
            in_ticks[numbers] = ticks & known
            if record is not None:
                counts[:, rows_of(columns, numbers)] = path_counts(inputs, record, ends)
    return Makespans(makespan, in_ticks, skipped, counts)


def batches(columns: CaseColumns, numbers: np.ndarray, record: bool) -> Iterator[np.ndarray]:
    """Cut the numbers of cases into those to simulate at a time: of one order, and this many at most."""
    for order in (False, True):
        alike = numbers[columns.dataflow[numbers] == order]
        recorded = columns.entries[alike].cumsum() // MOST_RECORDED if record else np.zeros(len(alike), int)
        part = np.stack([recorded, np.arange(len(alike)) // MOST_CASES])
        starts = np.nonzero((np.diff(part, axis=1) != 0).any(0))[0] + 1
        yield from (some for some in np.split(alike, starts) if len(some))
