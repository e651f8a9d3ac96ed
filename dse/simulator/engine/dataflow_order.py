"""The loop of dataflow order: any instruction whose operands are there may enter, up to the next barrier.

A warp has a row of the times from which its instructions may enter, but for their subsystems and what holds
the whole warp: `never` for those that have entered, wait for a result, or lie behind a barrier. Of each block
of a row and each subsystem the least is kept, and of these again the least of the row, so that a step looks
through the warps, then through the blocks of one, then at the instructions of one block.

One case at a time: a step has enough to do that does not wait for the one before.
"""

from typing import Any, NamedTuple

import numpy as np

from dse.simulator.engine import layout as of
from dse.simulator.engine import state as at
from dse.simulator.engine.begin import ONE, ZERO, begin_case
from dse.simulator.engine.compile import compiled, inlined
from dse.simulator.engine.entry import in_group, into_ring, meet
from dse.simulator.engine.graph import BLOCK, Graph
from dse.simulator.engine.layout import Index, Inputs, Record
from dse.simulator.engine.pick_rows import pick_row_of_2, pick_row_of_4, pick_row_of_8
from dse.simulator.engine.state import NOBODY, State
from dse.simulator.engine.vectors import early, least, lowest_bit

LANE, FOUR, SIZE, ROW = Index(0), Index(4), Index(BLOCK), Index(at.ROW)
ALL = Index((1 << BLOCK) - 1)  # of a block
# No program loops in this order: the rows of trips are free for a warp's entered instructions, the number of
# the one that it may not pass, and its program's first block.
ENTERED, STOP, FIRST_BLOCK = at.TRIPS, at.TRIPS + ROW, at.TRIPS + ROW + ROW


class Rows(NamedTuple):
    """The rows of a case's warps: of instructions, of blocks for each subsystem, and of subsystems."""

    may: np.ndarray  # T: when an instruction may enter
    ready: np.ndarray  # T: when the last of its operands is there that has entered
    missing: np.ndarray  # uint32: how many of these have not
    least: np.ndarray  # T: of each block, when the first instruction of a subsystem may enter
    keys: np.ndarray  # T [8 · ROW]: of each subsystem and warp, when the first instruction may


def new_rows(inputs: Inputs, graph: Graph, order: np.ndarray) -> Rows:
    """Make rows for the largest of the cases `order`."""
    cases, time = inputs.cases[order].astype(np.int64), inputs.terms.dtype
    resident = cases[:, of.CASE_WARPS] * cases[:, of.CASE_SLOTS]
    instructions = int((resident * graph.stride[order]).max(initial=0))
    blocks = int((resident * cases[:, of.CASE_SUBSYSTEMS] * graph.blocks[order]).max(initial=0))
    return Rows(
        may=np.zeros(instructions, time),
        ready=np.zeros(instructions, time),
        missing=np.zeros(instructions, np.uint32),
        least=np.zeros(blocks, time),
        keys=np.zeros(int(of.MOST_SUBSYSTEMS) * at.ROW, time),
    )


@inlined
def _begin(state: State, graph: Graph, rows: Rows, begin: Index, end: Index, never: Any) -> None:
    """Fill the rows of some warps, which are at the start of their programs."""
    counts = state.counts
    none = state.times.dtype.type(0)
    stride, blocks = Index(graph.stride[counts[at.CASE]]), Index(graph.blocks[counts[at.CASE]])
    of_warp = blocks * Index(counts[at.SUBSYSTEMS])
    for w in range(begin, end):
        first = Index(counts[at.NEXT + w])
        for i in range(Index(graph.length[first])):
            rows.missing[w * stride + i] = graph.needs[first + i]
            rows.ready[w * stride + i] = none
        for i in range(w * stride, w * stride + stride):
            rows.may[i] = never
        for k in range(w * of_warp, w * of_warp + of_warp):
            rows.least[k] = never
        counts[ENTERED + w] = ZERO
        counts[STOP + w] = graph.stop[first]
        counts[FIRST_BLOCK + w] = graph.first_block[first]
        _open(state, graph, rows, w, ZERO, max(Index(graph.stop[first]), ONE))  # a barrier may come first
        _set_keys(state, graph, rows, w, never)


@inlined
def _open(state: State, graph: Graph, rows: Rows, w: Index, begin: Index, end: Index) -> None:
    """Let those of some instructions enter that have their operands, as no barrier holds them any longer."""
    row = w * Index(graph.stride[state.counts[at.CASE]])
    for i in range(begin, end):
        if rows.missing[row + i] == ZERO:
            _let(state, graph, rows, w, i, rows.ready[row + i])


@inlined
def _let(state: State, graph: Graph, rows: Rows, w: Index, i: Index, ready: Any) -> None:
    """Let instruction i of a warp enter from a time on."""
    counts = state.counts
    stride, blocks = Index(graph.stride[counts[at.CASE]]), Index(graph.blocks[counts[at.CASE]])
    s = Index(graph.subsystem[counts[at.NEXT + w] + i])
    k = (w * Index(counts[at.SUBSYSTEMS]) + s) * blocks + i // SIZE
    rows.may[w * stride + i] = ready
    rows.least[k] = min(rows.least[k], ready)


@inlined
def _set_keys(state: State, graph: Graph, rows: Rows, w: Index, never: Any) -> None:
    """Note when the first instruction of each subsystem may enter."""
    held, blocks = state.times[at.OWN + w], Index(graph.blocks[state.counts[at.CASE]])
    subsystems = Index(state.counts[at.SUBSYSTEMS])
    for s in range(subsystems):
        row, first = (w * subsystems + s) * blocks, never
        for k in range(row, row + blocks, SIZE):
            first = min(first, least(rows.least, k, never, ALL))
        rows.keys[s * ROW + w] = max(first, held)


@inlined
def _simulate(
    inputs: Inputs, graph: Graph, state: State, rows: Rows, case: Index, ends: np.ndarray, record: Record,
    never: Any, general: bool, recording: bool,
) -> None:  # fmt: skip
    times, counts = state.times, state.counts
    words, terms = inputs.words.reshape(-1), inputs.terms.reshape(-1)
    begin_case(state, inputs, LANE, case, never, recording)
    warps, subsystems = Index(counts[at.WARPS]), Index(counts[at.SUBSYSTEMS])
    resident, vectors = warps * Index(counts[at.SLOTS]), Index(counts[at.VECTORS])
    stride, blocks = Index(graph.stride[case]), Index(graph.blocks[case])
    mask, scheduler, flags = Index(counts[at.MASK]), counts[at.SCHEDULER], Index(counts[at.FLAGS])
    _begin(state, graph, rows, ZERO, resident, never)
    for s in range(subsystems):
        for w in range(resident, vectors * Index(16)):  # what fills up the last vector never issues
            rows.keys[s * ROW + w] = never
    while True:
        picked = (
            times, counts, rows.keys, at.GATE, ZERO, at.KEY, vectors, counts[at.SHIFT], times[at.VALVE],
            counts[at.MASK],
        )  # fmt: skip
        if subsystems <= Index(2):
            now, key = pick_row_of_2(*picked)
        elif subsystems <= Index(4):
            now, key = pick_row_of_4(*picked)
        else:
            now, key = pick_row_of_8(*picked)
        if now >= times[at.LIMIT]:
            break
        w = (key + counts[at.SHIFT]) & mask
        if scheduler != of.RR:
            w = Index(counts[at.WARP_AT + w])

        # The warp's candidate: with a valve it may have been ready before now.
        threshold = never
        for s in range(subsystems):
            threshold = min(threshold, max(rows.keys[s * ROW + w], times[at.GATE + s]))
        block = blocks
        for s in range(subsystems):
            if times[at.GATE + s] <= threshold:
                row = (w * subsystems + s) * blocks
                for k in range(ZERO, blocks, SIZE):
                    block = min(block, k + lowest_bit(early(rows.least, row + k, threshold)))
        members, opened = (Index(counts[FIRST_BLOCK + w]) + block) * of.MOST_SUBSYSTEMS, ZERO
        for s in range(subsystems):
            if times[at.GATE + s] <= threshold:
                opened |= Index(graph.members[members + s])
        place = w * stride + block * SIZE
        found = lowest_bit(early(rows.may, place, threshold) & opened)
        i, first = block * SIZE + found, Index(counts[at.NEXT + w])
        j = first + i
        word = Index(words[j * FOUR + of.WORD])
        s = word & of.SUBSYSTEM_MASK
        rest = Index(graph.members[members + s]) & ~(ONE << found)
        rows.least[(w * subsystems + s) * blocks + block] = least(rows.may, place, never, rest)
        rows.may[place + found] = never

        # What waits for its result.
        done = now + terms[j * FOUR + of.LATENCY]
        stop = Index(counts[STOP + w])
        for edge in range(Index(graph.succ_first[j]), Index(graph.succ_first[j + ONE])):
            to = Index(graph.succ[edge])
            ready = max(rows.ready[w * stride + to], done)
            rows.ready[w * stride + to] = ready
            missing = rows.missing[w * stride + to] - ONE
            rows.missing[w * stride + to] = missing
            if missing == ZERO and to < stop:
                _let(state, graph, rows, w, to, ready)

        # The core.
        times[at.OWN + w] = now + terms[j * FOUR + of.SAME_WARP]
        times[at.VALVE] = now + times[at.INTERVAL]
        times[at.END] = max(times[at.END], done)
        gate = now + terms[j * FOUR + of.THROUGHPUT]
        if general and flags & of.HAS_CAPS and counts[at.CAP + s] > ZERO:
            gate = max(gate, into_ring(state, LANE, s, done))
        times[at.GATE + s] = gate
        if scheduler == of.RR:
            counts[at.SHIFT] = w + ONE
        elif scheduler == of.GTO:
            last = counts[at.LAST_WARP]
            if last != NOBODY:
                counts[at.KEY + last] = counts[at.RANK + last]
            counts[at.KEY + w] = ZERO
            counts[at.WARP_AT] = w
        counts[at.LAST_WARP] = w

        if general and flags & (of.HAS_BARRIERS | of.HAS_SEQUENCE):
            slot = Index(counts[at.SLOT + w])
            if flags & of.HAS_BARRIERS:
                entered, length = Index(counts[ENTERED + w]) + ONE, Index(graph.length[first])
                counts[ENTERED + w] = entered
                if word & of.BARRIER:
                    stop = Index(graph.stop[j + ONE]) if i + ONE < length else length
                    counts[STOP + w] = stop
                    _open(state, graph, rows, w, i + ONE, stop)
                    if meet(state, LANE, w, slot, done, never):
                        for v in range(slot * warps, slot * warps + warps):
                            _set_keys(state, graph, rows, v, never)
                if entered == stop and stop < length:
                    _open(state, graph, rows, w, stop, stop + ONE)
            if flags & of.HAS_SEQUENCE and in_group(state, inputs, LANE, slot, done, never, recording):
                _begin(state, graph, rows, slot * warps, slot * warps + warps, never)
        _set_keys(state, graph, rows, w, never)

    ends[case] = times[at.END]
    for s in range(subsystems):
        for w in range(resident):
            if rows.keys[s * ROW + w] != never:  # it goes on, beyond the limit
                ends[case] = never


@compiled
def simulate_plain(
    inputs: Any, graph: Any, state: Any, rows: Any, order: Any, ends: Any, record: Any, never: Any
) -> None:
    """Simulate cases that have no more than an issue limit."""
    for case in order:
        _simulate(inputs, graph, state, rows, Index(case), ends, record, never, False, False)


@compiled
def simulate_any(
    inputs: Any, graph: Any, state: Any, rows: Any, order: Any, ends: Any, record: Any, never: Any
) -> None:
    """Simulate cases with all that there is."""
    for case in order:
        _simulate(inputs, graph, state, rows, Index(case), ends, record, never, True, False)
