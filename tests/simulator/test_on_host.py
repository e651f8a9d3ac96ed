"""The simulator as a function of the GPU's parameters."""

import jax
import jax.numpy as jnp
import numpy as np

from dse import kernels
from dse.explore.fit import launches
from dse.explore.fit.launches import log_seconds
from dse.hardware import gpus
from dse.simulator import pipeline
from dse.simulator.case import idg

NAMES = ("clock", "cpi.fp32", "cpi.shared", "cpi.dram", "latency.dram", "latency.shared", "issue_limit")


def test_equals_the_simulator_and_its_slopes():
    """A time is λ, Λ and 1/IL of a critical path, over the clock."""
    description, gpu = kernels.load("matmul_tiled"), gpus.load("a100-pcie-40gb", np.float64).gpu
    space = description.space.configurations(description.sizes())
    selected = launches.of_kernel(description, gpu, {name: values[:3] for name, values in space.items()})
    at = jnp.zeros(len(NAMES))

    def predict(logs):
        return log_seconds(selected, "pipeline", NAMES, logs)

    predicted = jax.jit(predict)(at)
    parts = (jax.jit(idg.warp)(gpu, selected.kernel), selected.launch)
    warp, launch = jax.tree.map(lambda x: np.broadcast_to(np.asarray(x, float), (3,)), parts)
    cycles, slopes = pipeline.with_slopes(warp, launch)
    np.testing.assert_allclose(predicted, np.log(cycles / float(gpu.clock)), rtol=1e-12)

    forward = jax.jit(jax.jacfwd(predict))(at)
    backward = jax.jit(jax.grad(lambda logs: predict(logs).sum()))(at)
    np.testing.assert_allclose(forward.sum(axis=0), backward, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(forward[:, 0], -1.0)
    fp32 = slopes.busy["fp32"] * warp.busy["fp32"] / cycles  # λ, and of Λ the part that is λ (ILP)
    assert (forward[:, 1] >= fp32 * (1 - 1e-6)).all()
    np.testing.assert_allclose(forward[:, 6], -slopes.issue * warp.issue / cycles, rtol=1e-5, atol=1e-9)
