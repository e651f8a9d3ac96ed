"""The start of a lane: its case, the groups in its slots, and its warps in the order of age; and turns.

The lanes of a thread form a ring, and a turn is one step of a lane's case. A lane stores the offsets of the
next one, so that a turn needs no multiplication.
"""

from typing import Any

from dse.core.numba_cache import inlined
from dse.simulator.engine import layout as of
from dse.simulator.engine import state as at
from dse.simulator.engine.layout import Index, Inputs, Place
from dse.simulator.engine.state import NOBODY, State
from dse.simulator.engine.vectors import WIDTH

ZERO, ONE, VECTOR = Index(0), Index(1), Index(WIDTH)


@inlined
def begin_case(state: State, inputs: Inputs, lane: Place, case: Place, never: Any, recording: bool) -> None:
    """Put a case into a lane, and its first groups into the slots, at time 0."""
    times, counts, cases = state.times, state.counts, inputs.cases
    t, n = lane * at.TIMES, lane * at.COUNTS
    counts[n + at.LANE] = lane
    warps, slots = Index(cases[case, of.CASE_WARPS]), Index(cases[case, of.CASE_SLOTS])
    resident = warps * slots
    rows = (resident + VECTOR - ONE) // VECTOR * VECTOR
    counts[n + at.CASE] = case
    counts[n + at.VECTORS] = rows // VECTOR
    counts[n + at.MASK] = cases[case, of.CASE_MASK]
    counts[n + at.WINDOW] = cases[case, of.CASE_WINDOW]
    counts[n + at.SCHEDULER] = cases[case, of.CASE_SCHEDULER]
    counts[n + at.FLAGS] = cases[case, of.CASE_FLAGS]
    counts[n + at.SUBSYSTEMS] = cases[case, of.CASE_SUBSYSTEMS]
    counts[n + at.WARPS] = warps
    counts[n + at.SLOTS] = slots
    counts[n + at.GROUPS] = cases[case, of.CASE_GROUPS]
    counts[n + at.NEXT_GROUP] = slots
    counts[n + at.ASSIGNED] = cases[case, of.CASE_ASSIGNED]
    counts[n + at.PERIOD] = cases[case, of.CASE_PERIOD]
    counts[n + at.BASE] = cases[case, of.CASE_BASE]
    counts[n + at.STEADY] = cases[case, of.CASE_STEADY]
    counts[n + at.LAST_WARP] = NOBODY
    counts[n + at.SHIFT] = ZERO
    counts[n + at.ENTERED] = ZERO
    counts[n + at.SKIPPED] = ZERO
    counts[n + at.EVENTS] = ZERO
    counts[n + at.UNTIL] = ONE
    counts[n + at.SNAPSHOT] = ZERO
    counts[n + at.END_ID] = ZERO
    times[t + at.END] = ZERO
    times[t + at.NOW] = ZERO
    times[t + at.VALVE] = ZERO
    times[t + at.INTERVAL] = inputs.clock[case, of.INTERVAL]
    times[t + at.LIMIT] = inputs.clock[case, of.LIMIT]
    for s in range(of.MOST_SUBSYSTEMS):
        times[t + at.FREE + s] = ZERO
        times[t + at.GATE + s] = ZERO
        times[t + at.OLDEST + s] = ZERO
        counts[n + at.PLACE + s] = ZERO
        counts[n + at.CAP + s] = inputs.caps[case, s]
        counts[n + at.FREE_ID + s] = NOBODY
        counts[n + at.OLDEST_ID + s] = NOBODY
    if counts[n + at.FLAGS] & of.HAS_CAPS:
        ring = lane * of.MOST_SUBSYSTEMS * state.ring
        for k in range(ring, ring + of.MOST_SUBSYSTEMS * state.ring):
            state.flying[k] = ZERO
            if recording:
                state.flying_ids[k] = NOBODY
    for w in range(resident, rows):  # the padding of the last vector never issues
        times[t + at.OWN + w] = never
        counts[n + at.SUBSYSTEM + w] = ZERO
        counts[n + at.KEY + w] = ZERO
    for slot in range(slots):
        counts[n + at.BY_AGE + slot] = slot
        begin_group(state, inputs, t, n, slot, slot, times.dtype.type(0), never, recording)
    rank_warps(state, n)


@inlined
def begin_group(
    state: State, inputs: Inputs, t: Place, n: Place, slot: Place, group: Place, start: Any, never: Any,
    recording: bool,
) -> None:  # fmt: skip
    """Put a group's warps into a slot, at the start of their programs."""
    times, counts = state.times, state.counts
    warps, period = Index(counts[n + at.WARPS]), Index(counts[n + at.PERIOD])
    window, flags = Index(counts[n + at.WINDOW]), Index(counts[n + at.FLAGS])
    entries = ZERO
    for j in range(warps):
        w, number = slot * warps + j, group * warps + j
        which = ZERO if period == ONE else number % period
        program = Index(inputs.assignment[counts[n + at.ASSIGNED] + which])
        first = Index(inputs.programs[program, of.PROGRAM_FIRST])
        entries += Index(inputs.programs[program, of.PROGRAM_ENTRIES])
        times[t + at.OWN + w] = start
        times[t + at.HELD + w] = never
        counts[n + at.SUBSYSTEM + w] = inputs.words[first, of.WORD] & of.SUBSYSTEM_MASK
        counts[n + at.NEXT + w] = first * Index(4)
        counts[n + at.SLOT + w] = slot
        results = Index(counts[n + at.LANE]) * state.per_lane + w * window
        counts[n + at.RESULTS + w] = results
        state.results[results] = ZERO
        if flags & of.HAS_LOOPS:  # no iteration has produced a result yet
            for k in range(results, results + window):
                state.results[k] = ZERO
            for depth in range(of.MOST_NESTED):
                counts[n + at.TRIPS + depth * at.ROW + w] = ZERO
        if recording:
            for k in range(results, results + window):
                state.result_ids[k] = NOBODY
            counts[n + at.PREVIOUS_ID + w] = NOBODY
            counts[n + at.NEEDED_ID + w] = NOBODY
    times[t + at.START + slot] = start
    times[t + at.GROUP_END + slot] = ZERO
    times[t + at.RELEASE + slot] = ZERO
    counts[n + at.MET + slot] = ZERO
    counts[n + at.LEFT + slot] = entries
    counts[n + at.GROUP + slot] = group
    if recording:
        counts[n + at.START_ID + slot] = NOBODY
        counts[n + at.GROUP_END_ID + slot] = NOBODY
        counts[n + at.RELEASED_ID + slot] = NOBODY


@inlined
def rank_warps(state: State, n: Place) -> None:
    """Set the keys: a warp's number for `rr`, else its rank by age, and 0 for the last one of `gto`."""
    counts = state.counts
    warps, slots = Index(counts[n + at.WARPS]), Index(counts[n + at.SLOTS])
    scheduler = Index(counts[n + at.SCHEDULER])
    for position in range(slots):
        slot = Index(counts[n + at.BY_AGE + position])
        for j in range(warps):
            w, rank = slot * warps + j, position * warps + j + ONE
            counts[n + at.RANK + w] = rank
            counts[n + at.WARP_AT + rank] = w
            counts[n + at.KEY + w] = w if scheduler == of.RR else rank
    last = Index(counts[n + at.LAST_WARP])
    if scheduler == of.GTO and last != NOBODY:
        counts[n + at.KEY + last] = ZERO


@inlined
def next_group(
    state: State, inputs: Inputs, t: Place, n: Place, slot: Place, never: Any, recording: bool
) -> None:
    """Put the next group into a slot whose group has ended."""
    times, counts = state.times, state.counts
    group, start = Index(counts[n + at.NEXT_GROUP]), times[t + at.GROUP_END + slot]
    ended_by = counts[n + at.GROUP_END_ID + slot]
    counts[n + at.NEXT_GROUP] = group + ONE
    begin_group(state, inputs, t, n, slot, group, start, never, recording)
    if recording:
        counts[n + at.START_ID + slot] = ended_by
    if counts[n + at.SCHEDULER] != of.RR and counts[n + at.SLOTS] > ONE:
        _sort_by_age(state, t, n, slot, start)
        rank_warps(state, n)


@inlined
def _sort_by_age(state: State, t: Place, n: Place, slot: Place, start: Any) -> None:
    """Move a slot to its position by the start of its group, then by its number."""
    counts = state.counts
    by_age, slots = n + at.BY_AGE, Index(counts[n + at.SLOTS])
    position = ZERO
    while counts[by_age + position] != slot:
        position += ONE
    while position + ONE < slots:  # a later start only moves it back
        other = Index(counts[by_age + position + ONE])
        starts = state.times[t + at.START + other]
        if starts > start or (starts == start and other > slot):
            break
        counts[by_age + position] = other
        position += ONE
    counts[by_age + position] = slot


@inlined
def take_turns(state: State, lanes: Place) -> None:
    """Link the first `lanes` lanes to a ring."""
    counts = state.counts
    for lane in range(lanes):
        following = ZERO if lane + ONE == lanes else lane + ONE
        counts[lane * at.COUNTS + at.NEXT_T] = following * at.TIMES
        counts[lane * at.COUNTS + at.NEXT_N] = following * at.COUNTS


@inlined
def next_lane(state: State, n: Place) -> tuple[Place, Place]:
    """Return the offsets of the next lane in times and counts."""
    return Index(state.counts[n + at.NEXT_T]), Index(state.counts[n + at.NEXT_N])


@inlined
def leave(state: State, n: Place) -> tuple[Place, Place]:
    """Remove a lane from the ring, and return the offsets of the next one."""
    counts, before = state.counts, n
    while counts[before + at.NEXT_N] != n:
        before = Index(counts[before + at.NEXT_N])
    counts[before + at.NEXT_T] = counts[n + at.NEXT_T]
    counts[before + at.NEXT_N] = counts[n + at.NEXT_N]
    return next_lane(state, n)
