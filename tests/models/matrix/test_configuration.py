"""Spaces of tuners and tables of configurations."""

import numpy as np
import pytest

from dse.errors import DseError
from dse.models.matrix.configuration import Configuration, space


def test_spaces_have_the_tuners_sizes():
    # vLLM's benchmark_moe.py and benchmark_w8a8_block_fp8.py
    assert len(space("moe")) == 1920
    assert len(space("moe", (128, 128))) == 640
    assert len(space("w8a8")) == 1280
    assert len(np.unique(space("wide"), axis=0)) == len(space("wide")) == 4800


def test_columns_are_in_the_order_of_the_parameters():
    one = Configuration.of(np.array([[16, 32, 64, 8, 4, 3]]))
    fields = (one.rows, one.columns, one.depth, one.group, one.warps, one.stages)
    assert [int(field[0, 0]) for field in fields] == [16, 32, 64, 8, 4, 3]


def test_mistakes_are_told():
    with pytest.raises(DseError, match="space: found 'tall', expected one of moe_amd, "):
        space("tall")
