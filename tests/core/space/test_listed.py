"""Combinations that are listed as a constraint of a space."""

import numpy as np

from dse.core.space.listed import AllowedRows
from dse.core.space.space import Space

ROWS = ((64, 4), (128, 4), (128, 8))


def test_a_space_of_what_is_listed():
    space = Space(
        {"block": [64, 128], "stages": [2, 3], "warps": [4, 8]}, (AllowedRows(("block", "warps"), ROWS),)
    )
    actual = space.configurations()
    rows = set(
        zip(actual["block"].tolist(), actual["warps"].tolist(), actual["stages"].tolist(), strict=True)
    )
    assert rows == {(*row, stages) for row in ROWS for stages in (2, 3)}
    assert np.array_equal(space.valid({"block": 64, "stages": 2, "warps": np.array([4, 8])}, {}, np), [1, 0])


def test_it_says_what_it_is():
    assert AllowedRows(("block", "warps"), ROWS).text == "one of 3 listed combinations of block, warps"
