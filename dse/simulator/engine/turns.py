"""Turns: the lanes of a thread are in a ring, and each one's turn is the step of its case.

A lane knows where the next one's times and counts begin, so that no turn has to multiply.
"""

from dse.core.numba_cache import inlined
from dse.simulator.engine import state as at
from dse.simulator.engine.begin import ONE, ZERO
from dse.simulator.engine.layout import Index, Place
from dse.simulator.engine.state import State


@inlined
def take_turns(state: State, lanes: Place) -> None:
    """Let the first this many lanes take turns."""
    counts = state.counts
    for lane in range(lanes):
        following = ZERO if lane + ONE == lanes else lane + ONE
        counts[lane * at.COUNTS + at.NEXT_T] = following * at.TIMES
        counts[lane * at.COUNTS + at.NEXT_N] = following * at.COUNTS


@inlined
def next_lane(state: State, n: Place) -> tuple[Place, Place]:
    """Return where the times and the counts of the lane begin whose turn is next."""
    return Index(state.counts[n + at.NEXT_T]), Index(state.counts[n + at.NEXT_N])


@inlined
def leave(state: State, n: Place) -> tuple[Place, Place]:
    """Take a lane out of the ring, and return the next one as `next_lane` does."""
    counts, before = state.counts, n
    while counts[before + at.NEXT_N] != n:
        before = Index(counts[before + at.NEXT_N])
    counts[before + at.NEXT_T] = counts[n + at.NEXT_T]
    counts[before + at.NEXT_N] = counts[n + at.NEXT_N]
    return next_lane(state, n)
