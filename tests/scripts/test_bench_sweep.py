"""The benchmark of the closed forms runs, agrees with NumPy, and prints what others read."""

import json
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sweep

from dse.hardware import occupancy

OTHER = f"{sys.executable} -c \"print('nested float64   1 thread(s): best 2.5 M configs/s')\""
SCRIPT = "bench/sweep"


@pytest.mark.slow
def test_quick_run_agrees_with_numpy(run_script):
    report = json.loads(run_script("--quick", "--json", "--repeats", "1", "--beside", OTHER))
    assert report["differences"] == []
    names = ("closed_forms_{}_one_core", "numpy_{}_one_core")
    for name in names:
        for precision in ("f32", "f64"):
            assert report[name.format(precision) + "_per_s"] > 0
    assert report["ratio_f32"] > 0
    best = report["closed_forms_distinct_f64_one_core_per_s"]
    assert report["ratio_beside_distinct_f64"] == pytest.approx(best / 2.5e6)
    assert "ratio_beside_f32" not in report
    assert report["machine"]["cores"] > 0
    assert np.prod(list(report["grid"].values())) == report["configurations"]
    assert {"jax", "jaxlib", "numpy"} <= set(report["versions"])


def test_no_two_launches_of_a_distinct_grid_are_alike():
    gpu, _, resources = sweep.grid((2, 1, 1, 1, 32, 32), np.dtype(np.float64), distinct=True)
    launch, limiter = occupancy.launch(*jax.tree.map(jnp.asarray, (gpu, resources)))
    possible = np.asarray(occupancy.possible(limiter)).reshape(2, -1)
    for i in range(2):
        leaves = [np.broadcast_to(x, (2, 1, 1, 1, 32, 32))[i].ravel() for x in jax.tree.leaves(launch)]
        apart = np.unique(np.stack(leaves, -1)[possible[i]], axis=0)
        assert 512 <= possible[i].sum() == len(apart)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, None),
        ({"index": np.array([4, 2, 9])}, None),  # 7 and 9 are equally fast
        ({"index": np.array([5, 2, 7])}, "fastest at"),
        ({"seconds": np.array([1.0, 2.0, 3.1])}, "fastest"),
    ],
)
def test_a_difference_is_said(change, said):
    same: dict[str, Any] = {"seconds": np.array([1.0, 2.0, 3.0]), "index": np.array([4, 2, 7])}
    difference = sweep.disagreement(**same | change, numpy=sweep.Summary(**same), tolerance=1e-3)
    assert difference is None if said is None else said in difference
