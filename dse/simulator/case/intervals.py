"""Intervals of a warp: runs of issued instructions, each followed by a stall.

One warp is followed alone through its graph: in order, an instruction in each issue slot unless it waits for
a result. This is the input of interval analysis (GPUMech).

Source: Lemeire et al., Sec. 2.5 (Huang et al. 2014), on graphs as in Sec. 3.1.
"""

import math

import numpy as np

from dse.simulator.case.program import KINDS, Program


def intervals(
    program: Program, issue_limit: float = 1.0, waited_for: str = KINDS
) -> tuple[np.ndarray, np.ndarray]:
    """Return n_i and s_i: the instructions of each interval, and the stall after them.

    **Shapes:** [intervals] both. **Units:** s_i in cycles. Σ (n_i / IL + s_i) is the time of the warp alone,
    up to the last result, without delays by busy pipes (λ). `waited_for` has the kinds of instructions with
    latency: "m" leaves out that of computation, as Lemeire et al. do.
    """
    slot = 0.0 if math.isinf(issue_limit) else 1.0 / issue_limit
    latency = np.where([kind in waited_for for kind in program.kind], program.latency_cycles, slot)
    done: dict[int, float] = {}
    insts, stalls = [], []
    since, free, earliest, last = 0, 0.0, 0.0, 0.0  # instructions; next slot; warp may issue; last result
    for i in program.order.tolist():
        ready = max([earliest, *(done[j] for j in program.preds[i] if j in done)])
        if ready > free:
            insts.append(since)
            stalls.append(ready - free)
            since, free = 0, ready
        done[i] = free + float(latency[i])
        last = max(last, done[i])
        earliest = free + float(program.same_warp[i])
        if program.kind[i] == "b":  # a barrier: later instructions wait for it
            earliest = max(earliest, done[i])
        since, free = since + 1, free + slot
    insts.append(since)
    stalls.append(max(last - free, 0.0))
    return np.array(insts, float), np.array(stalls)
