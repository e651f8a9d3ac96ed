"""Lengths that rows of launches are padded to; what is evaluated of them is tested with the grid."""

import numpy as np
import pytest

from dse.evaluate.launches import padded_lengths


@pytest.mark.parametrize(
    ("count", "padded"),
    [
        ([], []),
        ([1, 16], [16, 16]),
        ([1000] * 20 + [30], [1024] * 21),
        ([1000, 30, 31, 100], [1024, 32, 32, 128]),
        ([150] * 5 + [60] * 5, [160] * 5 + [64] * 5),
    ],
)
def test_few_lengths(count, padded):
    np.testing.assert_array_equal(padded_lengths(np.array(count, int), 1 << 22), padded)
    assert len(set(padded_lengths(np.array(count, int), 1))) == min(len(count), 1)  # of little work
