"""The order of a ranking, and what its rows show."""

from dataclasses import replace
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse import kernels
from dse.errors import DseError
from dse.evaluate.chunks import RESOURCES
from dse.evaluate.rank import rank
from dse.evaluate.ties import EQUAL, diverse, tied
from dse.hardware import gpus
from dse.kernels.counts import Counts


def test_fastest_first_and_impossible_last(toy_kernel):
    ranking = rank(kernels.load(toy_kernel), gpus.load("gtx-280").gpu, ["volkov", "roofline"])
    seconds = ranking.evaluation.forecasts["volkov"].seconds[0][ranking.order]
    assert np.all(np.diff(seconds[np.isfinite(seconds)]) >= 0)
    assert np.all(np.isinf(seconds[-ranking.impossible :]))
    rows = ranking.rows()
    assert [row["rank"] for row in rows] == list(range(1, ranking.count + 1))
    assert rows[-1]["limited_by"] == "too many threads in a block"
    assert rows[0]["time_s"] == seconds[0]
    assert {"roofline_s", "occupancy", "bottleneck"} <= set(rows[0])
    assert [name for name in rows[0] if name in RESOURCES] == list(RESOURCES)
    gpu = gpus.load("a100").gpu
    ranking = rank(kernels.load(toy_kernel), gpu, ["roofline"])
    first, shares = ranking.best, ranking.speed_of_light
    warps_per_sm = first["blocks"] * first["threads"] / 32 / float(gpu.sm_count)
    busy_cycles = warps_per_sm * first["items"] * float(gpu.cpi.fp32)  # an instruction an item
    assert shares["fp32"] == pytest.approx(busy_cycles / first["cycles"], rel=1e-5)
    assert list(shares.values()) == sorted(shares.values(), reverse=True)


def test_rows_of_groups_of_equal_times_and_without_fixed_parameters(toy_kernel):
    ranking = rank(kernels.load(toy_kernel), gpus.load("a100").gpu, ["roofline"])
    rows = ranking.rows(diverse=True)
    times = [row["time_s"] for row in rows]
    assert (times, rows[0]["rank"]) == (sorted(times), 1)
    assert len(rows) < ranking.count - ranking.impossible
    everything = {row["rank"]: row for row in ranking.rows()}
    assert all(everything[row["rank"]] == row for row in rows)
    assert ranking.tied >= 1
    description = kernels.load(toy_kernel)
    fixed = description.space.with_values({"items": 4})
    ranking = rank(replace(description, space=fixed), gpus.load("a100").gpu, ["volkov"])
    assert ranking.rows(1)[0]["items"] == 4
    assert {"items", "kernel", "n"} <= set(ranking.hidden)
    assert "block" not in ranking.hidden


def test_where_some_configurations_need_products_that_the_gpu_lacks(own_toy_kernel):
    products = 'mma_fp8 = "2048 * min(items - 1, 1)"\n'
    own_toy_kernel.write_text(
        own_toy_kernel.read_text().replace('fp32 = "items"', f'{products}fp32 = "items"', 1)
    )
    kernel = kernels.load(own_toy_kernel)
    ranking = rank(kernel, gpus.load("a100").gpu, ["phase"])
    rows = ranking.rows()
    assert 0 < ranking.impossible < ranking.count
    for row in rows:
        assert (row["limited_by"] == "no tensor cores for fp8") == (row["items"] > 1)
        assert np.isfinite(row["time_s"]) == (row["items"] == 1)
    only = replace(kernel, space=kernel.space.with_values({"items": 4}))
    with pytest.raises(DseError, match=r"launch: found no tensor cores for fp8, expected a GPU that has"):
        rank(only, gpus.load("a100").gpu, ["phase"])
    assert np.isfinite(rank(only, gpus.load("h100-sxm").gpu, ["phase"]).rows(1)[0]["time_s"])


def test_what_may_fail_counts_as_slower(toy_kernel):
    """Its time over its chance to run decides, and the chance is shown."""
    description, gpu = kernels.load(toy_kernel), gpus.load("a100").gpu
    plain = rank(description, gpu, ["roofline"])
    first = plain.order[0]

    class Doubtful:
        def __getattr__(self, name):
            return getattr(description, name)

        def count(self, parameters, *more):
            runs = np.ones(len(parameters["block"]))
            runs[first] = 0.01
            return replace(description.count(parameters, *more), runs=runs)

    ranking = rank(cast(Counts, Doubtful()), gpu, ["roofline"])
    assert ranking.order[-1 - ranking.impossible] == first
    rows = ranking.rows()
    assert rows[-1 - ranking.impossible]["chance_runs"] == 0.01
    assert rows[0]["chance_runs"] == 1.0
    assert "chance_runs" not in plain.rows()[0]


@pytest.mark.parametrize(
    ("registers", "message"),
    [  # 19 warps of 104 registers: 20 are counted, since four sub-partitions share them
        ("registers = 104 # ", r"found 66,560 registers in a block, .*, expected at most 65,536"),
        ("shared_bytes = 50_000\nregisters = ", r"50,000 B of shared memory that the kernel declares"),
    ],
)
def test_what_no_launch_has_room_for_is_said(own_toy_kernel, registers, message):
    own_toy_kernel.write_text(own_toy_kernel.read_text().replace("registers = ", registers, 1))
    kernel = kernels.load(own_toy_kernel)
    kernel = replace(kernel, space=kernel.space.with_values({"block": 608, "items": 1}))
    with pytest.raises(DseError, match=message):
        rank(kernel, gpus.load("a100").gpu, ["volkov"])


def test_equals_are_counted_and_of_each_group_the_one_that_differs_most_is_shown():
    assert tied(np.array([1.0, 1.0, 1.0009, 1.0011, 2.0])) == 3
    assert tied(np.array([])) == 0
    seconds = np.array([1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 3.0])
    parameters = {"x": np.array([1, 1, 2, 1, 1, 4, 1]), "y": np.array([1, 2, 1, 1, 2, 2, 1])}
    assert diverse(seconds, parameters, 10).tolist() == [0, 5, 6]
    assert diverse(seconds, parameters, 2).tolist() == [0, 5]


@settings(max_examples=20)
@given(st.lists(st.floats(0.5, 2.0), min_size=1, max_size=40), st.integers(1, 10), st.integers(0, 100))
def test_one_of_each_group(times, most, seed):
    seconds = np.sort(np.array(times))
    x = np.random.default_rng(seed).integers(0, 4, len(seconds))
    selected = diverse(seconds, {"x": x}, most)
    assert selected[0] == 0
    assert len(selected) <= most
    assert np.all(np.diff(selected) > 0)
    firsts, start = [], 0
    while start < len(seconds) and len(firsts) < most:
        firsts.append(start)
        start += int(np.sum(seconds[start:] <= seconds[start] * (1 + EQUAL)))
    assert len(selected) == len(firsts)
    for place, first in zip(selected, firsts, strict=True):
        assert seconds[place] <= seconds[first] * (1 + EQUAL)
