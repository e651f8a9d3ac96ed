"""The record of a case: for each entry the one that it waited for, and the term that counts.

Every time of the state has the number of the entry that set it beside it, or NOBODY.
"""

from typing import Any

import numpy as np

from dse.core.numba_cache import inlined
from dse.simulator.engine import layout as of
from dse.simulator.engine import state as at
from dse.simulator.engine.begin import ZERO
from dse.simulator.engine.layout import EntryRecord, Index, Inputs, Place
from dse.simulator.engine.state import NOBODY, State


@inlined
def cause(state: State, t: Place, n: Place, w: Place, s: Place, now: Any) -> tuple[Place, int]:
    """Return the entry that set the first binding constraint in this order, and the term that counts."""
    times, counts = state.times, state.counts
    slot = Index(counts[n + at.SLOT + w])
    if times[t + at.NEEDED + w] == now and counts[n + at.NEEDED_ID + w] != NOBODY:
        return Index(counts[n + at.NEEDED_ID + w]), of.OF_LATENCY
    if times[t + at.FREE + s] == now and counts[n + at.FREE_ID + s] != NOBODY:
        return Index(counts[n + at.FREE_ID + s]), of.OF_THROUGHPUT
    if times[t + at.VALVE] == now and times[t + at.INTERVAL] > 0 and counts[n + at.ENTERED] > ZERO:
        return Index(counts[n + at.ENTERED]) - Index(1), of.OF_VALVE
    if times[t + at.OLDEST + s] == now and counts[n + at.OLDEST_ID + s] != NOBODY:
        return Index(counts[n + at.OLDEST_ID + s]), of.OF_LATENCY
    if times[t + at.RELEASED + slot] == now and counts[n + at.RELEASED_ID + slot] != NOBODY:
        return Index(counts[n + at.RELEASED_ID + slot]), of.OF_LATENCY
    if counts[n + at.PREVIOUS_ID + w] != NOBODY:
        if times[t + at.WOKEN + w] == now:
            return Index(counts[n + at.PREVIOUS_ID + w]), of.OF_SAME_WARP
    elif times[t + at.START + slot] == now and counts[n + at.START_ID + slot] != NOBODY:
        return Index(counts[n + at.START_ID + slot]), of.OF_LATENCY
    return NOBODY, of.OF_LATENCY


@inlined
def note_cause(
    state: State, record: EntryRecord, t: Place, n: Place, w: Place, s: Place, row: Place, now: Any
) -> None:
    """Record an entry of instruction `row` before it changes the state."""
    counts = state.counts
    waited_for, term = cause(state, t, n, w, s, now)
    entry = Index(counts[n + at.BASE]) + Index(counts[n + at.ENTERED])
    record.waited_for[entry] = np.int32(-1) if waited_for == NOBODY else np.int32(waited_for)
    record.term[entry] = np.int32(row) * np.int32(4) + np.int32(term)
    if record.profile:
        record.time[entry] = now
        record.warp[entry] = w
        record.group[entry] = counts[n + at.GROUP + counts[n + at.SLOT + w]]


@inlined
def note_entry(
    state: State, t: Place, n: Place, w: Place, s: Place, result: Place, done: Any, woken: Any, barrier: bool
) -> None:
    """Store the entry's number beside the times that it will set, before it is counted."""
    times, counts = state.times, state.counts
    entry, slot = counts[n + at.ENTERED], Index(counts[n + at.SLOT + w])
    state.result_ids[result] = entry
    counts[n + at.FREE_ID + s] = entry
    counts[n + at.PREVIOUS_ID + w] = entry
    times[t + at.WOKEN + w] = woken
    if done > times[t + at.END] or entry == ZERO:
        counts[n + at.END_ID] = entry
    if done > times[t + at.GROUP_END + slot] or counts[n + at.GROUP_END_ID + slot] == NOBODY:
        counts[n + at.GROUP_END_ID + slot] = entry
    if counts[n + at.CAP + s] > ZERO:
        ring = (Index(counts[n + at.LANE]) * of.MOST_SUBSYSTEMS + s) * state.ring
        oldest = Index(counts[n + at.PLACE + s])
        next_oldest = ZERO if oldest + Index(1) == counts[n + at.CAP + s] else oldest + Index(1)
        state.flying_ids[ring + oldest] = entry
        times[t + at.OLDEST + s] = done if next_oldest == oldest else state.flying[ring + next_oldest]
        counts[n + at.OLDEST_ID + s] = state.flying_ids[ring + next_oldest]
    if barrier:
        if done > times[t + at.RELEASE + slot] or counts[n + at.MET + slot] == ZERO:
            counts[n + at.RELEASE_ID + slot] = entry
        if counts[n + at.MET + slot] + Index(1) == counts[n + at.WARPS]:  # it opens
            times[t + at.RELEASED + slot] = max(times[t + at.RELEASE + slot], done)
            counts[n + at.RELEASED_ID + slot] = counts[n + at.RELEASE_ID + slot]


@inlined
def note_needs(
    state: State, inputs: Inputs, t: Place, n: Place, w: Place, result: Place, after: Place
) -> None:
    """Record when the operands of a warp's next instruction are ready, and the first of the latest ones."""
    words, row = inputs.words, after // Index(4)
    latest, number = state.times.dtype.type(0), NOBODY
    for nth in range(4):
        pair = Index(words[row, of.NEEDS + Index(nth // 2)])
        need = (pair >> of.NEED_AT) if nth % 2 else (pair & of.NEED_MASK)
        if need != ZERO:
            done = state.results[result + need]
            if done > latest or number == NOBODY:
                latest, number = done, Index(state.result_ids[result + need])
    if words[row, of.WORD] & of.FURTHER:
        k = Index(words[row, of.FURTHER_AT])
        while inputs.further[k] != ZERO:
            done = state.results[result + inputs.further[k]]
            if done > latest or number == NOBODY:
                latest, number = done, Index(state.result_ids[result + inputs.further[k]])
            k += Index(1)
    state.times[t + at.NEEDED + w] = latest
    state.counts[n + at.NEEDED_ID + w] = number
