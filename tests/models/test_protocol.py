"""Models of one's own: a closed form and one on the host go in wherever a name does."""

import jax.numpy as jnp
import numpy as np
import pytest

from dse import kernels, models
from dse.errors import DseError
from dse.evaluate.rank import rank
from dse.explore.fit.launches import linearised, of_kernel
from dse.hardware import gpus
from dse.types import Prediction

A100 = gpus.load("a100-pcie-40gb")


class Traffic:
    """Nothing but DRAM traffic takes time."""

    name, about, differentiable, batch = "traffic", models.get("roofline").about, True, 65_536

    def predict(self, gpu, kernel, launch):
        warps = launch.warps_per_block * launch.blocks
        return Prediction.of(gpu.clock, dram=kernel.work.dram * warps * gpu.cpi.dram / gpu.sm_count)


class OnHost(Traffic):
    """The same, where JAX does not see it."""

    name, differentiable, batch = "on host", False, 4

    def predict(self, gpu, kernel, launch, advance=lambda launches: None):
        assert isinstance(launch.blocks, np.ndarray)
        advance(len(launch.blocks))
        return super().predict(gpu, kernel, launch)


def test_of_ones_own_beside_names_and_its_slopes(toy_kernel):
    kernel = kernels.load(toy_kernel)
    ranking = rank(kernel, A100.gpu, [Traffic(), OnHost(), "roofline"])
    first, second, _ = ranking.evaluation.forecasts.values()
    np.testing.assert_allclose(first.seconds, second.seconds, rtol=1e-6)
    np.testing.assert_array_equal(first.bottleneck, second.bottleneck)
    assert list(ranking.rows(1)[0])[-2:] == ["on_host_s", "roofline_s"]
    assert np.all(np.diff(first.seconds[0, ranking.order][: -ranking.impossible or None]) >= 0)
    kernel, at = kernels.load(toy_kernel), {"block": np.array([128]), "items": np.array([1])}
    launches = of_kernel(kernel, A100.gpu, at)
    _, slopes = linearised(launches, Traffic(), ("clock", "cpi.dram", "cpi.fp32"), jnp.zeros(3))
    np.testing.assert_allclose(slopes, [[-1.0, 1.0, 0.0]], atol=1e-6)
    with pytest.raises(DseError, match="model: found on host, expected one that JAX differentiates"):
        linearised(launches, OnHost(), ("clock",), jnp.zeros(1))
