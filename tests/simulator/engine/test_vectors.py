"""Vectors of LLVM do what the same loops in plain Python do."""

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.simulator.engine.vectors import WIDTH, early, least, lowest_bit


@numba.njit
def both(values, at, limit, never, mask):
    bits = early(values, np.uint64(at), limit)
    return bits, lowest_bit(bits), least(values, np.uint64(at), never, np.uint64(mask))


@pytest.mark.parametrize("never", [np.uint32(2**32 - 1), np.float64(np.inf)])
@given(data=st.data())
def test_sixteen_at_a_time(never, data: st.DataObject):
    values = np.array(data.draw(st.lists(st.integers(0, 9), min_size=WIDTH + 3, max_size=WIDTH + 3)))
    values = np.where(values == 9, never, values).astype(type(never))
    at, mask = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 2**WIDTH - 1))
    limit = values.dtype.type(data.draw(st.integers(0, 9)))
    bits, lowest, smallest = both(values, at, limit, never, mask)
    some = values[at : at + WIDTH]
    expected = [k for k in range(WIDTH) if some[k] <= limit]
    assert bits == sum(1 << k for k in expected)
    assert lowest == (expected[0] if expected else 64)
    assert smallest == min((some[k] for k in range(WIDTH) if mask >> k & 1), default=never)
