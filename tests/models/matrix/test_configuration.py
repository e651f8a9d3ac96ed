"""Spaces of tuners and tables of configurations."""

import numpy as np
import pytest

from dse.errors import DseError
from dse.models.matrix.configuration import run_by_vllm, space


def test_spaces_have_the_tuners_sizes():
    # vLLM's benchmark_moe.py and benchmark_w8a8_block_fp8.py
    assert len(space("moe")) == 1920
    assert len(space("moe", (128, 128))) == 640
    assert len(space("w8a8")) == 1280
    assert len(np.unique(space("wide"), axis=0)) == len(space("wide")) == 4800
    with pytest.raises(DseError, match="space: found 'tall', expected one of moe_amd, "):
        space("tall")


def test_vllm_runs_large_tiles_of_large_products_and_what_divides_their_depth():
    table = space("moe_amd")
    run = table[run_by_vllm(table, [(4096, 2048, 192)], 2)]
    assert (run[:, :2] >= 64).all()
    assert (run[:, 2] == 64).all()  # of 16 to 256, from 64 on, what divides 192
    assert (run[:, 4] >= 4).all()
    # another product that they are timed with may keep more
    both = table[run_by_vllm(table, [(4096, 2048, 192), (4096, 1024, 256)], 2)]
    assert both[:, :2].min() == 16
    assert both[:, 2].max() == 256
    # 16 rows and columns are no tile of 32 x 32 instructions, nor more than 64 KiB of operands
    assert (both[:, 7] <= both[:, :2].min(1)).all()
    assert (2 * both[:, 2] * both[:, :2].sum(1)).max() == 2**16
