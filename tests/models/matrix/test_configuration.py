"""Spaces of tuners and tables of configurations."""

import numpy as np
import pytest

from dse.errors import DseError
from dse.models.matrix.configuration import space


def test_spaces_have_the_tuners_sizes():
    # vLLM's benchmark_moe.py and benchmark_w8a8_block_fp8.py
    assert len(space("moe")) == 1920
    assert len(space("moe", (128, 128))) == 640
    assert len(space("w8a8")) == 1280
    assert len(np.unique(space("wide"), axis=0)) == len(space("wide")) == 4800
    with pytest.raises(DseError, match="space: found 'tall', expected one of moe_amd, "):
        space("tall")
