"""Sets of threads: one object for each, and what is counted of them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dse.source.machine.patterns import Patterns
from dse.source.machine.thread_set import WARP, LaneSets

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


BLOCKS, WARPS, PERIOD = 3, 2, 16


def sums(base, mask):
    """Of each block, what its lanes ask for: the places of their addresses in a period."""
    places = np.broadcast_to(base % PERIOD, mask.shape)
    return np.where(mask, 1 + places**2, 0).sum(1)


@given(data=st.data())
def test_each_access_counts_as_by_itself(data):
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    sets, patterns = LaneSets((BLOCKS, WARPS * WARP)), Patterns()
    lanes = [
        sets.of(np.repeat(random.random((BLOCKS, WARPS)) < 0.5, WARP, axis=1)),
        sets.of(np.ones((1, WARPS * WARP), bool)),
        sets.of(random.random((BLOCKS, WARPS * WARP)) < 0.5),
    ]
    shapes = ((1, 1), (1, WARPS * WARP), (BLOCKS, WARPS * WARP))
    bases = [random.integers(0, 99, data.draw(st.sampled_from(shapes))) for _ in range(2)]
    for _ in range(12):
        of, base = data.draw(st.sampled_from(lanes)), data.draw(st.sampled_from(bases))
        base = base + data.draw(st.sampled_from([0, 1, PERIOD, 5 * PERIOD]))

        def ask(of=of, base=base):
            shape = (BLOCKS, WARPS * WARP)
            mask = np.ones(shape, bool) if of.whole else np.broadcast_to(of.mask, shape)
            by_warp = (part.reshape(-1, WARP) for part in (np.broadcast_to(base, shape), mask))
            return sums(*by_warp).reshape(BLOCKS, WARPS)

        counted = patterns.of("sums", (of,), of.whole, base, PERIOD, ask, lambda x, of=of: x * of.warps_here)
        mask = np.broadcast_to(of.mask, (BLOCKS, WARPS * WARP))
        assert counted.sum(1).tolist() == sums(np.broadcast_to(base, mask.shape), mask).tolist()
