"""Launches worth evaluating, against all launches of a row one by one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.evaluate.launches import padded_lengths, pieces
from dse.evaluate.layout import CUTS, Cuts, GridLayout
from dse.hardware import gpus, occupancy
from dse.types import Resources

GPUS = gpus.stack([gpus.load(name, np.float64).gpu for name in ("a100", "gtx-280")])


def laid_out(threads, registers, blocks):
    """GPUs × launches, [2, 1, L] as rows of a grid; and how they lie."""
    columns = (np.array(x).reshape(1, 1, -1) for x in (threads, blocks, registers, [0]))
    gpu = jax.tree.map(lambda x: np.asarray(x).reshape(2, 1, 1), GPUS)
    layout = GridLayout(leading=(2, 1), outer=(0,), inner=(1,), row=len(threads))
    return layout, gpu, jax.tree.map(np.asarray, Resources(*columns))


def every_launch(gpu, resources):
    """All of them one by one, their leaves [2, L, 6], and which can run."""
    launch, limiter = occupancy.launch(*jax.tree.map(jnp.asarray, (gpu, resources)))
    possible = np.asarray(occupancy.possible(limiter))[:, 0]
    return np.stack([np.broadcast_to(x[:, 0], possible.shape) for x in jax.tree.leaves(launch)], -1), possible


THREADS, REGISTERS = st.sampled_from([0, 32, 64, 600, 2000]), st.sampled_from([16, 17, 40, 255, 999])


@given(rows=st.lists(st.tuples(THREADS, REGISTERS, st.integers(1, 3)), min_size=40, max_size=40))
def test_each_possible_launch_is_there_once(rows):
    layout, gpu, resources = laid_out(*zip(*rows, strict=True))
    expected, possible = every_launch(gpu, resources)
    seen = np.zeros(possible.shape, int)
    for some in pieces(layout, gpu, resources, np.arange(2), 2, alike=True, table=lambda _: 1):
        assert some.length in CUTS.lengths
        for i, position in enumerate(some.positions):
            row, columns = expected[position], some.columns[i]
            found = np.stack([x[i] for x in jax.tree.leaves(some.launches)], -1)
            np.testing.assert_array_equal(found, row[columns])  # copies, too, of what can run
            assert possible[position, columns].all()
            for column, weight in zip(columns, some.weights[i].astype(int), strict=True):
                assert (row[column : column + weight] == row[column]).all()
                seen[position, column : column + weight] += 1
            kept = columns[some.weights[i] > 0]
            assert (np.diff(kept) > 0).all()
            same = (row[kept[1:]] == row[kept[1:] - 1]).all(axis=1)
            assert not (same & possible[position, kept[1:] - 1]).any()  # would be one run
    np.testing.assert_array_equal(seen, possible)


def test_whole_rows_mark_what_cannot_run():
    layout, gpu, resources = laid_out([32, 600, 2000, 64], [16] * 4, [100] * 4)
    expected, possible = every_launch(gpu, resources)
    (some,) = pieces(layout, gpu, resources, np.arange(2), 2, alike=False, table=lambda _: 9)
    np.testing.assert_array_equal(some.weights, possible)
    np.testing.assert_array_equal(np.stack(jax.tree.leaves(some.launches), -1), expected)


def test_long_rows_are_cut():
    cuts = Cuts(lengths=(2, 4))
    layout, gpu, resources = laid_out([32] * 7, [16] * 7, [*range(100, 800, 100)])
    cut = list(pieces(layout, gpu, resources, np.arange(2), 2, alike=True, table=lambda _: 1, cuts=cuts))
    assert [each.columns.shape for each in cut] == [(1, 4)] * 4
    columns = np.concatenate([each.columns[each.weights > 0] for each in cut])
    assert sorted(columns.tolist()) == sorted([*range(7)] * 2)
    assert len(cut[0].padded(6)) == 6


@pytest.mark.parametrize(
    ("count", "padded"),
    [
        ([], []),
        ([1, 16], [16, 16]),
        ([1000] * 20 + [30], [1024] * 21),
        ([1000, 30, 31, 100], [1024, 32, 32, 128]),
        ([150] * 5 + [60] * 5, [160] * 5 + [64] * 5),
    ],
)
def test_few_lengths(count, padded):
    np.testing.assert_array_equal(padded_lengths(np.array(count, int), 1 << 22), padded)
    assert len(set(padded_lengths(np.array(count, int), 1))) == min(len(count), 1)  # of little work
