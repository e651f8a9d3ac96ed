"""Where a warp keeps the times at which its results are ready, until nothing more waits for them.

In a straight program a ring does: as long as dependences reach back at most its length, an instruction's
number, modulo that, is its place. In a rolled one a result may be awaited long after, in other iterations:
each gets a slot for as long as it is needed, as a compiler hands out registers.
"""

from heapq import heappop, heappush

import numpy as np

from dse.simulator.case.program import Program


def allocate(program: Program) -> tuple[np.ndarray, int]:
    """Choose the slot of each instruction's result [n], and count the slots.

    Results that nobody awaits share one. What is read before it is written is what a warp starts with.
    """
    begin, end = _lifetimes(program)
    slots, free, count = np.full(len(program), -1), list[int](), 0
    held: list[tuple[int, int]] = []  # when a slot becomes free, and which
    for i in np.argsort(begin, kind="stable"):
        if end[i] < 0:
            continue
        while held and held[0][0] <= begin[i]:
            heappush(free, heappop(held)[1])
        if free:
            slot = heappop(free)
        else:
            slot, count = count, count + 1
        slots[i] = slot
        heappush(held, (int(end[i]), slot))
    return np.where(slots < 0, count, slots), count + 1


def _lifetimes(program: Program) -> tuple[np.ndarray, np.ndarray]:
    """Find from which instruction to which one a result needs a slot, [n] each; -1 as an end: none awaits it.

    At its end it is read before another may be written. What an iteration hands to the next one needs its
    slot from the start of the program, so that the first iteration finds nothing there, and to the end of
    the outermost loop around both.
    """
    begin, end = np.arange(len(program)), np.full(len(program), -1)
    for i, preds in enumerate(program.preds):
        around = program.around(i)
        for j in preds:
            if j < i:
                last = next((loop.stop for loop in around if j not in loop), i)
            else:
                last = next(loop.stop for loop in around if j in loop)
                begin[j] = 0
            end[j] = max(end[j], last)
    return begin, end
