"""Distances of blocks' addresses, against a plain comparison of every lane of every block."""

from collections import Counter

import numpy as np
import pytest

from dse.source.caches.distances import distances, of_both
from dse.source.caches.sectors import FAR


def plainly(base, mask, row, moved):
    """Compare lane by lane; kinds of addresses are numbered as they come."""
    shift, there, kinds, times = [], [], {}, Counter()
    for number, move in list(zip(row, moved - moved[0], strict=True))[1:]:
        lanes = np.flatnonzero(mask[number] & mask[row[0]])
        apart = {int(base[number, lane] - base[row[0], lane]) for lane in lanes}
        there.append(bool(apart))
        if len(apart) > 1:
            own = tuple((int(lane), int(base[number, lane] + move)) for lane in lanes)
            shift.append(FAR * kinds.setdefault(own, len(kinds) + 1))
            times[own] += 1
        else:
            shift.append(sum(apart) + move if apart else 0)
    sectors = [value if value >= FAR else value // 32 for value in shift]
    differing = sum(value >= FAR for value in shift)
    alone = sum(number == 1 for number in times.values())
    return sectors, there, any(there) and (2 * differing < sum(there) or 4 * alone <= differing)


@pytest.mark.parametrize("seed", range(200))
def test_distances_are_those_of_every_lane(seed):
    random = np.random.default_rng(seed)
    rows, blocks = int(random.integers(1, 12)), int(random.integers(2, 60))
    even = np.repeat(random.integers(0, 9, (rows, 1)) * 128, 32, axis=1) + 4 * np.arange(32)
    base = (even if seed % 2 else random.integers(0, 3, (rows, 32)) * 64) + (1 << 44)
    base[random.integers(0, rows, rows // 2)] = base[0]
    mask = random.random((rows, 32)) < random.choice([0.3, 0.95, 1.0])
    row = random.integers(0, rows, blocks)
    moved = random.integers(0, 4, blocks) * random.choice([0, 32, 4])
    shift, there = np.empty((1, blocks - 1), np.int64), np.empty((1, blocks - 1), bool)
    names = np.zeros(1, np.uint64)
    distances(base.astype(np.int64)[None], mask[None], row, moved, shift, there, names)
    assert (*shift.tolist(), *there.tolist(), bool(names[0])) == plainly(base, mask, row, moved)


@pytest.mark.parametrize(
    ("first", "last", "expected", "known"),
    [
        ([8, 16, 24, 32], [8, 16, 24, 32], [8, 16, 24, 32], True),
        ([8, 16, 24, 32], [8, 16, 24, 40], [8, 16, 24, FAR], True),  # one block in four
        ([8, 8, 8, 8, 16], [16, 16, 16, 16, 16], [FAR, FAR, FAR, FAR, 16], True),  # all alike
        ([8, 16, 24, 32], [9, 17, 24, 32], [FAR, 2 * FAR, 24, 32], False),  # half, each from all others
    ],
)
def test_warps_that_move_apart_are_far_from_the_first_block(first, last, expected, known):
    shift, there = np.array(first), np.ones(len(first), bool)
    name = of_both(shift, np.array(last), there, there)
    assert (shift.tolist(), bool(name)) == (expected, known)
