"""The state of the cases that a thread simulates at a time: lanes, one case each.

Flat arrays: `times` of the type T of the batch, `counts` of uint32. What belongs to lane k begins at k times
a stride; there come single numbers, then a number for each subsystem, then rows, a number for each warp or
group slot. Behind the lanes is as much again, for a snapshot of each (`periods`).
"""

from typing import NamedTuple

import numpy as np

from dse.simulator.engine.layout import CASE_SLOTS, CASE_WARPS, CASE_WINDOW, MOST_SUBSYSTEMS, Index, Inputs

# Entries of one case wait for one another. Those of six do not, and keep the parts of a core busy.
LANES = Index(7)
NOBODY = Index(2**32 - 1)

# A row has room for all warps, and its length is no power of two: the rows' beginnings share no cache set.
ROW = 1_024 + 64

TIME_NUMBERS = 8
END, NOW, VALVE, INTERVAL, LIMIT = map(Index, range(5))
FREE = Index(TIME_NUMBERS)  # [subsystem] when it accepts again
GATE = Index(TIME_NUMBERS + 8)  # [subsystem] when it takes an instruction: also one in flight has gone
OLDEST = Index(TIME_NUMBERS + 16)  # [subsystem] when one in flight has; for the record only
OWN, HELD, RELEASE, GROUP_END, START, WOKEN, NEEDED, RELEASED = (
    Index(TIME_NUMBERS + 24 + n * ROW) for n in range(8)
)
# OWN [warp]: when its next instruction may enter, but for its subsystem. HELD [warp]: that, behind a barrier.
# RELEASE, GROUP_END [slot]: latest result of the barrier's entries, of the group's. START: when that began.
# For the record: WOKEN, NEEDED [warp] when the same-warp interval ends, when the operands are there;
# RELEASED [slot] when the last barrier was.
TIMES = Index(TIME_NUMBERS + 24 + 8 * ROW)

COUNT_NUMBERS = 48
(
    CASE,  # NOBODY: the lane is empty
    LANE,
    NEXT_T,
    NEXT_N,
    SHIFT,  # what is taken off a warp's key: for `rr` the warp to look at first
    LAST_WARP,  # that issued
    MASK,
    VECTORS,  # of warps
    WINDOW,
    SCHEDULER,
    FLAGS,
    SUBSYSTEMS,
    ENTERED,  # instructions
    SKIPPED,  # of these: in periods not simulated again
    WARPS,
    SLOTS,
    GROUPS,
    NEXT_GROUP,
    ASSIGNED,
    PERIOD,
    BASE,
    STEADY,  # whether to look for periods
    EVENTS,  # since the last snapshot
    UNTIL,  # as many are between snapshots
    SNAPSHOT,  # whether there is one
    END_ID,
) = map(Index, range(26))
PLACE = Index(COUNT_NUMBERS)  # [subsystem] of the oldest of those in flight, in their ring
CAP = Index(COUNT_NUMBERS + 8)  # [subsystem]
FREE_ID = Index(COUNT_NUMBERS + 16)  # [subsystem] the entry that set FREE; likewise below
OLDEST_ID = Index(COUNT_NUMBERS + 24)
(
    SUBSYSTEM,  # [warp] of its next instruction
    NEXT,  # [warp] that instruction, a row of `words`
    RESULTS,  # [warp]
    KEY,  # [warp] the scheduler's preference: the least first, less SHIFT
    RANK,  # [warp] by age, from 1
    WARP_AT,  # [rank] the warp of that age; at 0 the one that issued last
    SLOT,  # [warp] its group's
    MET,  # [slot] warps that wait at the barrier
    LEFT,  # [slot] entries of its group
    BY_AGE,  # [place] slots, oldest group first
    GROUP,  # [slot]
    PREVIOUS_ID,  # [warp]
    NEEDED_ID,  # [warp]
    RELEASE_ID,  # [slot]
    RELEASED_ID,  # [slot]
    GROUP_END_ID,  # [slot]
    START_ID,  # [slot]
) = (Index(COUNT_NUMBERS + 32 + n * ROW) for n in range(17))
TRIPS = Index(COUNT_NUMBERS + 32 + 17 * ROW)  # [depth, warp] of the loops around its next instruction
COUNTS = Index(COUNT_NUMBERS + 32 + 21 * ROW)


class State(NamedTuple):
    """The lanes of a thread, with their snapshots behind them."""

    times: np.ndarray  # T [2 · LANES · TIMES]
    counts: np.ndarray  # uint32 [2 · LANES · COUNTS]
    results: np.ndarray  # T [2 · LANES · per lane]: of each warp as many as the WINDOW, the first always 0
    flying: np.ndarray  # T [2 · LANES · 8 · ring]: when instructions in flight end, of each subsystem
    result_ids: np.ndarray  # uint32: the entries of `results` and `flying`, if recorded
    flying_ids: np.ndarray
    per_lane: Index  # results of a lane
    ring: Index  # most in flight of a subsystem


def new_state(inputs: Inputs, order: np.ndarray, record: bool) -> State:
    """Make empty lanes, large enough for each of the cases `order`."""
    cases = inputs.cases[order].astype(np.int64)
    results = cases[:, CASE_WARPS] * cases[:, CASE_SLOTS] * cases[:, CASE_WINDOW]
    per_lane = int(results.max(initial=0)) // 16 * 16 + 32
    ring = max(int(inputs.caps[order].max(initial=0)), 2)
    lanes, time = 2 * int(LANES), inputs.terms.dtype
    counts = zeros(lanes * int(COUNTS), np.uint32)
    recorded = lanes if record else 0
    return State(
        zeros(lanes * int(TIMES), time),
        counts,
        zeros(lanes * per_lane, time),
        np.zeros(lanes * int(MOST_SUBSYSTEMS) * ring, time),
        np.zeros(recorded * per_lane, np.uint32),
        np.zeros(recorded * int(MOST_SUBSYSTEMS) * ring, np.uint32),
        Index(per_lane),
        Index(ring),
    )


def zeros(size, dtype):
    """Return zeros that begin with a cache line, so that no vector crosses into another."""
    itemsize = np.dtype(dtype).itemsize
    raw = np.zeros(size + 64 // itemsize, dtype)
    skip = -raw.ctypes.data % 64 // itemsize
    return raw[skip : skip + size]
