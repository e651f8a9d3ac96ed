"""Parts of a step, in which an instruction enters, that most cases do not need."""

from typing import Any

from dse.core.numba_cache import inlined
from dse.simulator.engine import layout as of
from dse.simulator.engine import state as at
from dse.simulator.engine.begin import ONE, ZERO, next_group
from dse.simulator.engine.layout import Index, Inputs, Place
from dse.simulator.engine.state import NOBODY, State


@inlined
def around_loops(state: State, inputs: Inputs, n: Place, w: Place, j: Place) -> tuple[Place, bool]:
    """Return the instruction after j, at which loops end, and whether one of them continues."""
    counts = state.counts
    loop = Index(inputs.ends_loop[j // Index(4)])
    while loop != ZERO:
        trip = n + at.TRIPS + inputs.loops[loop, of.LOOP_DEPTH] * Index(at.ROW) + w
        count = counts[trip] + ONE
        if count < inputs.loops[loop, of.LOOP_TRIPS]:
            counts[trip] = count
            return Index(inputs.loops[loop, of.LOOP_FIRST]) * Index(4), True
        counts[trip] = ZERO  # for the next trip of the outer loop
        loop = Index(inputs.loops[loop, of.LOOP_OUTER])
    return j + Index(4), False


@inlined
def further_needs(state: State, inputs: Inputs, first: Place, after: Place, ready: Any) -> Any:
    """Return when an instruction may enter, by its needs from the third on and `own`."""
    results, row = state.results, after // Index(4)
    needs = Index(inputs.words[row, of.NEEDS_2])
    ready = max(ready, results[first + (needs & of.NEED_MASK)])
    ready = max(ready, results[first + (needs >> of.NEED_AT)])
    if inputs.words[row, of.WORD] & of.FURTHER:
        k = Index(inputs.words[row, of.FURTHER_AT])
        while inputs.further[k] != ZERO:
            ready = max(ready, results[first + inputs.further[k]])
            k += ONE
    return ready


@inlined
def note_issue(state: State, n: Place, w: Place, scheduler: Place) -> None:
    """Update the scheduler's keys for the warp that issued."""
    counts = state.counts
    if scheduler == of.RR:
        counts[n + at.SHIFT] = w + ONE
        return
    if scheduler == of.GTO:
        # Greedy: the warp that issued has the lowest key until another issues, then its rank by age again.
        last = Index(counts[n + at.LAST_WARP])
        if last != NOBODY:
            counts[n + at.KEY + last] = counts[n + at.RANK + last]
        counts[n + at.KEY + w] = ZERO
        counts[n + at.WARP_AT] = w
    counts[n + at.LAST_WARP] = w


@inlined
def into_ring(state: State, n: Place, s: Place, done: Any) -> Any:
    """Add an entry to the ring of its subsystem; return when the oldest one ends, which the next must await.

    Without a branch, since the subsystem differs from entry to entry and would be mispredicted: a ring
    without a limit is written at its first element and read at its second, which stays 0.
    """
    counts = state.counts
    oldest, cap = Index(counts[n + at.PLACE + s]), Index(counts[n + at.CAP + s])
    ring = (Index(counts[n + at.LANE]) * of.MOST_SUBSYSTEMS + s) * state.ring
    state.flying[ring + oldest] = done
    oldest = oldest + ONE if oldest + ONE < cap else ZERO
    counts[n + at.PLACE + s] = oldest
    return state.flying[ring + oldest + Index(cap == ZERO)]


@inlined
def meet(state: State, t: Place, n: Place, w: Place, slot: Place, done: Any, never: Any) -> bool:
    """Make a warp wait at a barrier, or release all if it is the last one; return whether it is."""
    times, counts = state.times, state.counts
    # `never` keeps a waiting warp from being picked; HELD keeps its time for the release.
    times[t + at.HELD + w], times[t + at.OWN + w] = times[t + at.OWN + w], never
    release = max(times[t + at.RELEASE + slot], done)
    met, warps = counts[n + at.MET + slot] + ONE, Index(counts[n + at.WARPS])
    if met < warps:
        times[t + at.RELEASE + slot] = release
        counts[n + at.MET + slot] = met
        return False
    times[t + at.RELEASE + slot] = ZERO
    counts[n + at.MET + slot] = ZERO
    for v in range(slot * warps, slot * warps + warps):
        times[t + at.OWN + v] = max(times[t + at.HELD + v], release)
    return True


@inlined
def in_group(
    state: State, inputs: Inputs, t: Place, n: Place, slot: Place, done: Any, never: Any, recording: bool
) -> bool:
    """Count an entry of a group; if it was the last, start the next group in its slot and return True."""
    times, counts = state.times, state.counts
    left = counts[n + at.LEFT + slot] - ONE
    counts[n + at.LEFT + slot] = left
    times[t + at.GROUP_END + slot] = max(times[t + at.GROUP_END + slot], done)
    if left == ZERO and counts[n + at.NEXT_GROUP] < counts[n + at.GROUPS]:
        next_group(state, inputs, t, n, slot, never, recording)
        return True
    return False
