"""Shared memory of many blocks, against a dictionary of bytes."""

from functools import reduce
from operator import or_

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dse.source.machine.memory import SharedMemory

BLOCKS, THREADS = 3, 2
ACCESSES = st.lists(
    st.tuples(
        st.sampled_from([1, 2, 4, 8]),
        st.sampled_from(["alike", "other values", "other places", "one block"]),
        st.lists(st.integers(0, 5), min_size=BLOCKS * THREADS, max_size=BLOCKS * THREADS),
        st.sampled_from([0, 1, 4]),
    ),
    max_size=12,
)


@given(ACCESSES)
def test_blocks_load_what_they_stored(accesses):
    memory, stored, taints = SharedMemory(BLOCKS), dict[tuple[int, int], int](), dict[tuple[int, int], int]()
    for size, kind, numbers, taint in accesses:
        numbers = np.array(numbers)
        same = np.tile(numbers[:THREADS], BLOCKS)
        block = np.repeat(np.arange(BLOCKS), THREADS)
        address = 4096 * (size // 8) + 8 * (numbers if kind == "other places" else same)
        value = numbers if kind == "other values" else same
        here = block == 1 if kind == "one block" else np.full(len(block), True)
        block, address, value = block[here], address[here], value[here].astype(np.uint32)
        memory.store(block, address, size, [value + word for word in range(max(size // 4, 1))], taint)
        for of, at, number in zip(block.tolist(), address.tolist(), value.tolist(), strict=True):
            for byte in range(size):
                stored[of, at + byte] = number + byte // 4 >> 8 * (byte % 4) & 0xFF
                taints[of, at + byte] = taint
    assert memory.any() == any(stored.values())
    for of, at in {(of, at // 4 * 4) for of, at in stored}:
        (word,) = memory.load(np.array([of]), np.array([at]), 4)
        assert word[0] == sum(stored.get((of, at + byte), 0) << 8 * byte for byte in range(4))
        for size in (1, 2, 4):
            expected = reduce(or_, (taints.get((of, at + byte), 0) for byte in range(size)))
            assert memory.taint(np.array([of]), np.array([at]), size) == expected
