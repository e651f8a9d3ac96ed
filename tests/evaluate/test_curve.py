"""One configuration at all its occupancies."""

from dataclasses import replace

import numpy as np
import pytest

from dse import kernels
from dse.errors import DseError
from dse.evaluate.curve import curve, fastest, place_launch
from dse.evaluate.rank import rank
from dse.hardware import gpus
from dse.models import DEFAULT

GPU = gpus.load("a100").gpu
BLOCK, ITEMS, N = 32, 4, 1 << 20
MODELS = ("roofline", "volkov", "mwp-cwp-corrected", "pipeline")
BLOCKS = -(-N // (BLOCK * ITEMS))  # of one warp each
OF_AN_SM = -(-BLOCKS // 108)


@pytest.fixture(scope="module")
def laid(toy_kernel):
    return place_launch(kernels.load(toy_kernel), GPU, {"block": BLOCK, "items": ITEMS}, {"n": N})


@pytest.fixture(scope="module")
def rows(laid):
    return curve(laid[0], GPU, laid[1], MODELS)


def of(rows, model, field="throughput"):
    return np.array([row[field] for row in rows if row["model"] == model])


def test_warps_are_those_of_whole_blocks_that_can_run(toy_kernel):
    old = gpus.load("gtx-280").gpu
    message = "^toy: launch: found too many threads in a block with block=1024, items=1, expected one that"
    with pytest.raises(DseError, match=message):
        place_launch(kernels.load(toy_kernel), old, {"block": 1024, "items": 1}, {"n": N})
    kernel, launch = place_launch(kernels.load(toy_kernel), GPU, {"block": 256, "items": 1}, {"n": N})
    actual = curve(kernel, GPU, launch, ("roofline",))
    assert [row["warps"] for row in actual] == [8, 16, 24, 32, 40, 48, 56, 64]
    work = [row["time_s"] * float(GPU.clock) * row["throughput"] for row in actual]
    np.testing.assert_allclose(work, -(-N // 256 // 108) * 8, rtol=1e-5)


def test_rows_rooflines_and_work(rows, laid):
    most = int(laid[1].resident_blocks)
    assert most == 32  # blocks of one warp: as many as an SM of the A100 holds
    expected = [(model, warps) for model in MODELS for warps in range(1, most + 1)]
    assert [(row["model"], row["warps"]) for row in rows] == expected
    cycles = np.array([row["time_s"] for row in rows]) * float(GPU.clock)
    throughput = np.array([row["throughput"] for row in rows])
    np.testing.assert_allclose(cycles * throughput, OF_AN_SM, rtol=1e-5)
    instructions = np.array([row["instructions"] for row in rows])
    np.testing.assert_allclose(instructions / throughput, 8 + 4 * ITEMS, rtol=1e-6)
    roofline, volkov = of(rows, "roofline"), of(rows, "volkov")
    np.testing.assert_allclose(roofline, roofline[0], rtol=1e-5)
    limited = volkov < 0.999 * roofline
    ridge = int(limited.sum())
    assert 2 < ridge < 30
    assert limited[:ridge].all()
    np.testing.assert_allclose(volkov[:ridge], volkov[0] * np.arange(1, ridge + 1), rtol=1e-5)  # rising
    np.testing.assert_allclose(volkov[ridge:], roofline[ridge:], rtol=1e-3)  # then flat
    pipeline = of(rows, "pipeline")
    assert (pipeline[1:4] > 1.5 * pipeline[0]).all()


def test_fastest_is_the_first_of_a_ranking(toy_kernel):
    description = kernels.load(toy_kernel)
    row = rank(description, GPU, (DEFAULT,), {"n": N}).rows(1)[0]
    assert fastest(description, GPU, {"n": N}) == {name: row[name] for name in ("block", "items")}
    fixed = replace(description, space=description.space.with_values({"block": 512}))
    assert fastest(fixed, GPU, {"n": N})["block"] == 512
    assert all(type(value) is int for value in fastest(fixed, GPU, {"n": N}).values())
    empty = replace(description, space=description.space.with_values({"block": 96, "items": 4}))
    with pytest.raises(DseError, match="no valid configuration"):
        fastest(empty, GPU, {"n": N})
