"""The loop of program order: lanes take turns, and each turn enters the next instruction of one warp.

An entry is a chain of a few dozen dependent operations; entries of other cases fill their latency. Only
barriers and the ends of loops, warps and groups decide branches; other differences between entries do not, so
that branches are rarely mispredicted.
"""

from typing import Any

import numpy as np

from dse.core.numba_cache import compiled, inlined
from dse.simulator.engine import layout as of
from dse.simulator.engine import state as at
from dse.simulator.engine.begin import ONE, ZERO, begin_case, leave, next_lane, take_turns
from dse.simulator.engine.causes import note_cause, note_entry, note_needs
from dse.simulator.engine.layout import EntryRecord, Index, Inputs
from dse.simulator.engine.periods import skip_periods
from dse.simulator.engine.pick import Warps, picker
from dse.simulator.engine.state import LANES, State
from dse.simulator.engine.step import around_loops, further_needs, in_group, into_ring, meet, note_issue
from dse.simulator.engine.vectors import WIDTH

ROW = Index(4)  # columns of an instruction, in words and in terms
VECTOR = Index(WIDTH)

# Each further subsystem costs two instructions for every vector of warps, so small cases get a smaller pick.
pick_of_2, pick_of_4, pick_of_8 = (picker(subsystems, Warps) for subsystems in (2, 4, 8))


def _simulate(
    inputs: Inputs, state: State, order: np.ndarray, ends: np.ndarray, skipped: np.ndarray | None,
    record: EntryRecord | None, never: Any,
) -> None:  # fmt: skip
    """Simulate cases: plain ones where `skipped` is None; without a `record` no cause is compiled."""
    recording = False
    if record is not None:
        recording = record.record
    times, counts, results = state.times, state.counts, state.results
    # Flat, so that an index costs no multiplication by the row's length, unknown to the compiler.
    words, terms = inputs.words.reshape(-1), inputs.terms.reshape(-1)
    waiting, stop = min(LANES, Index(len(order))), Index(len(order))
    for lane in range(waiting):
        begin_case(state, inputs, lane, Index(order[lane]), never, recording)
    take_turns(state, waiting)
    busy, t, n = waiting, ZERO, ZERO  # t, n: offsets of the lane in times and counts
    while busy > ZERO:
        while True:
            shift, mask = Index(counts[n + at.SHIFT]), Index(counts[n + at.MASK])
            warps = (
                times, counts, t + at.OWN, t + at.GATE, n + at.SUBSYSTEM, n + at.KEY,
                Index(counts[n + at.VECTORS]), np.uint32(shift), times[t + at.VALVE], np.uint32(mask),
            )  # fmt: skip
            if counts[n + at.SUBSYSTEMS] <= Index(2):
                now, key = pick_of_2(*warps)
            elif counts[n + at.SUBSYSTEMS] <= Index(4):
                now, key = pick_of_4(*warps)
            else:
                now, key = pick_of_8(*warps)
            if now >= times[t + at.LIMIT]:
                break
            # Keys are rotated by `shift` so that the warp after the last one has the lowest: round robin is
            # then the same comparison as the other schedulers.
            w = (key + shift) & mask
            scheduler, flags = of.RR, ZERO
            if skipped is not None:
                flags = Index(counts[n + at.FLAGS])
                scheduler = Index(counts[n + at.SCHEDULER])
                if scheduler != of.RR:
                    w = Index(counts[n + at.WARP_AT + w])

            # The instruction enters.
            j = Index(counts[n + at.NEXT + w])
            word = Index(words[j + of.WORD])
            s = word & of.SUBSYSTEM_MASK
            done, accepts = now + terms[j + of.LATENCY], now + terms[j + of.THROUGHPUT]
            first = Index(counts[n + at.RESULTS + w])
            result = first + (word >> of.SLOT_AT)
            results[result] = done
            if record is not None and recording:
                wake = now + terms[j + of.SAME_WARP]
                note_cause(state, record, t, n, w, s, j // ROW, now)
                note_entry(state, t, n, w, s, result, done, wake, (word & of.BARRIER) != ZERO)

            # The warp: when may its next instruction enter?
            after, over, event = j + ROW, (word & of.LAST) != ZERO, False
            if skipped is not None and word & of.REPEATS:
                after, event = around_loops(state, inputs, n, w, j)
                over = over and not event
            needs = Index(words[after + of.NEEDS])
            ready = max(results[first + (needs & of.NEED_MASK)], results[first + (needs >> of.NEED_AT)])
            ready = max(ready, now)
            if skipped is not None and flags & of.HAS_SAME_WARP:
                ready = max(ready, now + terms[j + of.SAME_WARP])
            if skipped is not None and flags & of.HAS_MANY:
                ready = further_needs(state, inputs, first, after, ready)
            if record is not None and recording:
                note_needs(state, inputs, t, n, w, first, after)
            # `never` retires a warp at its end without a branch.
            times[t + at.OWN + w] = never if over else ready
            counts[n + at.SUBSYSTEM + w] = words[after + of.WORD] & of.SUBSYSTEM_MASK
            counts[n + at.NEXT + w] = after

            # The core: when does it accept the next instruction?
            times[t + at.VALVE] = now + times[t + at.INTERVAL]
            times[t + at.END] = max(times[t + at.END], done)
            if skipped is not None:
                times[t + at.NOW] = now
                times[t + at.FREE + s] = accepts
                counts[n + at.ENTERED] += ONE
                if flags & of.HAS_CAPS:
                    accepts = max(accepts, into_ring(state, n, s, done))
            times[t + at.GATE + s] = accepts
            note_issue(state, n, w, scheduler)

            if skipped is not None and flags & (of.HAS_BARRIERS | of.HAS_SEQUENCE):
                slot = Index(counts[n + at.SLOT + w])
                if word & of.BARRIER:
                    meet(state, t, n, w, slot, done, never)
                if flags & of.HAS_SEQUENCE:
                    event |= in_group(state, inputs, t, n, slot, done, never, recording)
            # Comparing states is expensive: only at a loop's next trip or a new group, where one can recur.
            if skipped is not None and event and counts[n + at.STEADY]:
                skip_periods(state, inputs, t, n, never)
            t, n = next_lane(state, n)

        # No warp is left, or the times exceed their word: then the end is unknown (`never`).
        case, lane = counts[n + at.CASE], Index(counts[n + at.LANE])
        ends[case] = times[t + at.END]
        for w in range(Index(counts[n + at.VECTORS]) * VECTOR):
            if times[t + at.OWN + w] != never:
                ends[case] = never
        if skipped is not None:
            skipped[case] = counts[n + at.SKIPPED]
        if record is not None and recording:
            record.last[case] = counts[n + at.END_ID]
        # The lane takes the next case at once: with fewer lanes their latencies would be exposed.
        if waiting < stop:
            begin_case(state, inputs, lane, Index(order[waiting]), never, recording)
            waiting += ONE
        else:
            t, n = leave(state, n)
            busy -= ONE


simulate = compiled(_simulate)  # with all features; in float64 optionally with each entry's cause
_pasted = inlined(_simulate)


@compiled
def simulate_plain(inputs: Any, state: Any, order: Any, ends: Any, never: Any) -> None:
    """Simulate cases in ticks with `rr` and at most an issue limit: by a tenth faster if optimized twice."""
    _pasted(inputs, state, order, ends, None, None, never)
