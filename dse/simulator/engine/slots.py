"""Where a warp keeps the times at which its results are ready, until nothing more waits for them.

In a straight program a ring does: as long as dependences reach back at most its length, an instruction's
number, modulo that, is its place. In a rolled one a result may be awaited long after, in other iterations:
each gets a slot for as long as it is needed, as a compiler hands out registers.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from dse.simulator.engine.compile import compiled

if TYPE_CHECKING:
    from dse.simulator.engine.columns import Columns


def result_slots(columns: "Columns") -> tuple[np.ndarray, np.ndarray]:
    """Return how many slots each program has, and in rolled ones that of each instruction's result.

    What is read before it is written is what a warp starts with.
    **Shapes:** [programs], [instructions]; without any loop the second one is empty.
    """
    counts = columns.survey.reach.copy()
    slots = np.zeros(len(columns.subsystem) if len(columns.loops) else 0, np.int32)
    for program in np.nonzero(columns.loop_counts)[0]:
        some = slice(columns.first[program], columns.first[program + 1])
        counts[program] = _allocate(
            columns.pred_first[some.start : some.stop + 1],
            columns.pred,
            columns.loops[columns.loop_first[program] : columns.loop_first[program + 1]],
            slots[some],
        )
    return counts, slots


@compiled
def _allocate(pred_first: Any, pred: Any, loops: Any, slots: Any) -> int:
    """Hand out slots where there are loops, and return how many; results that nobody awaits share one."""
    length = len(slots)
    starts, ends = _lifetimes(pred_first, pred, loops, length)
    free = np.empty(length + 1, np.int64)  # a stack
    frees = np.full((length + 1, 2), -1)  # the first result that ends there; for a result the next such one
    count = free_count = 0
    for early in (True, False):  # those that are needed from the start of the program on
        for i in range(length):
            if not early:
                result = frees[i, 0]
                while result >= 0:
                    free[free_count] = slots[result]
                    free_count += 1
                    result = frees[result, 1]
            if ends[i] < 0 or early != (starts[i] == 0):
                continue
            if free_count:
                free_count -= 1
                slots[i] = free[free_count]
            else:
                slots[i] = count
                count += 1
            frees[i, 1] = frees[ends[i], 0]
            frees[ends[i], 0] = i
    for i in range(length):
        if ends[i] < 0:
            slots[i] = count
    return count + 1


@compiled
def _lifetimes(pred_first: Any, pred: Any, loops: Any, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Find from which instruction to which one a result needs a slot, [n] each; -1 as an end: none awaits it.

    At its end it is read before another may be written. What an iteration hands to the next one needs its
    slot from the start of the program, so that the first iteration finds nothing there, and to the end of
    the outermost loop around both.
    """
    begin, end = np.arange(length), np.full(length, -1)
    for i in range(length):
        for at in range(pred_first[i], pred_first[i + 1]):
            j, last = pred[at], i
            for n in range(len(loops)):  # the outer one of two comes first
                inside = loops[n, 0] <= i < loops[n, 1]
                both = inside and loops[n, 0] <= j < loops[n, 1]
                if (j < i and inside and not both) or (j >= i and both):
                    last = loops[n, 1]
                    break
            if j >= i:
                begin[j] = 0
            end[j] = max(end[j], last)
    return begin, end
