"""Rows of columns, each distinct one once: configurations of a space repeat what a few parameters decide."""

from collections.abc import Mapping
from typing import Any

import numpy as np

SHAPE = ("block x", "block y", "block z", "warp size")  # columns that no parameter can be named like


def distinct_rows(columns: Mapping[str, Any]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the distinct rows of columns that broadcast, [n], and the row of each element, [...]."""
    arrays = np.broadcast_arrays(*columns.values())
    codes = np.zeros(arrays[0].size, int)
    for array in (np.ravel(array) for array in arrays):
        if (array != array[:1]).any():
            values, places = np.unique(array, return_inverse=True)
            codes = np.unique(len(values) * codes + places, return_inverse=True)[1]
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    distinct = {name: np.ravel(array)[first] for name, array in zip(columns, arrays, strict=True)}
    return distinct, np.reshape(inverse, arrays[0].shape)
