"""Batches: cases side by side, and the features that the loop needs for them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dse.simulator.case.program import SCHEDULERS, Case
from dse.simulator.engine.old_columns import Columns, ceil_power
from dse.simulator.engine.edges import edges_in_row
from dse.simulator.engine.features import BLOCK, SMALL_THROUGHPUT_BITS, Features
from dse.simulator.engine.tables import case_tables, dataflow_tables, instruction_tables, loop_tables

WORTH_TRIPS, WORTH_GROUPS = 16, 16  # of a loop, and per slot


@dataclass(frozen=True)
class CaseBatch:
    """Cases for one run of the loop: tables of instructions, programs and cases, padded to powers of two."""

    features: Features
    cases: np.ndarray  # their numbers in the list they come from, longest first
    entries: np.ndarray  # of each
    tick: np.ndarray  # cycles of each; 1 where times are float64
    columns: Columns  # in the same order
    tables: dict[str, np.ndarray]


def make_batch(
    cases: Sequence[Case],
    numbers: np.ndarray,
    *,
    ticks: bool,
    record: bool,
    steady: bool,
    width: int,
    lanes: int,
) -> CaseBatch:
    """Make the tables of the cases, which are `numbers` of a longer list; all of one order."""
    entries = np.array([case.entries for case in cases], np.int64)
    by_length = np.argsort(-entries, kind="stable")
    cases = [cases[i] for i in by_length]
    entries, numbers = entries[by_length], numbers[by_length]
    if cases[0].order == "dataflow":
        cases = [replace(case, programs=tuple(p.unrolled() for p in case.programs)) for case in cases]
    columns = Columns.of(cases)
    exponents = columns.exponents() if ticks else np.zeros(len(cases), int)
    features = _features(
        cases, columns, exponents, ticks=ticks, record=record, steady=steady, width=width, lanes=lanes
    )
    scale = 2.0 ** (exponents + (features.key_bits if ticks else 0))
    tables = instruction_tables(columns, features, scale) | case_tables(
        cases, columns, features, scale, entries
    )
    if features.loops:
        tables |= loop_tables(columns, features)
    if features.dataflow:
        tables |= dataflow_tables(columns, features)
    return CaseBatch(features, numbers, entries, 2.0**-exponents, columns, tables)


def _features(
    cases: Sequence[Case],
    columns: Columns,
    exponents: np.ndarray,
    *,
    ticks: bool,
    record: bool,
    steady: bool,
    width: int,
    lanes: int,
) -> Features:
    dataflow = cases[0].order == "dataflow"
    caps = [int(c) for case in cases if case.caps for c in case.caps if c < case.entries]
    sources = columns.pred + columns.starts[columns.owners]
    out_degree = np.bincount(sources, minlength=len(columns.subsystem)) if dataflow else np.zeros(1, int)
    if ticks:
        scale = np.repeat(2.0 ** exponents[columns.case], columns.length)
        small = (columns.throughput_cycles * scale).max() < 1 << SMALL_THROUGHPUT_BITS
        small &= (columns.latency_cycles * scale).max() < 1 << (32 - SMALL_THROUGHPUT_BITS)
    else:
        small = False
    return Features(
        dataflow=dataflow,
        ticks=ticks,
        width=width,
        lanes=lanes,
        subsystems=max(case.subsystems for case in cases),
        slots=ceil_power(max(case.slots for case in cases)),
        window=0 if dataflow else columns.slots[1],
        loops=max(p.depth for p in columns.programs),
        preds=_few(int(columns.pred_counts.max())),
        succs=edges_in_row(out_degree),
        length=-(-int(columns.length.max()) // BLOCK) * BLOCK if dataflow else 0,
        cap=ceil_power(max(caps)) if caps else 0,
        schedulers=tuple(any(case.scheduler == s for case in cases) for s in SCHEDULERS),
        valve=bool(columns.valve.any()),
        same_warp=bool(columns.same_warp.any()),
        barriers=bool(columns.barrier.any()),
        sequence=any(case.groups > case.slots for case in cases),
        several=any(len(case.assignment) > 1 for case in cases),
        packed=bool(small),
        record=record,
        steady=steady and not (dataflow or record) and any(map(repeats, cases)),
    )


def repeats(case: Case) -> bool:
    """Return whether a case may do the same often enough to look out for it."""
    trips = max((loop.trips for p in case.programs for loop in p.loops), default=0)
    return trips >= WORTH_TRIPS or case.groups >= WORTH_GROUPS * case.slots


def _few(n: int) -> int:
    """Round up to a power of two beyond 4, for fewer compilations."""
    return n if n <= 4 else ceil_power(n)
