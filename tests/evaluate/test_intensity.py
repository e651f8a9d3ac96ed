"""Where configurations lie on a roofline."""

import numpy as np
import pytest

from dse import kernels
from dse.evaluate.chunks import evaluate
from dse.evaluate.intensity import launch_totals, roofs
from dse.evaluate.rank import configurations
from dse.hardware.gpus import load, stack


@pytest.fixture(scope="module")
def a100():
    return load("a100-pcie-40gb", np.float64).gpu


def test_roofs_are_those_of_the_data_sheet(a100):
    actual = roofs(a100)
    assert actual.dram_bytes_per_s == pytest.approx(1.5e12, rel=0.01)  # reached, of 1555 GB/s in theory
    assert actual.fp32_per_s == pytest.approx(9.75e12, rel=0.01)  # 64 lanes, 108 SMs, 1.41 GHz
    assert actual.instructions_per_s == pytest.approx(2 * actual.fp32_per_s)  # 4 schedulers


def test_by_the_roofline_model_what_dram_limits_lies_on_its_roof(a100, toy_kernel):
    kernel = kernels.load(toy_kernel)
    parameters = configurations(kernel)
    actual = launch_totals(kernel, a100, parameters, {"n": 2**27})
    evaluation = evaluate(kernel, ("roofline",), stack([a100]), parameters, {"n": 2**27})
    forecast = evaluation.forecasts["roofline"]
    limited = forecast.bottleneck_names()[0] == "dram"
    assert limited.sum() >= 10
    rate = actual.instructions / forecast.seconds[0]
    roof = actual.instructions / actual.dram_bytes * roofs(a100).dram_bytes_per_s
    # The model lets the busiest SM decide: what it lies below the roof is the last, partly filled wave.
    assert np.all(rate[limited] <= roof[limited] * (1 + 1e-9))
    np.testing.assert_allclose(rate[limited], roof[limited], rtol=0.05)
    np.testing.assert_array_equal(actual.threads, evaluation.resources["threads"][0])
    np.testing.assert_array_equal(actual.blocks, evaluation.resources["blocks"][0])


def test_products_of_matrices_have_no_count_of_instructions(own_toy_kernel):
    text = own_toy_kernel.read_text()
    products = 'mma_fp16 = "2048 * (items - 1)"\nfp32 = "items"'
    own_toy_kernel.write_text(text.replace('fp32 = "items"', products, 1))
    parameters = {"block": np.array([64, 64]), "items": np.array([1, 2])}
    actual = launch_totals(kernels.load(own_toy_kernel), load("h100-sxm", np.float64).gpu, parameters)
    assert np.isnan(actual.instructions).tolist() == [False, True]
