"""The state of the cases that a thread simulates at a time: lanes, one case each.

Flat arrays: `times` of the type T of the batch, `counts` of uint32. Lane k begins at k times a stride, with
single numbers, then a number for each subsystem, then rows with a number for each warp or group slot. A
snapshot of each lane follows after all lanes (`periods`).
"""

from typing import NamedTuple

import numpy as np

from dse.simulator.engine.layout import CASE_SLOTS, CASE_WARPS, CASE_WINDOW, MOST_SUBSYSTEMS, Index, Inputs

# Entries of one case depend on each other. Those of six other cases fill the core's pipeline meanwhile.
LANES = Index(7)
NOBODY = Index(2**32 - 1)

# A row has room for all warps. Its length is no power of two, so that rows begin in different cache sets.
ROW = 1_024 + 64

TIME_NUMBERS = 8
END, NOW, VALVE, INTERVAL, LIMIT = map(Index, range(5))
FREE = Index(TIME_NUMBERS)  # [subsystem] when it accepts the next one by λ
GATE = Index(TIME_NUMBERS + 8)  # [subsystem] the same, with its limit in flight
OLDEST = Index(TIME_NUMBERS + 16)  # [subsystem] when its oldest in flight ends; for the record only
OWN, HELD, RELEASE, GROUP_END, START, WOKEN, NEEDED, RELEASED = (
    Index(TIME_NUMBERS + 24 + n * ROW) for n in range(8)
)
# OWN [warp]: when its next instruction may enter, apart from its subsystem. HELD [warp]: OWN while it waits
# at a barrier. RELEASE, GROUP_END [slot]: latest result of the barrier's entries, of the group's.
# START [slot]: start of the group. For the record: WOKEN, NEEDED [warp]: end of the same-warp interval,
# operands ready; RELEASED [slot]: time of the last barrier.
TIMES = Index(TIME_NUMBERS + 24 + 8 * ROW)

COUNT_NUMBERS = 48
(
    CASE,  # NOBODY: the lane is empty
    LANE,
    NEXT_T,
    NEXT_N,
    SHIFT,  # subtracted from keys: for `rr` the warp with the highest priority
    LAST_WARP,  # that issued
    MASK,
    VECTORS,  # of warps
    WINDOW,
    SCHEDULER,
    FLAGS,
    SUBSYSTEMS,
    ENTERED,  # instructions
    SKIPPED,  # of these, in skipped periods
    WARPS,
    SLOTS,
    GROUPS,
    NEXT_GROUP,
    ASSIGNED,
    PERIOD,
    BASE,
    STEADY,  # whether to look for periods
    EVENTS,  # since the last snapshot
    UNTIL,  # events between snapshots
    SNAPSHOT,  # whether there is one
    END_ID,
) = map(Index, range(26))
PLACE = Index(COUNT_NUMBERS)  # [subsystem] index of the oldest in flight in its ring
CAP = Index(COUNT_NUMBERS + 8)  # [subsystem]
FREE_ID = Index(COUNT_NUMBERS + 16)  # [subsystem] the entry that set FREE; likewise below
OLDEST_ID = Index(COUNT_NUMBERS + 24)
(
    SUBSYSTEM,  # [warp] of its next instruction
    NEXT,  # [warp] that instruction, a row of `words`
    RESULTS,  # [warp]
    KEY,  # [warp] the scheduler's preference: the least after subtracting SHIFT
    RANK,  # [warp] by age, from 1
    WARP_AT,  # [rank] the warp of that rank; 0: the one that issued last
    SLOT,  # [warp] its group's
    MET,  # [slot] warps that wait at the barrier
    LEFT,  # [slot] entries of its group
    BY_AGE,  # [rank of a slot] slots, oldest group first
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
    """The lanes of a thread, followed by their snapshots."""

    times: np.ndarray  # T [2 · LANES · TIMES]
    counts: np.ndarray  # uint32 [2 · LANES · COUNTS]
    results: np.ndarray  # T [2 · LANES · per lane]: WINDOW for each warp, the first one always 0
    flying: np.ndarray  # T [2 · LANES · 8 · ring]: ends of instructions in flight, by subsystem
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
    """Return zeros aligned to a cache line, so that no vector crosses lines."""
    itemsize = np.dtype(dtype).itemsize
    raw = np.zeros(size + 64 // itemsize, dtype)
    skip = -raw.ctypes.data % 64 // itemsize
    return raw[skip : skip + size]
