"""Passes through the L1 against those measured on A100, A40 and H200."""

import numpy as np
import pytest

from dse.hardware.banks import passes
from dse.hardware.coalescing import passes_of_lines, sectors_and_lines

MEASURED = {
    1: 1.02,
    2: 2,
    4: 4,
    7: 2.67,
    8: 8,
    9: 3.03,
    12: 4,
    16: 16,
    17: 5.1,
    25: 7,
    31: 8.5,
    32: 32,
    33: 8.8,
    48: 16,
}


@pytest.mark.parametrize("stride", MEASURED)
def test_words_apart_take_the_cycles_of_banks_or_of_lines(stride: int):
    address, mask = 4 * stride * np.arange(32)[None], np.ones((1, 32), bool)
    _, lines = sectors_and_lines(address, mask)
    actual = np.maximum(passes(address, mask, 4), passes_of_lines(lines))
    assert actual == pytest.approx(MEASURED[stride], rel=0.1)


def test_a_row_that_begins_within_a_line_takes_one_pass():
    assert passes_of_lines(np.arange(3)).tolist() == [0, 1, 1]
