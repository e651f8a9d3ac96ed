"""Turns: the lanes of a thread form a ring, and a turn is one step of a lane's case.

A lane stores the offsets of the next one, so that a turn needs no multiplication.
"""

from dse.core.numba_cache import inlined
from dse.simulator.engine import state as at
from dse.simulator.engine.begin import ONE, ZERO
from dse.simulator.engine.layout import Index, Place
from dse.simulator.engine.state import State


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
