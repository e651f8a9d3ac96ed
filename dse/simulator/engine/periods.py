"""Steady state: repeated periods of a core are skipped, exactly.

When a warp begins a loop's next trip or a group starts, a lane may take a snapshot of its state. If it
returns to the same state, relative to the clock, the entries since are a period. It repeats until a loop ends
or no group is left, since the future depends on that state alone. Times in the past are all equal. Snapshots
are taken at growing distances, so that a period of any length is found after any transient (Brent's
algorithm).

Times may be shifted only if sums are exact: in ticks, and in float64 if all terms are multiples of a tick.
"""

from typing import Any

import numpy as np

from dse.core.numba_cache import inlined
from dse.simulator.engine import layout as of
from dse.simulator.engine import state as at
from dse.simulator.engine.begin import ONE, ZERO
from dse.simulator.engine.layout import Index, Inputs, Place
from dse.simulator.engine.state import State

# Offsets from a lane to its snapshot.
TO_TIMES, TO_COUNTS = at.LANES * at.TIMES, at.LANES * at.COUNTS


@inlined
def skip_periods(state: State, inputs: Inputs, t: Place, n: Place, never: Any) -> None:
    """Skip the repeating periods if the state equals the snapshot's; else take a snapshot if one is due."""
    counts = state.counts
    if counts[n + at.SNAPSHOT] != ZERO and _same(state, t, n, never):
        times, depth = _repeats(state, inputs, t, n, never)
        if times > 0:
            _skip(state, t, n, never, times, depth)
            counts[n + at.SNAPSHOT] = ZERO
            counts[n + at.EVENTS] = ZERO
            counts[n + at.UNTIL] = ONE
            return
    counts[n + at.EVENTS] += ONE
    if counts[n + at.EVENTS] >= counts[n + at.UNTIL]:
        _keep(state, t, n)
        counts[n + at.SNAPSHOT] = ONE
        counts[n + at.EVENTS] = ZERO
        counts[n + at.UNTIL] *= Index(2)


@inlined
def _keep(state: State, t: Place, n: Place) -> None:
    """Take a snapshot."""
    times, counts = state.times, state.counts
    slots = Index(counts[n + at.SLOTS])
    resident = slots * Index(counts[n + at.WARPS])
    for k in range(t, t + at.OWN):
        times[TO_TIMES + k] = times[k]
    for row in (at.OWN, at.HELD, at.RELEASE, at.GROUP_END):
        for w in range(resident):
            times[TO_TIMES + t + row + w] = times[t + row + w]
    for k in range(n, n + at.FREE_ID):
        counts[TO_COUNTS + k] = counts[k]
    for row in (at.NEXT, at.KEY, at.MET, at.LEFT, at.BY_AGE):
        for w in range(resident):
            counts[TO_COUNTS + n + row + w] = counts[n + row + w]
    for depth in range(of.MOST_NESTED):
        for w in range(resident):
            trip = n + at.TRIPS + depth * Index(at.ROW) + w
            counts[TO_COUNTS + trip] = counts[trip]
    first = Index(counts[n + at.RESULTS])
    for k in range(first, first + resident * Index(counts[n + at.WINDOW])):
        state.results[at.LANES * state.per_lane + k] = state.results[k]
    if counts[n + at.FLAGS] & of.HAS_CAPS:
        rings = of.MOST_SUBSYSTEMS * state.ring
        first = Index(counts[n + at.LANE]) * rings
        for k in range(first, first + rings):
            state.flying[at.LANES * rings + k] = state.flying[k]


@inlined
def _alike(time: Any, now: Any, before: Any, then: Any, never: Any) -> bool:
    """Whether two times are equally far ahead, or both past, or both `never`."""
    if time == never or before == never:
        return time == before
    # The age of a time in the past has no effect.
    return max(time, now) - now == max(before, then) - then


@inlined
def _same(state: State, t: Place, n: Place, never: Any) -> bool:
    """Whether a lane is in the state of its snapshot; the most frequent differences are compared first."""
    times, counts = state.times, state.counts
    if counts[n + at.SHIFT] != counts[TO_COUNTS + n + at.SHIFT]:
        return False
    if counts[n + at.LAST_WARP] != counts[TO_COUNTS + n + at.LAST_WARP]:
        return False
    slots = Index(counts[n + at.SLOTS])
    resident = slots * Index(counts[n + at.WARPS])
    now, then = times[t + at.NOW], times[TO_TIMES + t + at.NOW]
    for w in range(resident):
        if counts[n + at.NEXT + w] != counts[TO_COUNTS + n + at.NEXT + w]:
            return False
        if counts[n + at.KEY + w] != counts[TO_COUNTS + n + at.KEY + w]:
            return False
        for row in (at.OWN, at.HELD):
            if not _alike(times[t + row + w], now, times[TO_TIMES + t + row + w], then, never):
                return False
    for s in range(of.MOST_SUBSYSTEMS):
        if not _alike(times[t + at.FREE + s], now, times[TO_TIMES + t + at.FREE + s], then, never):
            return False
    for number in (at.VALVE, at.END):
        if not _alike(times[t + number], now, times[TO_TIMES + t + number], then, never):
            return False
    for slot in range(slots):
        if counts[n + at.MET + slot] != counts[TO_COUNTS + n + at.MET + slot]:
            return False
        if counts[n + at.BY_AGE + slot] != counts[TO_COUNTS + n + at.BY_AGE + slot]:
            return False
        for row in (at.RELEASE, at.GROUP_END):
            if not _alike(times[t + row + slot], now, times[TO_TIMES + t + row + slot], then, never):
                return False
    first = Index(counts[n + at.RESULTS])
    for k in range(first, first + resident * Index(counts[n + at.WINDOW])):
        if not _alike(state.results[k], now, state.results[at.LANES * state.per_lane + k], then, never):
            return False
    return not counts[n + at.FLAGS] & of.HAS_CAPS or _same_in_flight(state, n, now, then, never)


@inlined
def _same_in_flight(state: State, n: Place, now: Any, then: Any, never: Any) -> bool:
    """Compare the rings of times in flight, from the oldest on, since their positions may differ."""
    counts = state.counts
    for s in range(of.MOST_SUBSYSTEMS):
        cap = Index(counts[n + at.CAP + s])
        index, before = Index(counts[n + at.PLACE + s]), Index(counts[TO_COUNTS + n + at.PLACE + s])
        ring = (Index(counts[n + at.LANE]) * of.MOST_SUBSYSTEMS + s) * state.ring
        other = ring + at.LANES * of.MOST_SUBSYSTEMS * state.ring
        for _ in range(cap):
            if not _alike(state.flying[ring + index], now, state.flying[other + before], then, never):
                return False
            index = ZERO if index + ONE == cap else index + ONE
            before = ZERO if before + ONE == cap else before + ONE
    return True


@inlined
def _repeats(state: State, inputs: Inputs, t: Place, n: Place, never: Any) -> tuple[Any, Any]:
    """Return how often the period since the snapshot repeats, and the depth of its loop.

    The depth is -1 for the sequence of groups. Loops of other depths must be unchanged.
    """
    times, counts = state.times, state.counts
    resident = Index(counts[n + at.SLOTS]) * Index(counts[n + at.WARPS])
    groups = np.int64(counts[n + at.NEXT_GROUP]) - np.int64(counts[TO_COUNTS + n + at.NEXT_GROUP])
    nesting, repeats = -1, np.int64(2**31 - 1)
    for depth in range(of.MOST_NESTED):
        for w in range(resident):
            trip = n + at.TRIPS + depth * Index(at.ROW) + w
            advance = np.int64(counts[trip]) - np.int64(counts[TO_COUNTS + trip])
            if advance == 0:
                continue
            if advance < 0 or groups > 0 or (nesting >= 0 and nesting != np.int64(depth)):
                return 0, -1
            nesting = np.int64(depth)
            trips = np.int64(inputs.around[counts[n + at.NEXT + w] // Index(4), depth])
            repeats = min(repeats, (trips - 1 - np.int64(counts[trip])) // advance)
    if nesting < 0:
        if groups <= 0 or counts[n + at.PERIOD] > ONE:  # nothing repeats, or groups run different programs
            return 0, -1
        repeats = (np.int64(counts[n + at.GROUPS]) - np.int64(counts[n + at.NEXT_GROUP])) // groups
    period = times[t + at.NOW] - times[TO_TIMES + t + at.NOW]
    if times[t + at.LIMIT] != never and period > 0:
        repeats = min(repeats, np.int64((times[t + at.LIMIT] - times[t + at.NOW]) // period))
    return repeats, nesting


@inlined
def _later(times: np.ndarray, k: Place, by: Any, never: Any) -> None:
    if times[k] != never:
        times[k] += by


@inlined
def _skip(state: State, t: Place, n: Place, never: Any, repeats: Any, depth: Any) -> None:
    """Advance a lane by `repeats` periods."""
    times, counts = state.times, state.counts
    slots = Index(counts[n + at.SLOTS])
    resident = slots * Index(counts[n + at.WARPS])
    by = times.dtype.type(repeats) * (times[t + at.NOW] - times[TO_TIMES + t + at.NOW])
    for number in (at.NOW, at.VALVE, at.END):
        times[t + number] += by
    for s in range(of.MOST_SUBSYSTEMS):
        times[t + at.FREE + s] += by
        times[t + at.GATE + s] += by
    for w in range(resident):
        _later(times, t + at.OWN + w, by, never)
        _later(times, t + at.HELD + w, by, never)
    for slot in range(slots):
        for row in (at.RELEASE, at.GROUP_END, at.START):
            times[t + row + slot] += by
    first = Index(counts[n + at.RESULTS])
    window = Index(counts[n + at.WINDOW])
    for k in range(first, first + resident * window):
        if (k - first) % window != ZERO:  # the first one of a warp is always 0: nothing needed
            state.results[k] += by
    if counts[n + at.FLAGS] & of.HAS_CAPS:
        rings = of.MOST_SUBSYSTEMS * state.ring
        first = Index(counts[n + at.LANE]) * rings
        for k in range(first, first + rings):
            state.flying[k] += by

    times_more = Index(repeats)
    for slot in range(slots):
        left = n + at.LEFT + slot
        counts[left] -= times_more * (counts[TO_COUNTS + left] - counts[left])
    entered = times_more * (counts[n + at.ENTERED] - counts[TO_COUNTS + n + at.ENTERED])
    counts[n + at.ENTERED] += entered
    counts[n + at.SKIPPED] += entered
    if depth < 0:
        groups = counts[n + at.NEXT_GROUP] - counts[TO_COUNTS + n + at.NEXT_GROUP]
        counts[n + at.NEXT_GROUP] += times_more * groups
        return
    for w in range(resident):
        trip = n + at.TRIPS + Index(depth) * Index(at.ROW) + w
        counts[trip] += times_more * (counts[trip] - counts[TO_COUNTS + trip])
