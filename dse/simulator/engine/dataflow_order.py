"""The loop of dataflow order: any instruction with available operands may enter, up to the next barrier.

A warp has a row with the time from which each instruction may enter, apart from limits of its subsystem and
of the whole warp: `never` if it has entered, waits for a result, or follows a barrier. Minima are kept for
each block of a row and each subsystem, and of these for the row, so that a step searches the warps, then the
blocks of one warp, then one block, instead of all instructions.
"""

from typing import Any, NamedTuple

import numpy as np

from dse.core.numba_cache import compiled, inlined
from dse.simulator.engine import layout as of
from dse.simulator.engine import state as at
from dse.simulator.engine.begin import ONE, ZERO, begin_case, leave, next_lane, take_turns
from dse.simulator.engine.causes import note_cause, note_entry
from dse.simulator.engine.graph import BLOCK, Graph
from dse.simulator.engine.layout import EntryRecord, Index, Inputs, Place
from dse.simulator.engine.pick import Warps, picker
from dse.simulator.engine.state import NOBODY, State
from dse.simulator.engine.step import in_group, into_ring, meet, note_issue
from dse.simulator.engine.vectors import early, least, lowest_bit

LANES = Index(2)  # fewer than in program order: a step has more independent work of its own
FOUR, SIZE, ROW = Index(4), Index(BLOCK), Index(at.ROW)
ALL = Index((1 << BLOCK) - 1)  # instructions of a block
# Programs are unrolled in this order, so the rows of trips are reused: first instruction and first block of a
# warp's program, number of entered instructions, and number of the next barrier, or the length.
FIRST, FIRST_BLOCK, ENTERED, STOP = (at.TRIPS + Index(n) * ROW for n in range(4))
# A lane's part of `keys` has a gate for each subsystem, then a row of warps for each.
GATES, KEYS = ZERO, of.MOST_SUBSYSTEMS * Index(2)
KEYS_OF_LANE = KEYS + of.MOST_SUBSYSTEMS * ROW


class GraphRows(NamedTuple):
    """The rows of all lanes' warps: instructions, blocks by subsystem, subsystems."""

    may: np.ndarray  # T: when an instruction may enter
    ready: np.ndarray  # T: when its operands so far are ready; after its entry, when its own result is
    missing: np.ndarray  # uint32: operands that have not entered; after its entry, the entry's number
    least: np.ndarray  # T: when the first instruction of a block and subsystem may enter
    keys: np.ndarray  # T: when the first instruction of a subsystem and warp may enter
    instructions: Index  # of a lane
    blocks: Index


def new_rows(inputs: Inputs, graph: Graph, order: np.ndarray) -> GraphRows:
    """Make rows for the largest of the cases `order`."""
    cases, time, lanes = inputs.cases[order].astype(np.int64), inputs.terms.dtype, int(LANES)
    resident = cases[:, of.CASE_WARPS] * cases[:, of.CASE_SLOTS]
    instructions = int((resident * graph.stride[order]).max(initial=0))
    blocks = int((resident * cases[:, of.CASE_SUBSYSTEMS] * graph.blocks[order]).max(initial=0))
    return GraphRows(
        may=at.zeros(lanes * instructions, time),
        ready=at.zeros(lanes * instructions, time),
        missing=at.zeros(lanes * instructions, np.uint32),
        least=at.zeros(lanes * blocks, time),
        keys=at.zeros(lanes * int(KEYS_OF_LANE), time),
        instructions=Index(instructions),
        blocks=Index(blocks),
    )


class _WarpsWithRows(Warps):
    """Warps with a row of times for each subsystem."""

    def earliest(self, nth: Any) -> Any:
        """Return the time from which each warp of the n-th vector may issue."""
        earliest = None
        for s, gate in enumerate(self.gates):
            row = self.builder.add(self.own, self.own.type(s * at.ROW))
            of_subsystem = self.later(self.load(self.time_data, row, nth, self.times), gate)
            earliest = of_subsystem if earliest is None else self.least(earliest, of_subsystem)
        return self.later(earliest, self.valve)


_pick_of_2, _pick_of_4, _pick_of_8 = (picker(subsystems, _WarpsWithRows) for subsystems in (2, 4, 8))


@inlined
def _begin_case(
    state: State, inputs: Inputs, graph: Graph, rows: GraphRows, lane: Place, case: Place, never: Any,
    recording: bool,
) -> None:  # fmt: skip
    """Put a case into a lane."""
    begin_case(state, inputs, lane, case, never, recording)
    t, n, keys = lane * at.TIMES, lane * at.COUNTS, lane * KEYS_OF_LANE
    resident = Index(state.counts[n + at.WARPS]) * Index(state.counts[n + at.SLOTS])
    _begin_warps(state, graph, rows, t, n, ZERO, resident, never)
    for s in range(of.MOST_SUBSYSTEMS):
        rows.keys[keys + GATES + s] = ZERO
        # Neither the padding of the last vector nor an unused subsystem ever issues.
        begin = resident if s < state.counts[n + at.SUBSYSTEMS] else ZERO
        for w in range(begin, Index(state.counts[n + at.VECTORS]) * Index(16)):
            rows.keys[keys + KEYS + s * ROW + w] = never


@inlined
def _begin_warps(
    state: State, graph: Graph, rows: GraphRows, t: Place, n: Place, begin: Place, end: Place, never: Any
) -> None:
    """Fill the rows of the warps from `begin` to `end`, at the start of their programs."""
    counts = state.counts
    none = state.times.dtype.type(0)
    stride, blocks = Index(graph.stride[counts[n + at.CASE]]), Index(graph.blocks[counts[n + at.CASE]])
    for number in range(begin, end):
        w = Index(number)
        first = Index(counts[n + at.NEXT + w]) // FOUR
        stop = Index(graph.stop[first])
        counts[n + FIRST + w] = first
        counts[n + FIRST_BLOCK + w] = graph.first_block[first]
        counts[n + ENTERED + w] = ZERO
        counts[n + STOP + w] = stop
        row, row_of_blocks = _rows(state, graph, rows, n, w)
        for i in range(Index(graph.length[first])):
            rows.missing[row + i] = graph.needs[first + i]
            rows.ready[row + i] = none
        for i in range(row, row + stride):
            rows.may[i] = never
        for k in range(row_of_blocks, row_of_blocks + blocks * Index(counts[n + at.SUBSYSTEMS])):
            rows.least[k] = never
        _open(state, graph, rows, n, w, ZERO, max(stop, ONE))  # the first instruction may be a barrier
        _set_keys(state, graph, rows, t, n, w, never)


@inlined
def _rows(state: State, graph: Graph, rows: GraphRows, n: Place, w: Place) -> tuple[Place, Place]:
    """Return the offsets of a warp's row of instructions, and of its blocks for the first subsystem."""
    counts = state.counts
    case, lane = counts[n + at.CASE], Index(counts[n + at.LANE])
    row_of_blocks = w * Index(counts[n + at.SUBSYSTEMS]) * Index(graph.blocks[case])
    return lane * rows.instructions + w * Index(graph.stride[case]), lane * rows.blocks + row_of_blocks


@inlined
def _open(state: State, graph: Graph, rows: GraphRows, n: Place, w: Place, begin: Place, end: Place) -> None:
    """Release the instructions from `begin` to `end` that have their operands, after a barrier."""
    row, row_of_blocks = _rows(state, graph, rows, n, w)
    first, blocks = Index(state.counts[n + FIRST + w]), Index(graph.blocks[state.counts[n + at.CASE]])
    for i in range(begin, end):
        if rows.missing[row + i] == ZERO:
            _let(graph, rows, first, row, row_of_blocks, blocks, Index(i), rows.ready[row + i])


@inlined
def _let(
    graph: Graph,
    rows: GraphRows,
    first: Place,
    row: Place,
    row_of_blocks: Place,
    blocks: Place,
    i: Place,
    ready: Any,
) -> None:
    """Release instruction i of a warp from the time `ready` on."""
    k = row_of_blocks + Index(graph.subsystem[first + i]) * blocks + i // SIZE
    rows.may[row + i] = ready
    rows.least[k] = min(rows.least[k], ready)


@inlined
def _set_keys(state: State, graph: Graph, rows: GraphRows, t: Place, n: Place, w: Place, never: Any) -> None:
    """Compute the times from which the first instruction of each subsystem may enter."""
    blocks = Index(graph.blocks[state.counts[n + at.CASE]])
    _, row = _rows(state, graph, rows, n, w)
    key = Index(state.counts[n + at.LANE]) * KEYS_OF_LANE + KEYS + w
    held = state.times[t + at.OWN + w]
    for _ in range(Index(state.counts[n + at.SUBSYSTEMS])):
        first = never
        for k in range(row, row + blocks, SIZE):
            first = min(first, least(rows.least, k, never, ALL))
        rows.keys[key] = max(first, held)
        row, key = row + blocks, key + ROW


@compiled
def simulate(
    inputs: Inputs, state: State, graph: Graph, rows: GraphRows, order: np.ndarray, ends: np.ndarray,
    record: EntryRecord | None, never: Any,
) -> None:  # fmt: skip
    """Simulate cases with all features; without `record`, nothing that records causes is compiled."""
    recording = False
    if record is not None:
        recording = record.record
    times, counts = state.times, state.counts
    words, terms = inputs.words.reshape(-1), inputs.terms.reshape(-1)
    waiting, last_case = min(LANES, Index(len(order))), Index(len(order))
    for lane in range(waiting):
        _begin_case(state, inputs, graph, rows, Index(lane), Index(order[lane]), never, recording)
    take_turns(state, waiting)
    busy, t, n = waiting, ZERO, ZERO
    while busy > ZERO:
        while True:
            keys = Index(counts[n + at.LANE]) * KEYS_OF_LANE
            shift, mask = Index(counts[n + at.SHIFT]), Index(counts[n + at.MASK])
            subsystems = Index(counts[n + at.SUBSYSTEMS])
            picked = (
                rows.keys, counts, keys + KEYS, keys + GATES, ZERO, n + at.KEY,
                Index(counts[n + at.VECTORS]), np.uint32(shift), times[t + at.VALVE], np.uint32(mask),
            )  # fmt: skip
            if subsystems <= Index(2):
                now, key = _pick_of_2(*picked)
            elif subsystems <= Index(4):
                now, key = _pick_of_4(*picked)
            else:
                now, key = _pick_of_8(*picked)
            if now >= times[t + at.LIMIT]:
                break
            w = (key + shift) & mask
            scheduler = Index(counts[n + at.SCHEDULER])
            if scheduler != of.RR:
                w = Index(counts[n + at.WARP_AT + w])

            # The warp's candidate is its first ready instruction. With a valve it may have been ready before
            # `now`, so the threshold is computed again without the valve.
            threshold = never
            for s in range(subsystems):
                threshold = min(
                    threshold, max(rows.keys[keys + KEYS + s * ROW + w], rows.keys[keys + GATES + s])
                )
            row, row_of_blocks = _rows(state, graph, rows, n, w)
            blocks = Index(graph.blocks[counts[n + at.CASE]])
            block = blocks
            for s in range(subsystems):
                if rows.keys[keys + GATES + s] <= threshold:
                    for k in range(ZERO, blocks, SIZE):
                        bits = early(rows.least, row_of_blocks + s * blocks + k, threshold)
                        if bits != ZERO:  # lowest_bit would return 64, a valid block
                            block = min(block, k + lowest_bit(bits))
            members, opened = (Index(counts[n + FIRST_BLOCK + w]) + block) * of.MOST_SUBSYSTEMS, ZERO
            for s in range(subsystems):
                if rows.keys[keys + GATES + s] <= threshold:
                    opened |= Index(graph.members[members + s])
            block_row = row + block * SIZE
            warp = lowest_bit(early(rows.may, block_row, threshold) & opened)
            i, first = block * SIZE + warp, Index(counts[n + FIRST + w])
            j = first + i
            word = Index(words[j * FOUR + of.WORD])
            s = word & of.SUBSYSTEM_MASK
            others = Index(graph.members[members + s]) & ~(ONE << warp)
            rows.least[row_of_blocks + s * blocks + block] = least(rows.may, block_row, never, others)
            rows.may[block_row + warp] = never

            done, wake = now + terms[j * FOUR + of.LATENCY], now + terms[j * FOUR + of.SAME_WARP]
            if record is not None and recording:
                _note_needs(state, graph, rows, t, n, w, row, j)
                note_cause(state, record, t, n, w, s, j, now)
                rows.ready[row + i], rows.missing[row + i] = done, counts[n + at.ENTERED]
                unused = Index(counts[n + at.RESULTS + w])
                note_entry(state, t, n, w, s, unused, done, wake, (word & of.BARRIER) != ZERO)

            # Instructions that wait for its result.
            stop = Index(counts[n + STOP + w])
            for edge in range(Index(graph.succ_first[j]), Index(graph.succ_first[j + ONE])):
                to = Index(graph.succ[edge])
                ready = max(rows.ready[row + to], done)
                rows.ready[row + to] = ready
                missing = rows.missing[row + to] - ONE
                rows.missing[row + to] = missing
                if missing == ZERO and to < stop:
                    _let(graph, rows, first, row, row_of_blocks, blocks, to, ready)

            # The core.
            times[t + at.OWN + w] = wake
            times[t + at.VALVE] = now + times[t + at.INTERVAL]
            times[t + at.END] = max(times[t + at.END], done)
            gate = now + terms[j * FOUR + of.THROUGHPUT]
            flags = Index(counts[n + at.FLAGS])
            if record is not None and recording:
                times[t + at.FREE + s] = gate
                counts[n + at.ENTERED] += ONE
            if flags & of.HAS_CAPS:
                gate = max(gate, into_ring(state, n, s, done))
            rows.keys[keys + GATES + s] = gate
            note_issue(state, n, w, scheduler)

            if flags & (of.HAS_BARRIERS | of.HAS_SEQUENCE):
                slot, warps = Index(counts[n + at.SLOT + w]), Index(counts[n + at.WARPS])
                if flags & of.HAS_BARRIERS:
                    entered, length = Index(counts[n + ENTERED + w]) + ONE, Index(graph.length[first])
                    counts[n + ENTERED + w] = entered
                    if word & of.BARRIER:
                        stop = Index(graph.stop[j + ONE]) if i + ONE < length else length
                        counts[n + STOP + w] = stop
                        _open(state, graph, rows, n, w, i + ONE, stop)
                        if meet(state, t, n, w, slot, done, never):
                            for other in range(slot * warps, slot * warps + warps):
                                _set_keys(state, graph, rows, t, n, Index(other), never)
                    if entered == stop and stop < length:
                        _open(state, graph, rows, n, w, stop, stop + ONE)
                if flags & of.HAS_SEQUENCE and in_group(state, inputs, t, n, slot, done, never, recording):
                    _begin_warps(state, graph, rows, t, n, slot * warps, slot * warps + warps, never)
            _set_keys(state, graph, rows, t, n, w, never)
            t, n = next_lane(state, n)

        # No warp is left, or the times exceed their word: then the end is unknown (`never`).
        case, lane = counts[n + at.CASE], Index(counts[n + at.LANE])
        ends[case] = times[t + at.END]
        for s in range(Index(counts[n + at.SUBSYSTEMS])):
            for w in range(Index(counts[n + at.WARPS]) * Index(counts[n + at.SLOTS])):
                if rows.keys[lane * KEYS_OF_LANE + KEYS + s * ROW + w] != never:
                    ends[case] = never
        if record is not None and recording:
            record.last[case] = counts[n + at.END_ID]
        if waiting < last_case:
            _begin_case(state, inputs, graph, rows, lane, Index(order[waiting]), never, recording)
            waiting += ONE
        else:
            t, n = leave(state, n)
            busy -= ONE


@inlined
def _note_needs(
    state: State, graph: Graph, rows: GraphRows, t: Place, n: Place, w: Place, row: Place, j: Place
) -> None:
    """Record when the operands of instruction j are ready, and the first of the latest ones."""
    latest, number = state.times.dtype.type(0), NOBODY
    for at_pred in range(Index(graph.pred_first[j]), Index(graph.pred_first[j + ONE])):
        pred = row + Index(graph.pred[at_pred])
        if rows.ready[pred] > latest or number == NOBODY:
            latest, number = rows.ready[pred], Index(rows.missing[pred])
    state.times[t + at.NEEDED + w] = latest
    state.counts[n + at.NEEDED_ID + w] = number
