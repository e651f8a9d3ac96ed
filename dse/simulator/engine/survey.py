"""Properties of all cases' instructions: ticks, largest terms, and features in use."""

from typing import Any, NamedTuple

import numpy as np

from dse.core.numba_cache import compiled, inlined
from dse.simulator.case.program import MOST_SUBSYSTEMS


class Instructions(NamedTuple):
    """Columns of instructions, for compiled loops."""

    subsystem: np.ndarray
    throughput_cycles: np.ndarray
    latency_cycles: np.ndarray
    same_warp: np.ndarray
    barrier: np.ndarray
    pred_first: np.ndarray
    pred: np.ndarray


class Survey(NamedTuple):
    """Facts about all instructions of a case. Arrays are [cases] unless stated."""

    reach: np.ndarray  # longest dependence of each straight program, in instructions [programs]
    exponent: np.ndarray  # the least k, 0 or more, for which all terms are multiples of 2^-k cycles
    largest: np.ndarray  # term, cycles
    busy: np.ndarray  # Σλ over all entries of each subsystem, cycles [cases, MOST_SUBSYSTEMS]
    subsystems: np.ndarray  # up to the last one in use
    preds: np.ndarray  # most dependences of an instruction
    barriers: np.ndarray  # bool: whether there are any
    same_warp: np.ndarray  # bool: whether there is an interval above 0


def survey(
    program_first: np.ndarray,
    first: np.ndarray,
    runs: np.ndarray,
    times: np.ndarray,
    valve: np.ndarray,
    rows: Instructions,
) -> Survey:
    """Survey all instructions in one pass."""
    cases = len(program_first) - 1
    result = Survey(
        reach=np.ones(len(first) - 1, np.int64),
        exponent=np.zeros(cases, np.int64),
        largest=np.zeros(cases),
        busy=np.zeros((cases, MOST_SUBSYSTEMS)),
        subsystems=np.zeros(cases, np.int64),
        preds=np.zeros(cases, np.int64),
        barriers=np.zeros(cases, bool),
        same_warp=np.zeros(cases, bool),
    )
    _look(program_first, first, runs, times, valve, rows, result)
    return result


@inlined
def _scale(x: Any, scale: Any) -> Any:
    """Double `scale` until x times it is an integer; infinite if there is no such scale."""
    while scale < np.inf and x * scale != np.floor(x * scale):
        scale *= 2.0
    return scale


@compiled
def _look(program_first: Any, first: Any, runs: Any, times: Any, valve: Any, rows: Any, result: Any) -> None:
    pred_first, pred, subsystem = rows.pred_first, rows.pred, rows.subsystem
    for case in range(len(valve)):
        scale, largest, longest = _scale(valve[case], 1.0), valve[case], 0.0
        highest, preds, barriers = 0, 0, False
        for program in range(program_first[case], program_first[case + 1]):
            begin, reach = first[program], 1
            for i in range(begin, first[program + 1]):
                accepts, ready, own = rows.throughput_cycles[i], rows.latency_cycles[i], rows.same_warp[i]
                scale = _scale(own, _scale(ready, _scale(accepts, scale)))
                largest, longest = max(largest, accepts, ready), max(longest, own)
                result.busy[case, subsystem[i]] += accepts * (runs[program] * times[i])
                highest = max(highest, subsystem[i])
                count = pred_first[i + 1] - pred_first[i]
                preds = max(preds, count)
                # Dependences are ascending.
                farthest = pred[pred_first[i] if count else 0] if len(pred) else 0
                reach = max(reach, i - begin - farthest if count else 0)
                barriers |= rows.barrier[i]
            result.reach[program] = reach
        result.exponent[case] = np.int64(np.log2(scale)) if scale < np.inf else 1100
        result.largest[case] = max(largest, longest)
        result.subsystems[case] = highest + 1
        result.preds[case] = preds
        result.barriers[case] = barriers
        result.same_warp[case] = longest > 0
