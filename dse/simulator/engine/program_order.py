"""The loop of program order: lanes take turns, and each turn enters the next instruction of one warp.

An entry is a chain of a few dozen dependent operations, during which a core has time for those of other
cases. Nothing that differs from entry to entry decides a branch but barriers, the ends of loops, warps and
groups, so that the core rarely guesses wrong.
"""

from typing import Any

import numpy as np

from dse.simulator.engine import layout as of
from dse.simulator.engine import state as at
from dse.simulator.engine.begin import ONE, ZERO, begin_case
from dse.simulator.engine.compile import compiled, inlined
from dse.simulator.engine.layout import Index, Inputs, Record
from dse.simulator.engine.pick import pick_of_2, pick_of_4, pick_of_8
from dse.simulator.engine.state import LANES, NOBODY, new_state
from dse.simulator.engine.entry import around_loops, in_group, into_ring, meet

FOUR = Index(4)  # numbers in a row of instructions


@inlined
def _simulate(
    inputs: Inputs, order: np.ndarray, ends: np.ndarray, skipped: np.ndarray, record: Record, never: Any,
    general: bool, recording: bool,
) -> None:  # fmt: skip
    state = new_state(inputs, order, recording)
    times, counts, results = state.times, state.counts, state.results
    # One index each: a second one would be multiplied by the length of a row that is known only now.
    words, terms = inputs.words.reshape(-1), inputs.terms.reshape(-1)
    waiting, stop, busy = ZERO, Index(len(order)), True
    while busy:
        busy = False
        for lane in range(LANES):
            t, n = lane * at.TIMES, lane * at.COUNTS
            if counts[n + at.CASE] == NOBODY:
                if waiting == stop:
                    continue
                begin_case(state, inputs, lane, Index(order[waiting]), never, recording)
                waiting += ONE
            busy = True

            shift, mask = counts[n + at.SHIFT], counts[n + at.MASK]
            picked = (
                times, counts, t + at.OWN, t + at.GATE, n + at.SUBSYSTEM, n + at.KEY,
                Index(counts[n + at.VECTORS]), shift, times[t + at.VALVE], mask,
            )  # fmt: skip
            if counts[n + at.SUBSYSTEMS] <= Index(2):
                now, key = pick_of_2(*picked)
            elif counts[n + at.SUBSYSTEMS] <= Index(4):
                now, key = pick_of_4(*picked)
            else:
                now, key = pick_of_8(*picked)
            if now >= times[t + at.LIMIT]:
                case = counts[n + at.CASE]
                ends[case] = times[t + at.END]
                for w in range(counts[n + at.VECTORS] * Index(16)):
                    if times[t + at.OWN + w] != never:  # it goes on, beyond the limit
                        ends[case] = never
                if general:
                    skipped[case] = counts[n + at.SKIPPED]
                if recording:
                    record.last[case] = counts[n + at.END_ID]
                counts[n + at.CASE] = NOBODY
                continue
            w = (key + shift) & Index(mask)
            scheduler = counts[n + at.SCHEDULER]
            if scheduler != of.RR:
                w = Index(counts[n + at.WARP_AT + w])

            # The instruction.
            j = Index(counts[n + at.NEXT + w])
            word = Index(words[j * FOUR + of.WORD])
            s = word & of.SUBSYSTEM_MASK
            done = now + terms[j * FOUR + of.LATENCY]
            accepts = now + terms[j * FOUR + of.THROUGHPUT]
            result = Index(counts[n + at.RESULTS]) + w * Index(counts[n + at.WINDOW])
            results[result + (word >> of.SLOT_AT)] = done
            flags = Index(counts[n + at.FLAGS])

            # What the warp enters next, and from when on it may.
            after, over, event = j + ONE, (word & of.LAST) != ZERO, False
            if general and word & of.REPEATS:
                after, event = around_loops(state, inputs, lane, w, j)
                over = over and not event
            needs = Index(words[after * FOUR + of.NEEDS])
            own = max(results[result + (needs & of.NEED_MASK)], results[result + (needs >> of.NEED_AT)])
            own = max(own, now)
            if general and flags & of.HAS_SAME_WARP:
                own = max(own, now + terms[j * FOUR + of.SAME_WARP])
            if general and flags & of.HAS_MANY:
                needs = Index(words[after * FOUR + of.NEEDS_2])
                own = max(own, results[result + (needs & of.NEED_MASK)])
                own = max(own, results[result + (needs >> of.NEED_AT)])
                if words[after * FOUR + of.WORD] & of.FURTHER:
                    k = Index(words[after * FOUR + of.FURTHER_AT])
                    while inputs.further[k] != ZERO:
                        own = max(own, results[result + inputs.further[k]])
                        k += ONE
            times[t + at.OWN + w] = never if over else own
            counts[n + at.SUBSYSTEM + w] = words[after * FOUR + of.WORD] & of.SUBSYSTEM_MASK
            counts[n + at.NEXT + w] = after

            # The core.
            times[t + at.VALVE] = now + times[t + at.INTERVAL]
            times[t + at.END] = max(times[t + at.END], done)
            gate = accepts
            if general:
                times[t + at.FREE + s] = accepts
                times[t + at.NOW] = now
                counts[n + at.ENTERED] += ONE
                if flags & of.HAS_CAPS and counts[n + at.CAP + s] > ZERO:
                    gate = max(accepts, into_ring(state, lane, s, done))
            times[t + at.GATE + s] = gate
            if scheduler == of.RR:
                counts[n + at.SHIFT] = w + ONE
            elif scheduler == of.GTO:
                last = counts[n + at.LAST_WARP]
                if last != NOBODY:
                    counts[n + at.KEY + last] = counts[n + at.RANK + last]
                counts[n + at.KEY + w] = ZERO
                counts[n + at.WARP_AT] = w
            counts[n + at.LAST_WARP] = w

            if general and flags & (of.HAS_BARRIERS | of.HAS_SEQUENCE):
                slot = Index(counts[n + at.SLOT + w])
                if word & of.BARRIER:
                    meet(state, lane, w, slot, done, never)
                if flags & of.HAS_SEQUENCE:
                    event |= in_group(state, inputs, lane, slot, done, never, recording)


@compiled
def simulate_plain(inputs: Any, order: Any, ends: Any, skipped: Any, record: Any, never: Any) -> None:
    """Simulate cases that have no more than an issue limit."""
    _simulate(inputs, order, ends, skipped, record, never, False, False)


@compiled
def simulate_any(inputs: Any, order: Any, ends: Any, skipped: Any, record: Any, never: Any) -> None:
    """Simulate cases with all that there is."""
    _simulate(inputs, order, ends, skipped, record, never, True, False)
