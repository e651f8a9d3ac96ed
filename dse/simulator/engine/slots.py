"""Slots in which a warp keeps the times of its results, until nothing more waits for them.

In a straight program a ring does: as long as dependences reach back at most its length, an instruction's
number, modulo that, is its place. In a rolled one a result may be awaited long after, in other iterations:
each gets a slot for as long as it is needed, as a compiler hands out registers.
"""

from typing import Any

import numpy as np

from dse.core.numba_cache import compiled, inlined


def hand_out(pred_first: np.ndarray, pred: np.ndarray, loops: np.ndarray, slots: np.ndarray) -> int:
    """Fill in the slot of each instruction's result in a rolled program, and return how many there are.

    A result that is read before it is written is one that a warp starts with.
    """
    work = tuple(np.full(len(slots) + 1, -1) for _ in range(5))
    return _allocate(pred_first, pred, loops, slots, work)


@compiled
def _allocate(pred_first: Any, pred: Any, loops: Any, slots: Any, work: Any) -> int:
    """Hand out slots where there are loops, and return how many; results that nobody awaits share one."""
    length = len(slots)
    begin, end, free, ending, following = (
        work  # ENDING: a result that ends at an instruction; FOLLOWING: the next
    )
    _lifetimes(pred_first, pred, loops, begin, end)
    count = free_count = 0
    for early in (True, False):  # first values that are needed from the start of the program on
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
    """Find from which instruction to which one a result needs a slot; -1 as an end: none awaits it.

    At its end it is read before another may be written. What an iteration hands to the next one needs its
    slot from the start of the program, so that the first iteration finds nothing there, and to the end of
    the outermost loop around both.
    """
    length = len(pred_first) - 1
    for i in range(length):
        begin[i], end[i] = i, -1
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
