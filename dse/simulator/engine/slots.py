"""Slots for the times of a warp's results, until nothing waits for them any more.

A straight program uses a ring as long as its longest dependence: an instruction's slot is its number modulo
that length. In a rolled one a result may be needed much later, in other iterations: slots are allocated by
lifetime, as a compiler allocates registers.
"""

from typing import Any

import numpy as np

from dse.core.numba_cache import compiled, inlined


def hand_out(pred_first: np.ndarray, pred: np.ndarray, loops: np.ndarray, slots: np.ndarray) -> int:
    """Fill in the slot of each instruction's result in a rolled program, and return their number.

    A result that is read before it is written exists from the warp's start.
    """
    work = tuple(np.full(len(slots) + 1, -1) for _ in range(5))
    return _allocate(pred_first, pred, loops, slots, work)


@compiled
def _allocate(pred_first: Any, pred: Any, loops: Any, slots: Any, work: Any) -> int:
    """Allocate slots in a program with loops, and return their number; unused results share one."""
    length = len(slots)
    begin, end, free, ending, following = work  # ending, following: lists of the results that end at i
    _lifetimes(pred_first, pred, loops, begin, end)
    count = free_count = 0
    for early in (True, False):  # first the results that live from the program's start
        for i in range(length):
            result = -1 if early else ending[i]
            while result >= 0:
                free[free_count] = slots[result]
                free_count += 1
                result = following[result]
            if end[i] < 0 or early != (begin[i] == 0):
                continue
            if free_count:
                free_count -= 1
                slots[i] = free[free_count]
            else:
                slots[i] = count
                count += 1
            following[i], ending[end[i]] = ending[end[i]], i
    for i in range(length):
        if end[i] < 0:
            slots[i] = count
    return count + 1


@inlined
def _lifetimes(pred_first: Any, pred: Any, loops: Any, begin: Any, end: Any) -> None:
    """Find the first and the last instruction of each result's lifetime; an end of -1: it is unused.

    The last instruction reads it before another may be written. A result used in the next iteration lives
    from the start of the program, so that the first iteration finds nothing there, to the end of the
    outermost loop around both.
    """
    length = len(pred_first) - 1
    for i in range(length):
        begin[i], end[i] = i, -1
    for i in range(length):
        for edge in range(pred_first[i], pred_first[i + 1]):
            j, last = pred[edge], i
            for n in range(len(loops)):  # outer loops come first
                inside = loops[n, 0] <= i < loops[n, 1]
                both = inside and loops[n, 0] <= j < loops[n, 1]
                if (j < i and inside and not both) or (j >= i and both):
                    last = loops[n, 1]
                    break
            if j >= i:
                begin[j] = 0
            end[j] = max(end[j], last)
