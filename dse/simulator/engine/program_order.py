"""The loop of program order: lanes take turns, and each turn enters the next instruction of one warp.

An entry is a chain of a few dozen dependent operations, during which a core has time for those of other
cases. Nothing that differs from entry to entry decides a branch but barriers, the ends of loops, warps and
groups, so that the core rarely guesses wrong.
"""

from typing import Any

import numpy as np

from dse.simulator.engine import layout as of
from dse.simulator.engine import state as at
from dse.simulator.engine.causes import note_cause, note_entry, note_needs
from dse.simulator.engine.begin import ONE, ZERO, begin_case
from dse.simulator.engine.compile import compiled, inlined
from dse.simulator.engine.layout import Index, Inputs, Record
from dse.simulator.engine.periods import skip_periods
from dse.simulator.engine.pick import pick_of_2, pick_of_4, pick_of_8
from dse.simulator.engine.state import LANES, NOBODY, State
from dse.simulator.engine.entry import around_loops, in_group, into_ring, meet

FOUR = Index(4)  # numbers in a row of instructions


@inlined
def _simulate(
    inputs: Inputs, state: State, order: np.ndarray, ends: np.ndarray, skipped: np.ndarray, record: Record, never: Any,
    general: bool, recording: bool,
) -> None:  # fmt: skip
    times, counts, results = state.times, state.counts, state.results
    # One index each: a second one would be multiplied by the length of a row that is known only now.
    words, terms = inputs.words.reshape(-1), inputs.terms.reshape(-1)
    waiting, stop = ZERO, Index(len(order))
    busy, t, n = ZERO, ZERO, ZERO
    while busy < LANES and waiting < stop:
        begin_case(state, inputs, busy, Index(order[waiting]), never, recording)
        waiting += ONE
        busy += ONE
    for lane in range(busy):
        following = ZERO if lane + ONE == busy else lane + ONE
        counts[lane * at.COUNTS + at.NEXT_T] = following * at.TIMES
        counts[lane * at.COUNTS + at.NEXT_N] = following * at.COUNTS
    while busy > ZERO:
        while True:
            shift, mask = Index(counts[n + at.SHIFT]), Index(counts[n + at.MASK])
            picked = (
                times, counts, t + at.OWN, t + at.GATE, n + at.SUBSYSTEM, n + at.KEY,
                Index(counts[n + at.VECTORS]), np.uint32(shift), times[t + at.VALVE], np.uint32(mask),
            )  # fmt: skip
            if counts[n + at.SUBSYSTEMS] <= Index(2):
                now, key = pick_of_2(*picked)
            elif counts[n + at.SUBSYSTEMS] <= Index(4):
                now, key = pick_of_4(*picked)
            else:
                now, key = pick_of_8(*picked)
            if now >= times[t + at.LIMIT]:
                break
            w = (key + shift) & mask
            if general:
                scheduler = counts[n + at.SCHEDULER]
                if scheduler != of.RR:
                    w = Index(counts[n + at.WARP_AT + w])

            # The instruction.
            j = Index(counts[n + at.NEXT + w])
            word = Index(words[j + of.WORD])
            s = word & of.SUBSYSTEM_MASK
            if recording:
                note_cause(state, record, t, n, w, s, j // FOUR, now)
            done = now + terms[j + of.LATENCY]
            accepts = now + terms[j + of.THROUGHPUT]
            result = Index(counts[n + at.RESULTS + w])
            results[result + (word >> of.SLOT_AT)] = done
            if recording:
                slotted, woken = result + (word >> of.SLOT_AT), now + terms[j + of.SAME_WARP]
                note_entry(state, t, n, w, s, slotted, done, woken, (word & of.BARRIER) != ZERO)

            # What the warp enters next, and from when on it may.
            after, over, event = j + FOUR, (word & of.LAST) != ZERO, False
            if general:
                flags = Index(counts[n + at.FLAGS])
                if word & of.REPEATS:
                    after, event = around_loops(state, inputs, t, n, w, j)
                    over = over and not event
            needs = Index(words[after + of.NEEDS])
            own = max(results[result + (needs & of.NEED_MASK)], results[result + (needs >> of.NEED_AT)])
            own = max(own, now)
            if general and flags & of.HAS_SAME_WARP:
                own = max(own, now + terms[j + of.SAME_WARP])
            if general and flags & of.HAS_MANY:
                needs = Index(words[after + of.NEEDS_2])
                own = max(own, results[result + (needs & of.NEED_MASK)])
                own = max(own, results[result + (needs >> of.NEED_AT)])
                if words[after + of.WORD] & of.FURTHER:
                    k = Index(words[after + of.FURTHER_AT])
                    while inputs.further[k] != ZERO:
                        own = max(own, results[result + inputs.further[k]])
                        k += ONE
            if recording:
                note_needs(state, inputs, t, n, w, result, after, times.dtype.type(0))
            times[t + at.OWN + w] = never if over else own
            counts[n + at.SUBSYSTEM + w] = words[after + of.WORD] & of.SUBSYSTEM_MASK
            counts[n + at.NEXT + w] = after

            # The core.
            times[t + at.VALVE] = now + times[t + at.INTERVAL]
            times[t + at.END] = max(times[t + at.END], done)
            gate = accepts
            if general:
                times[t + at.FREE + s] = accepts
                times[t + at.NOW] = now
                counts[n + at.ENTERED] += ONE
                if flags & of.HAS_CAPS:
                    gate = max(accepts, into_ring(state, n, s, done))
            times[t + at.GATE + s] = gate
            if not general or scheduler == of.RR:
                counts[n + at.SHIFT] = w + ONE
            else:
                if scheduler == of.GTO:
                    last = counts[n + at.LAST_WARP]
                    if last != NOBODY:
                        counts[n + at.KEY + last] = counts[n + at.RANK + last]
                    counts[n + at.KEY + w] = ZERO
                    counts[n + at.WARP_AT] = w
                counts[n + at.LAST_WARP] = w

            if general and flags & (of.HAS_BARRIERS | of.HAS_SEQUENCE):
                slot = Index(counts[n + at.SLOT + w])
                if word & of.BARRIER:
                    meet(state, t, n, w, slot, done, never)
                if flags & of.HAS_SEQUENCE:
                    event |= in_group(state, inputs, t, n, slot, done, never, recording)
            if general and event and counts[n + at.STEADY]:
                skip_periods(state, inputs, t, n, never)
            t, n = Index(counts[n + at.NEXT_T]), Index(counts[n + at.NEXT_N])

        # Nothing enters any more, or too late.
        case = counts[n + at.CASE]
        ends[case] = times[t + at.END]
        for w in range(counts[n + at.VECTORS] * Index(16)):
            if times[t + at.OWN + w] != never:  # it goes on, beyond the limit
                ends[case] = never
        if general:
            skipped[case] = counts[n + at.SKIPPED]
        if recording:
            record.last[case] = counts[n + at.END_ID]
        lane = Index(counts[n + at.LANE])
        if waiting < stop:
            begin_case(state, inputs, lane, Index(order[waiting]), never, recording)
            waiting += ONE
        else:
            busy -= ONE
            before = n
            while counts[before + at.NEXT_N] != n:
                before = Index(counts[before + at.NEXT_N])
            t, counts[before + at.NEXT_T] = Index(counts[n + at.NEXT_T]), counts[n + at.NEXT_T]
            n, counts[before + at.NEXT_N] = Index(counts[n + at.NEXT_N]), counts[n + at.NEXT_N]


@compiled
def simulate_plain(
    inputs: Any, state: Any, order: Any, ends: Any, skipped: Any, record: Any, never: Any
) -> None:
    """Simulate cases that have no more than an issue limit."""
    _simulate(inputs, state, order, ends, skipped, record, never, False, False)


@compiled
def simulate_ticks(
    inputs: Any, state: Any, order: Any, ends: Any, skipped: Any, record: Any, never: Any
) -> None:
    """Simulate cases in ticks with all that there is."""
    _simulate(inputs, state, order, ends, skipped, record, never, True, False)


@compiled
def simulate_float64(
    inputs: Any, state: Any, order: Any, ends: Any, skipped: Any, record: Any, never: Any
) -> None:
    """Simulate cases in float64 with all that there is; if asked for, record what each entry waited for."""
    _simulate(inputs, state, order, ends, skipped, record, never, True, record.record)
