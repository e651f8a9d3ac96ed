"""Scores of models on measured spaces: what the measured kernel ignored is told, and predicted as it was."""

import itertools
import warnings

import numpy as np
import pytest

from dse import kernels
from dse.data import measured
from dse.errors import InputWarning
from dse.evaluate.compare import compare, without_effect
from dse.hardware import gpus

KERNEL = """
name = "copy"
summary = "copies, with as many threads again where it is wide"

[problem]
n = 1048576

[parameters]
block = { from = 64, to = 1024, step = 64 }
items = [1, 2, 3, 4]
wide = [0, 1]

[launch]
threads = "block * (1 + wide)"
blocks = "ceil(n / (block * items))"
registers = "16"

[warp]
fp32 = "items * (1 + 9 * wide)"
int32 = "8 + items"
ilp = "2"
mlp = "2"
"""


@pytest.fixture
def rows(tmp_path):
    """A table of the kernel, by a function of block, items and wide that gives milliseconds or None."""
    path = tmp_path / "kernel.toml"
    path.write_text(KERNEL)
    kernel, random = kernels.load(path), np.random.default_rng(0)

    def write(time):
        lines = ["block,items,wide,time_ms,status"]
        for row in itertools.product(range(64, 1025, 64), (1, 2, 3, 4), (0, 1)):
            actual = time(*row)
            noise = 1 + 0.01 * random.uniform()
            end = ",runtime" if actual is None else f"{actual * noise:.6f},ok"
            lines.append(f"{','.join(map(str, row))},{end}")
        table = tmp_path / "times.csv"
        table.write_text("\n".join(lines))
        return kernel, measured.load(table, kernel)

    return write


def time(block, items, wide):
    return None if block * (1 + wide) > 1024 else (1 + 9 * wide) / items + block / 4096


def test_a_parameter_that_the_measured_kernel_ignored_is_inferred_from_times_and_failures(rows):
    kernel, table = rows(lambda block, items, wide: time(block, items, 1))
    assert without_effect(table) == ["wide"]
    gpu = gpus.load("a100-pcie-40gb").gpu
    with pytest.warns(InputWarning, match=r"times\.csv: wide: found the same .* failures as of wide = 1"):
        scores, _ = compare(kernel, gpu, ["roofline"], table)
    failed = np.sum(~table.ok)
    assert scores["failed"] == scores["unpredicted"] == failed > 0
    kernel, table = rows(time)
    assert without_effect(table) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(compare(kernel, gpus.load("a100-pcie-40gb").gpu, ["roofline"], table))
