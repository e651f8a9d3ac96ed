"""Tables that the loop over a batch reads: per instruction, per program, and per case."""

from collections.abc import Sequence

import numpy as np

from dse.simulator.case.program import SCHEDULERS, Case
from dse.simulator.engine.old_columns import Columns, ceil_power, padded
from dse.simulator.engine.edges import edge_rows
from dse.simulator.engine.features import (
    BARRIER,
    EDGE_BITS,
    LAST,
    NEED_BITS,
    NO_BARRIER,
    SLOT_AT,
    SMALL_THROUGHPUT_BITS,
    TOP,
    Features,
)


def instruction_tables(columns: Columns, features: Features, scale: np.ndarray) -> dict[str, np.ndarray]:
    """Make the words, needs and terms of all instructions; `scale` [cases] is what a cycle counts."""
    total = len(columns.subsystem)
    size = ceil_power(total + 1, 4)
    last = columns.last
    following = np.where(last, 0, np.roll(columns.subsystem, -1))
    word = columns.subsystem | following << 3
    word |= np.where(last, LAST, 0) | np.where(columns.barrier, BARRIER, 0)

    owners = columns.owners
    if features.dataflow:
        need = columns.distances()
    else:
        slots, _ = columns.slots
        word |= slots << SLOT_AT
        need = slots[columns.pred + columns.starts[owners]] + 1
    needs = np.zeros((max(features.preds, 1), total), np.int64)
    needs[columns.ranks(), owners] = need
    tables = {"word": padded(word.astype(np.uint32), size)}
    for n in range(0, features.preds, 2):
        pair = needs[n] | (needs[n + 1] << NEED_BITS if n + 1 < features.preds else 0)
        tables[f"needs{n}"] = padded(pair.astype(np.uint32), size)

    per_instruction = np.repeat(scale[columns.case], columns.length)
    dtype = np.uint32 if features.ticks else np.float64
    if features.packed:
        unshifted = per_instruction / 2.0**features.key_bits
        both = (columns.throughput_cycles * unshifted).astype(np.uint32)
        both |= (columns.latency_cycles * unshifted).astype(np.uint32) << SMALL_THROUGHPUT_BITS
        tables["terms"] = padded(both, size)
    else:
        for name in ("throughput_cycles", "latency_cycles"):
            tables[name] = padded((getattr(columns, name) * per_instruction).astype(dtype), size)
    if features.same_warp:
        tables["same_warp"] = padded((columns.same_warp * per_instruction).astype(dtype), size)
    return tables


def loop_tables(columns: Columns, features: Features) -> dict[str, np.ndarray]:
    """Make the tables of loops, per depth: trips and start at the last instruction, and trips for all."""
    size = ceil_power(len(columns.subsystem) + 1, 4)
    names = ("trips", "back", "around")
    tables = {f"{name}{d}": np.zeros(size, np.int32) for name in names for d in range(features.loops)}
    for program, first in zip(columns.programs, columns.first.tolist(), strict=True):
        for loop in program.loops:
            d = program.around(loop.first).index(loop)
            tables[f"trips{d}"][first + loop.stop - 1] = loop.trips
            tables[f"back{d}"][first + loop.stop - 1] = first + loop.first
            tables[f"around{d}"][first + loop.first : first + loop.stop] = loop.trips
    return tables


def dataflow_tables(columns: Columns, features: Features) -> dict[str, np.ndarray]:
    """Make the tables of dataflow order: what instructions feed and start with, and where warps meet."""
    size = ceil_power(len(columns.subsystem) + 1, 4)
    dtype = np.uint32 if features.ticks else np.float64
    never = np.uint32(2**32 - 1) if features.ticks else np.inf
    initial = np.where(columns.pred_counts > 0, never, columns.subsystem if features.ticks else 0.0)
    end = segment_ends(columns)
    return {
        # Rows are cut as one piece, beyond the end of the last program, too.
        "initial": padded(initial.astype(dtype), size + features.length),
        "subsystem": padded(columns.subsystem, size + features.length),
        # Past a barrier: none is left where it was the last, and what lies behind is another program's.
        "segment_after": padded(np.where(columns.last, 0, np.roll(end, -1)).astype(np.int32), size),
        "program_end": padded(end[columns.first], ceil_power(len(columns.length), 4)),
        **edge_tables(columns, features),
    }


def edge_tables(columns: Columns, features: Features) -> dict[str, np.ndarray]:
    """Make the rows of edges, and each row's next one.

    An edge has the distance to the instruction ahead (0 for none), the distances from there back to what else
    that one needs, and its subsystem.
    """
    owners = columns.owners  # where an edge leads
    sources = columns.pred + columns.starts[owners]
    at, following = edge_rows(sources, len(columns.subsystem), features.succs)
    rows = ceil_power(len(following) + 1, 4)
    size = rows * features.succs
    count = columns.pred_counts[owners]
    first = (np.cumsum(columns.pred_counts) - columns.pred_counts)[owners]
    nth = np.arange(len(owners)) - first
    distances = np.zeros((-(-max(features.preds, 2) // 2) * 2, size), np.uint32)
    for n in range(features.preds):  # its own, then the other predecessors' in turn
        has = n < count
        distances[n, at[has]] = owners[has] - sources[(first + (nth + n) % count)[has]]
    tables = {"following": padded(following, rows)}
    for n in range(0, len(distances), 2):
        tables[f"edges{n}"] = distances[n] | distances[n + 1] << EDGE_BITS
    tables["edges0"][at] |= (columns.subsystem[owners] << 2 * EDGE_BITS).astype(np.uint32)
    return tables


def segment_ends(columns: Columns) -> np.ndarray:
    """Find for each instruction the number in its program of the next barrier, itself included.

    Where there is none, the program's length, with a bit that no number has.
    """
    total = len(columns.subsystem)
    starts = columns.starts
    stops = starts + np.repeat(columns.length, columns.length)
    at = np.where(columns.barrier, np.arange(total), total)
    following = np.minimum.accumulate(at[::-1])[::-1]
    end = np.minimum(following, stops) - starts
    return np.where(following < stops, end, end | NO_BARRIER).astype(np.int32)


def case_tables(
    cases: Sequence[Case], columns: Columns, features: Features, scale: np.ndarray, entries: np.ndarray
) -> dict[str, np.ndarray]:
    """Make the tables of cases, with an empty one at the end; of programs; and of who runs which."""
    size = ceil_power(len(cases) + 1, 4)
    programs_before = np.cumsum([0, *(len(case.programs) for case in cases)])[:-1]
    dtype = np.uint32 if features.ticks else np.float64
    limit = TOP - columns.largest() * scale if features.ticks else np.full(len(cases), np.inf)
    small = {
        "warps": [case.warps for case in cases],
        "resident": [case.warps * case.slots for case in cases],
        "slots": [case.slots for case in cases],
        "groups": [case.groups for case in cases],
        "entries": entries,
        "base": np.cumsum(entries) - entries if features.record else 0 * entries,
        "scheduler": [SCHEDULERS.index(case.scheduler) for case in cases],
        "program": [case.assignment[0] for case in cases] + programs_before,
        "period": [len(case.assignment) for case in cases],
        "assignment": np.cumsum([0, *(len(case.assignment) for case in cases)])[:-1],
    }
    tables = {f"case_{name}": padded(np.asarray(x, np.int32), size) for name, x in small.items()}
    tables["case_limit"] = padded(limit.astype(dtype), size)
    tables["case_case"] = np.arange(size, dtype=np.int32)
    tables["case_interval"] = padded((columns.valve * scale).astype(dtype), size)
    # Sums of ticks are exact in float64, too, up to 2^53.
    exact = 2.0 * entries * columns.largest() * 2.0 ** columns.exponents() < 2.0**53
    tables["case_steady"] = padded(exact, size)
    caps = np.zeros((features.subsystems, size), np.int32)
    if features.cap:
        for c, case in enumerate(cases):
            caps[: len(case.caps), c] = [int(cap) if cap < entries[c] else 0 for cap in case.caps]
    tables["case_cap"] = caps
    programs = ceil_power(len(columns.length), 4)
    entries_of = np.array([p.entries for p in columns.programs], np.int32)
    tables["program_first"] = padded(columns.first, programs)
    tables["program_entries"] = padded(entries_of, programs)
    tables["program_subsystem"] = padded(columns.subsystem[columns.first], programs)
    if features.several:
        chosen = np.concatenate([case.assignment for case in cases]).astype(np.int32)
        chosen += np.repeat(programs_before, [len(case.assignment) for case in cases]).astype(np.int32)
        tables["assignment"] = padded(chosen, ceil_power(len(chosen), 4))
    tables["count"] = np.asarray(len(cases), np.int32)
    return tables
