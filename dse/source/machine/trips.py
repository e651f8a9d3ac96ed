"""Further trips of a loop in which values that change evenly stay in a range, or a test goes the same way.

After n trips a value is itself plus n times its change. Both are exact integers: arrays of int64 of shapes
that broadcast, as are the numbers of trips.
"""

from collections.abc import Callable

import numpy as np

FOR_EVER = 2**40  # trips
BITS_32 = 2**32
INT32 = range(-(2**31), 2**31)  # values of a signed register
UINT32 = range(BITS_32)
Change = np.ndarray | None  # int64, per trip; None: no change
Moving = tuple[np.ndarray, Change]  # a value and its change
Logic = Callable[[np.ndarray], np.ndarray]  # of a word with others
_SIDES = (range(-(2**62), 0), range(2**62)), (range(-(2**62), 0), range(1, 2**62))  # of 0; without it
PAIRS = range(-(2**61), 2**61)  # 64-bit values that are followed


class Irregular(Exception):
    """A loop whose trips cannot be predicted; the message says why."""


class TripLimits:
    """The number of further trips with proven changes."""

    trips = FOR_EVER
    limits_bits = False  # to those until some bits overflow: too few, of loops

    @property
    def enough(self) -> int:
        """A number of trips to which a limit changes nothing."""
        return self.trips

    def limit_trips(self, trips: np.ndarray) -> None:
        """Limit the proven trips to the minimum over lanes."""
        raise NotImplementedError

    def joins(self) -> None:
        """Note that a result is not just a sum of what its operands change by."""

    def limit(self, value: np.ndarray, change: Change, within: range) -> None:
        """Limit the proven trips to those in which a value stays in a range, in all lanes."""
        if change is not None and not self._stays(value, change, within):
            self.limit_trips(trips_within(value.astype(np.int64), change, within))

    def keep_order(self, test: str, left: Moving, right: Moving, integers: range) -> None:
        """Limit the proven trips to those with the same result of a test, in which no value overflows."""
        (value, change), (other, other_change) = left, right
        self.limit(value, change, integers)
        self.limit(other, other_change, integers)
        if change is not None or other_change is not None:
            apart = (0 if change is None else change) - (0 if other_change is None else other_change)
            value, change = value - other, np.asarray(apart)
            if not self._stays(value - (test in ("LE", "GT")), change, *_SIDES[test in ("EQ", "NE")]):
                self.limit_trips(trips_of_result(test, value, change))

    def _stays(self, value: np.ndarray, change: np.ndarray, *ranges: range) -> bool:
        """Return whether a value surely stays in a range, in all lanes, as long as trips are proven."""
        trips = self.enough
        if trips >= FOR_EVER:
            return False
        down, up = (trips * int(order.reduce(change, None, initial=0)) for order in (np.minimum, np.maximum))
        least, most = int(np.minimum.reduce(value, None)) + down, int(np.maximum.reduce(value, None)) + up
        surely = any(within.start <= least and most < within.stop for within in ranges)
        if surely:
            self.joins()
        return surely

    def shifted_right(self, value: np.ndarray, change: np.ndarray, count: int, integers: range) -> Change:
        """Return the change of a word shifted right, while it and the bits shifted out do not overflow."""
        self.limit(value, change, integers)
        if not (change % 2**count).any():
            return change >> count
        self.limit(value & (2**count - 1), change, range(2**count))
        return None

    def logic(self, word: np.ndarray, change: np.ndarray, result: Logic, lanes: np.ndarray) -> Change:
        """Return the change of logic of a changing word with constant ones, which passes some of its bits on.

        If these are all bits from the lowest changing one up to some bit, the result changes like the word
        until they overflow, or, if they are inverted, like its negative; if they are higher, it is constant
        until the bits below overflow.

        **Raises:** Irregular if other bits are passed on in any lane, or if bits overflow after too few trips
        """
        off, on = result(np.zeros((1, 1), np.int64)), result(np.full((1, 1), 0xFFFFFFFF))
        below = ((change & -change) - 1) & 0xFFFFFFFF  # bits that do not change
        passed, turned = on & ~off & ~below, off & ~on & ~below
        depends = passed | turned
        field = depends | below
        whole = ((passed == 0) | (turned == 0)) & (field & (field + 1) == 0)
        field = np.where(whole, field, (depends & -depends) - 1)  # else the bits below, not in the result
        if (lanes & ~whole & (np.abs(change) > field)).any():
            raise Irregular("other bits than the lowest that change are passed on")
        low = word & field
        room = np.where(change > 0, (field - low) // np.maximum(change, 1), low // np.maximum(-change, 1))
        limited = lanes & (change != 0) & (depends != 0) & (field != 0xFFFFFFFF)
        if not self.limits_bits and limited.any():
            raise Irregular("bits that change are passed on, and overflow soon")
        self.limit_trips(np.where(limited, room, FOR_EVER))
        changed = np.where(whole & (depends != 0), np.where(turned != 0, -change, change), 0)
        return changed if changed.any() else None


def signed(change: np.ndarray) -> np.ndarray:
    """Return the low 32 bits of a change as a signed number."""
    return ((change + 2**31) & 0xFFFFFFFF) - 2**31


def uniform(change: np.ndarray, lanes: np.ndarray) -> int | None:
    """Return the change common to all lanes; None if they differ."""
    shape = np.broadcast_shapes(change.shape, lanes.shape)
    active = np.broadcast_to(change, shape)[np.broadcast_to(lanes, shape)]
    if not active.size:
        return 0
    return int(active[0]) if (active == active[0]).all() else None


def trips_within(value: np.ndarray, change: np.ndarray, within: range) -> np.ndarray:
    """Count the trips in which a changing value stays in a range: none if it begins outside."""
    if change.size == 1:
        step = int(change.flat[0])
        if not step:
            return np.full_like(value, FOR_EVER)
        room = within.stop - 1 - value if step > 0 else value - within.start
        shift = abs(step).bit_length() - 1
        room = room >> shift if abs(step) == 1 << shift else room // abs(step)  # shifts are far faster
        outside = value < within.start if step > 0 else value >= within.stop
        return np.where(outside, 0, room) if outside.any() else room
    above, below = within.stop - 1 - value, value - within.start
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
