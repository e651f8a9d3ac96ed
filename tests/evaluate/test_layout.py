"""Grids cut into rows: every configuration is found again where it was."""

from typing import Any

import jax
import numpy as np
import pytest

from dse.evaluate.layout import Cuts, lay_out
from dse.hardware import gpus
from dse.types import CLASSES, Kernel, PerClass, Resources

COUNTS = tuple(name for name in Kernel.__dataclass_fields__ if name not in ("work", "phases"))


@pytest.mark.parametrize("long", [1 << 14, 12, 5])
@pytest.mark.parametrize("kernels", [(1, 4, 1, 1), (3, 4, 1, 1), (1, 4, 1, 6), (1, 1, 1, 1)])
def test_configurations_are_where_they_were(kernels, long):
    shape = (3, 4, 2, 6)
    random = np.random.default_rng(1)
    gpu = jax.tree.map(lambda _: random.uniform(size=(3, 1, 1, 1)), gpus.load("a100").gpu)
    counts: dict[str, Any] = dict.fromkeys(COUNTS, 1.0)
    kernel = Kernel(work=PerClass(**dict.fromkeys(CLASSES, 1.0)), **counts)
    kernel = jax.tree.map(lambda _: random.uniform(size=kernels), kernel)
    launch = random.integers(1, 1000, (1, 1, 2, 6))
    resources = jax.tree.map(np.asarray, Resources(threads=launch, blocks=1, registers=1, shared_bytes=1))
    cuts = Cuts(short_row=6, enough=6, long_row=long)
    fields, layout = lay_out((gpu, kernel, resources), shape, cuts=cuts)
    assert layout.positions * layout.rows == np.prod(layout.leading)
    numbers = np.arange(np.prod(layout.leading))
    begin = layout.index(numbers, shape)
    width = np.minimum(np.append(begin[1:], np.prod(shape)) - begin, layout.row)
    assert width.sum() == np.prod(shape)
    cut_fields = fields[0].clock, fields[1].ilp, fields[2].threads
    for given, cut in zip((gpu.clock, kernel.ilp, launch), cut_fields, strict=True):
        flat = np.broadcast_to(given, shape).ravel()
        rows = np.broadcast_to(layout.take(cut, numbers), (len(numbers), layout.row))
        for row, start, size in zip(rows, begin, width, strict=True):
            np.testing.assert_array_equal(row[:size], flat[start : start + size])
    if layout.row < 12:
        assert len(layout.leading) > 2
    # Numbers of rows, from the position along the outer axes and the row there.
    position, row = np.divmod(numbers, layout.rows)
    assert sorted(layout.row_number(position, row)) == numbers.tolist()
    arranged = layout.arranged(fields[1].ilp, layout.rows + 2)
    taken = np.broadcast_to(
        arranged, (*layout.sizes(layout.outer), *arranged.shape[-2:-1], layout.row)
    ).reshape(layout.positions, -1, layout.row)
    expected = layout.take(fields[1].ilp, layout.row_number(position, row))
    taken = np.broadcast_to(taken[:, : layout.rows], (layout.positions, layout.rows, layout.row))
    np.testing.assert_array_equal(
        taken.reshape(-1, layout.row), np.broadcast_to(expected, (len(numbers), layout.row))
    )
