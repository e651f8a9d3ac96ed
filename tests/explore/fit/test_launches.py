"""Fixed launches of the toy kernel: times as the sweep has them, slopes as central differences have them."""

import jax.numpy as jnp
import numpy as np
import pytest

from dse import kernels
from dse.evaluate.chunks import evaluate
from dse.explore.fit.launches import log_seconds, of_kernel
from dse.hardware import gpus

MODEL = "volkov"
NAMES = ("clock", "cpi.int32", "cpi.dram", "latency.dram", "latency.fp64")


@pytest.fixture(scope="module")
def toy(toy_kernel):
    return kernels.load(toy_kernel)


@pytest.fixture(scope="module")
def parameters():
    block = np.array([32, 64, 128, 256, 512, 1024, 2048, 128])
    return {"block": block, "items": np.array([1, 2, 4, 4, 2, 1, 1, 3])}


@pytest.fixture(scope="module")
def gpu():
    return gpus.load("a100-pcie-40gb", np.float64).gpu


@pytest.fixture(scope="module")
def launches(toy, gpu, parameters):
    return of_kernel(toy, gpu, parameters, {"n": 65536})


def test_times_are_those_of_the_sweep(toy, gpu, parameters, launches):
    swept = evaluate(toy, [MODEL], gpus.stack([gpu]), parameters, {"n": 65536})
    np.testing.assert_array_equal(launches.possible, swept.possible[0])
    assert list(launches.possible) == [True] * 6 + [False, True]  # 2,048 threads are no block
    found = np.exp(log_seconds(launches, MODEL, NAMES, jnp.zeros(len(NAMES))))
    ran = np.asarray(launches.possible)
    np.testing.assert_allclose(found[ran], swept.forecasts[MODEL].seconds[0][ran], rtol=1e-12)
