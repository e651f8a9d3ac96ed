"""Passes through the L1 against those measured on A100, A40 and H200."""

import numpy as np
import pytest

from dse.hardware.banks import passes
from dse.hardware.coalescing import passes_of_lines, sectors_and_lines


def test_words_apart_take_the_cycles_of_banks_or_of_lines():
    strides = np.array([1, 2, 4, 7, 8, 9, 12, 16, 17, 25, 31, 32, 33, 48])
    measured = [1.02, 2, 4, 2.67, 8, 3.03, 4, 16, 5.1, 7, 8.5, 32, 8.8, 16]
    address, mask = 4 * strides[:, None] * np.arange(32), np.ones((len(strides), 32), bool)
    _, lines = sectors_and_lines(address, mask)
    actual = np.maximum(passes(address, mask, 4), passes_of_lines(lines))
    assert actual == pytest.approx(np.array(measured), rel=0.1)


def test_a_row_that_begins_within_a_line_takes_one_pass():
    assert passes_of_lines(np.arange(3)).tolist() == [0, 1, 1]
