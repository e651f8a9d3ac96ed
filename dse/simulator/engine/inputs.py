"""The inputs of a compiled loop, from the columns of some cases."""

from typing import Any

import numpy as np

from dse.core.numba_cache import compiled
from dse.simulator.engine import layout
from dse.simulator.engine.columns import CaseColumns, offsets, within
from dse.simulator.engine.layout import Inputs

WORTH_REPEATS = 16  # trips of a loop, or groups per slot, from which on a steady state may be worth finding
NEEDS = 4  # of an instruction in its row of words
_LAST, _BARRIER, _REPEATS, _FURTHER, _SLOT_AT, _NEED_AT = (
    int(getattr(layout, name)) for name in ("LAST", "BARRIER", "REPEATS", "FURTHER", "SLOT_AT", "NEED_AT")
)


def key_bits(columns: CaseColumns) -> np.ndarray:
    """Low bits of a word of ticks for a scheduler's key or a subsystem, [cases]."""
    return np.maximum(np.frexp(columns.warps * columns.slots)[1].astype(np.int64), 3)


def suit_ticks(columns: CaseColumns) -> np.ndarray:
    """Whether each case's terms are ticks and its makespan may fit: its busiest subsystem alone does."""
    room = layout.TOP >> key_bits(columns)
    with np.errstate(over="ignore", invalid="ignore"):
        ticks = 2.0**columns.survey.exponent
        return (columns.survey.largest * ticks < room / 2) & (columns.survey.busy.max(1) * ticks < room)


def make_inputs(
    columns: CaseColumns, numbers: np.ndarray, *, ticks: bool, record: bool = False, steady: bool = False
) -> tuple[Inputs, np.ndarray]:
    """Make the inputs of the cases with these numbers, and return the cycles of one unit of their times."""
    exponents = columns.survey.exponent[numbers]
    scale = 2.0 ** (exponents + key_bits(columns)[numbers]) if ticks else np.ones(len(numbers))
    programs = within(columns.program_first, numbers)
    first = offsets(columns.length[programs])
    total = int(first[-1]) + 1
    places, slots = columns.result_slots
    many = columns.pred_counts[columns.pred_counts > NEEDS] if columns.survey.preds.max() > NEEDS else ()
    words, further = np.zeros((total, 4), np.uint32), np.zeros(int(np.sum(many)) + 1, np.uint32)
    terms = np.zeros((total, 4), np.uint32 if ticks else np.float64)
    _fill(
        programs,
        first,
        np.repeat(scale, columns.program_counts[numbers]),
        places,
        slots,
        columns.loop_counts,
        columns.first,
        columns.instructions,
        words,
        terms,
        further,
    )
    loops, ends_loop, around = _loops(columns, programs, first, words)
    of_programs = np.zeros((len(programs), 4), np.uint32)
    of_programs[:, int(layout.PROGRAM_FIRST)] = first[:-1]
    of_programs[:, int(layout.PROGRAM_ENTRIES)] = columns.warp_entries[programs]
    of_programs[:, int(layout.PROGRAM_LENGTH)] = columns.length[programs]
    assignment = columns.assignment[within(columns.assigned, numbers)]
    assignment = assignment + np.repeat(
        offsets(columns.program_counts[numbers])[:-1], columns.periods[numbers]
    )
    window = np.maximum.reduceat(places, columns.program_first[:-1]) + 1
    window[columns.dataflow] = 1  # dataflow order has its own rows of results
    clock = np.zeros((len(numbers), 2), terms.dtype)
    clock[:, int(layout.INTERVAL)] = columns.valve[numbers] * scale
    clock[:, int(layout.LIMIT)] = layout.TOP - columns.survey.largest[numbers] * scale if ticks else np.inf
    caps = np.where(columns.caps < columns.entries[:, None], columns.caps, 0.0)[numbers]
    inputs = Inputs(
        words=words,
        terms=terms,
        further=further,
        loops=loops,
        ends_loop=ends_loop,
        around=around,
        programs=of_programs,
        assignment=assignment.astype(np.uint32),
        cases=_cases(columns, numbers, window, record=record, steady=steady),
        caps=caps.astype(np.uint32),
        clock=clock,
    )
    return inputs, 1.0 / scale


def rows_of(columns: CaseColumns, numbers: np.ndarray) -> np.ndarray:
    """Return the instructions of the columns that are the rows of the inputs of these cases."""
    return within(columns.first, within(columns.program_first, numbers))


def _cases(
    columns: CaseColumns, numbers: np.ndarray, window: np.ndarray, *, record: bool, steady: bool
) -> np.ndarray:
    """Make the rows of the cases."""
    survey, entries = columns.survey, columns.entries
    trips = np.zeros(len(columns.warps), np.int64)
    np.maximum.at(trips, np.repeat(columns.case, columns.loop_counts), columns.loops[:, 2])
    repeats = (trips >= WORTH_REPEATS) | (columns.groups >= WORTH_REPEATS * columns.slots)
    with np.errstate(over="ignore"):  # sums of ticks are exact in float64 up to 2^53
        exact = 2.0 * entries * survey.largest * 2.0**survey.exponent < 2.0**53
    flags = {
        layout.HAS_MANY: survey.preds > 2,
        layout.HAS_SAME_WARP: survey.same_warp,
        layout.HAS_CAPS: (columns.caps < entries[:, None]).any(1),
        layout.HAS_BARRIERS: survey.barriers,
        layout.HAS_SEQUENCE: columns.groups > columns.slots,
        layout.HAS_LOOPS: trips > 0,
        layout.HAS_SEVERAL: columns.periods > 1,
        layout.HAS_VALVE: columns.valve > 0,
    }
    by_column = {
        layout.CASE_ENTRIES: entries,
        layout.CASE_WARPS: columns.warps,
        layout.CASE_SLOTS: columns.slots,
        layout.CASE_GROUPS: columns.groups,
        layout.CASE_PERIOD: columns.periods,
        layout.CASE_SCHEDULER: columns.scheduler,
        layout.CASE_FLAGS: sum(int(flag) * has for flag, has in flags.items()),
        layout.CASE_WINDOW: window,
        layout.CASE_SUBSYSTEMS: columns.subsystems,
        layout.CASE_STEADY: repeats & exact & ~columns.dataflow & (steady and not record),
    }
    rows = np.zeros((len(numbers), layout.CASE_COLUMNS), np.uint32)
    for column, values in by_column.items():
        rows[:, int(column)] = values[numbers]
    rows[:, int(layout.CASE_ASSIGNED)] = offsets(columns.periods[numbers])[:-1]
    rows[:, int(layout.CASE_MASK)] = (1 << key_bits(columns)[numbers]) - 1
    if record:
        rows[:, int(layout.CASE_BASE)] = offsets(entries[numbers])[:-1]
    return rows


def _loops(
    columns: CaseColumns, programs: np.ndarray, first: np.ndarray, words: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Make the rows of loops, and flag the instructions at their ends."""
    count = int(columns.loop_counts[programs].sum())
    total = len(words) if count else 1
    loops, ends = np.zeros((count + 1, 4), np.uint32), np.zeros(total, np.uint32)
    around = np.zeros((total, int(layout.MOST_NESTED)), np.uint32)
    if count:
        _fill_loops(programs, first, columns.loop_first, columns.loops, loops, ends, around)
        words[:, 0] |= np.where(ends > 0, np.uint32(_REPEATS), np.uint32(0))
    return loops, ends, around


@compiled
def _fill(
    programs: Any,
    into: Any,
    scales: Any,
    places: Any,
    slots: Any,
    loop_counts: Any,
    first: Any,
    rows: Any,
    words: Any,
    terms: Any,
    further: Any,
) -> None:
    """Fill in the words and terms of the programs' instructions."""
    pred_first, pred = rows.pred_first, rows.pred
    count = 0  # of further needs
    for n in range(len(programs)):
        begin, end, row, scale = first[programs[n]], first[programs[n] + 1], into[n], scales[n]
        straight, ring = loop_counts[programs[n]] == 0, places[programs[n]]
        in_ring = 0
        for i in range(begin, end):
            slot = in_ring if straight else slots[i]
            word = rows.subsystem[i] | (slot + 1) << _SLOT_AT
            if rows.barrier[i]:
                word |= _BARRIER
            if i == end - 1:
                word |= _LAST
            for edge in range(pred_first[i], pred_first[i + 1]):
                nth = edge - pred_first[i]
                if straight:
                    need = in_ring - (i - begin - pred[edge])
                    need += 1 + (ring if need < 0 else 0)
                else:
                    need = slots[begin + pred[edge]] + 1
                if nth < NEEDS:
                    words[row, 1 + nth // 2] |= np.uint32(need << (_NEED_AT * (nth % 2)))
                    continue
                if nth == NEEDS:
                    word |= _FURTHER
                    words[row, 3] = count
                further[count] = need
                count += 1
            if word & _FURTHER:
                count += 1  # past the terminating 0
            words[row, 0] = word
            terms[row, 0] = rows.throughput_cycles[i] * scale
            terms[row, 1] = rows.latency_cycles[i] * scale
            terms[row, 2] = rows.same_warp[i] * scale
            row += 1
            in_ring = in_ring + 1 if in_ring + 1 < ring else 0


@compiled
def _fill_loops(
    programs: Any, into: Any, loop_first: Any, columns: Any, loops: Any, ends: Any, around: Any
) -> None:
    row = 0
    for n in range(len(programs)):
        begin, end = loop_first[programs[n]], loop_first[programs[n] + 1]
        for number in range(begin, end):  # outer loops first
            start, stop, trips = columns[number]
            depth = 0
            for outer in range(begin, number):
                depth += columns[outer, 0] <= start < columns[outer, 1]
            row += 1
            last = into[n] + stop - 1
            loops[row, 0] = into[n] + start
            loops[row, 1] = trips
            loops[row, 2] = depth
            loops[row, 3] = ends[last]
            ends[last] = row
            around[into[n] + start : last + 1, depth] = trips
