"""Sets of threads: one object for each, and what is counted of them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dse.source.machine.thread_set import LaneSets

MASKS = st.lists(st.integers(0, 2**64 - 1), min_size=2, max_size=2)  # of two blocks of two warps


def as_mask(rows: list[int]) -> np.ndarray:
    return np.array([[bool(row >> thread & 1) for thread in range(64)] for row in rows])


@given(rows=MASKS, others=MASKS)
def test_sets(rows, others):
    sets = LaneSets((2, 64))
    lanes, more = sets.of(as_mask(rows)), sets.of(as_mask([a | b for a, b in zip(rows, others, strict=True)]))
    assert sets.of(as_mask(rows)) is lanes
    assert lanes.total == sum(row.bit_count() for row in rows)
    assert lanes.threads.tolist() == [row.bit_count() for row in rows]
    words = [[row & 0xFFFFFFFF, row >> 32] for row in rows]
    assert lanes.warps.tolist() == [sum(word > 0 for word in pair) for pair in words]
    assert lanes.bits[:, ::32].tolist() == words
    for _ in range(2):  # the second answer is remembered
        assert sets.within(lanes, more)
        assert sets.within(more, lanes) == (lanes is more)


def test_a_mask_of_one_row_is_of_all_blocks():
    lanes = LaneSets((3, 64)).of(np.ones((1, 1), bool))
    assert (lanes.total, lanes.warps.tolist()) == (192, [2, 2, 2])
