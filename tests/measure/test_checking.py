"""Where outputs are looked at, and what counts as wrong."""

import numpy as np
import pytest

from dse.measure.checking import WHOLE, dots, places, wrong


def test_where_to_look():
    assert places(100).tolist() == list(range(100))
    at = places(10**6)
    assert np.array_equal(at, places(10**6))
    assert (at[0], at[-1]) == (0, 10**6 - 1)
    assert (np.diff(at) > 0).all()
    assert WHOLE / 2 < len(at) <= WHOLE


@pytest.mark.parametrize(
    ("changed", "tolerance", "place"),
    [(1.0, 0.0, None), (1.0 + 1e-6, 0.0, 3), (1.0 + 1e-6, 1e-4, None), (1.01, 1e-4, 3), (np.nan, 1e-4, 3)],
)
def test_what_is_wrong(changed: float, tolerance: float, place: int | None):
    expected = np.ones(5)
    values = expected.copy()
    values[3] = changed
    assert wrong(values, expected, tolerance) == place


def test_some_rows_by_some_columns():
    random = np.random.default_rng(0)
    left, right = random.random((6, 5)).astype(np.float16), random.random((7, 5)).astype(np.float16)
    rows, columns = np.array([0, 5, 5]), np.array([6, 0, 1])
    expected = (left.astype(float) @ right.T.astype(float))[rows, columns]
    np.testing.assert_allclose(dots(left, rows, right, columns), expected, rtol=1e-12)
