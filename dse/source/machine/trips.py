"""Further trips of a loop in which values that change evenly stay in a range, or a test goes the same way.

After n trips a value is itself plus n times its change. Both are exact integers: arrays of int64 of shapes
that broadcast, as are the numbers of trips.
"""

import numpy as np

FOR_EVER = 2**40  # trips
BITS_32 = 2**32
INT32 = range(-(2**31), 2**31)  # values of a signed register
UINT32 = range(BITS_32)
PAIRS = range(-(2**61), 2**61)  # 64-bit values that are followed


class Irregular(Exception):
    """A loop whose trips cannot be predicted; the message says why."""


def signed(change: np.ndarray) -> np.ndarray:
    """Return the low 32 bits of a change as a signed number."""
    return ((change + 2**31) & 0xFFFFFFFF) - 2**31


def trips_within(value: np.ndarray, change: np.ndarray, within: range) -> np.ndarray:
    """Count the trips in which a changing value stays in a range: none if it begins outside."""
    above, below = within.stop - 1 - value, value - within.start
    if change.size == 1:
        step = int(change.flat[0])
        if not step:
            return np.full_like(value, FOR_EVER)
        room = (above if step > 0 else below) // abs(step)
    else:
        room = np.where(change > 0, above, below) // np.maximum(np.abs(change), 1)
    return np.where(change == 0, FOR_EVER, np.where(np.minimum(above, below) < 0, 0, room))


def trips_of_result(test: str, apart: np.ndarray, change: np.ndarray) -> np.ndarray:
    """Count the trips in which a test such as LT has the same result.

    `apart` is the left value minus the right one, `change` likewise.
    """
    if test in ("EQ", "NE"):
        divisor = np.where(change == 0, 1, change)
        meets = (change != 0) & (-apart % divisor == 0) & (-apart // divisor > 0)
        trips = np.where(meets, -apart // divisor - 1, FOR_EVER)
        return np.where((apart == 0) & (change != 0), 0, trips)
    apart = apart - 1 if test in ("LE", "GT") else apart  # makes it a test for < 0
    below = apart < 0
    room = np.where(below, -apart - 1, apart) // np.maximum(np.abs(change), 1)
    towards = np.where(below, change > 0, change < 0)
    return np.where(towards, room, FOR_EVER)
