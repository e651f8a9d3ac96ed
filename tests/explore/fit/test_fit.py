"""The most probable parameters and their spread, where both are known: times linear in θ."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from dse import models
from dse.core.space import Space
from dse.errors import DseError
from dse.explore.fit.fit import Data, Parameters, fit, stages
from dse.explore.fit.launches import of_kernel
from dse.hardware import gpus
from dse.kernels.counts import OwnKernel
from dse.types import CLASSES, Kernel, PerClass, Prediction, Resources

COUNT, NOISE = 40, 0.05
NAMES = ("clock", "cpi.fp32", "cpi.l2")
WIDTHS = np.array([0.3, 0.1, 0.2])
OFFSET = -8.0


GPU = gpus.load("a100-pcie-40gb", np.float64).gpu


class Linear:
    """A model whose log times are linear: three counts of a kernel are the slopes by the three parameters."""

    name = "linear"
    about = models.get("roofline").about
    differentiable = True
    batch = 65_536

    def predict(self, gpu, kernel, launch):
        work = kernel.work
        moved = (gpu.clock / GPU.clock, gpu.cpi.fp32 / GPU.cpi.fp32, gpu.cpi.l2 / GPU.cpi.l2)
        off = sum(x * jnp.log(by) for x, by in zip((work.fp32, work.sfu, work.dram), moved, strict=True))
        return Prediction.of(gpu.clock, all=jnp.exp(OFFSET + off) * gpu.clock)


linear = Linear()


def launches(slopes):
    zero, single = np.zeros(len(slopes)), np.ones(len(slopes))
    work = PerClass(
        **dict.fromkeys(CLASSES, zero) | dict(zip(("fp32", "sfu", "dram"), slopes.T, strict=True))
    )
    counts: dict[str, Any] = {
        name: single for name in Kernel.__dataclass_fields__ if name not in ("work", "phases")
    }
    whole = single.astype(int)
    resources = Resources(threads=64 * whole, blocks=whole, registers=32 * whole, shared_bytes=0 * whole)
    counted = OwnKernel("own", Space({"n": (1,)}), lambda *given: (Kernel(work=work, **counts), resources))
    return of_kernel(counted, GPU, {"n": np.ones(len(slopes), int)})


def ridge(slopes, off, tau, widths):
    """Mean and covariance of θ where log t = slopes θ + noise of deviation τ."""
    covariance = np.linalg.inv(slopes.T @ slopes / tau**2 + np.diag(widths**-2.0))
    return covariance @ slopes.T @ off / tau**2, covariance


@pytest.fixture(scope="module")
def slopes():
    slopes = np.random.default_rng(0).normal(size=(COUNT, 3))
    slopes[:, 2] = 0.0  # these times say nothing of the third
    return slopes


@pytest.fixture(scope="module")
def off(slopes):
    """What times are off the catalogue's."""
    return slopes @ [0.2, -0.05, 0.3] + NOISE * np.random.default_rng(1).normal(size=COUNT)


@pytest.fixture(scope="module")
def data(slopes, off):
    return Data.of(launches(slopes), np.exp(OFFSET + off))


@pytest.fixture(scope="module")
def parameters():
    return Parameters(NAMES, WIDTHS[None])


@pytest.fixture(scope="module")
def found(data, parameters):
    return fit([data], [0], parameters, linear, starts=2)


def test_mode_and_spread_are_those_of_ridge_regression(found, slopes, off):
    np.testing.assert_allclose(found.unexplained, NOISE, rtol=0.4)  # 40 residuals tell it so well
    mean, covariance = ridge(slopes, off, found.unexplained, WIDTHS)
    spread = np.sqrt(np.diag(covariance))
    # The loss is not quite a square: large residuals count less.
    assert np.all(np.abs(found.theta - mean) < 0.5 * spread)
    np.testing.assert_allclose(found.theta[2], 0.0, atol=1e-6)
    np.testing.assert_allclose(found.spreads(), spread, rtol=0.1)
    # Ends of an interval are told by fewer samples than its spread is.
    np.testing.assert_allclose(
        np.quantile(found.samples, (0.15865, 0.84135), axis=0), mean + np.outer([-1, 1], spread), atol=0.03
    )
    np.testing.assert_allclose(np.corrcoef(found.samples.T), np.eye(3), atol=0.35)
    assert found.undetermined() == ("cpi.l2",)

    def loss(theta):
        r = (slopes @ theta - off) / found.unexplained
        return np.sum(9.0 * (np.sqrt(1 + r**2 / 9.0) - 1)) + 0.5 * np.sum((theta / WIDTHS) ** 2)

    np.testing.assert_allclose(found.loss, loss(found.theta), rtol=1e-9)
    for step in (*np.eye(3), *-np.eye(3)):
        assert loss(found.theta) < loss(found.theta + 1e-3 * step)


def test_what_is_held_out_does_not_count(found, slopes, off, parameters):
    kept = np.arange(COUNT) % 4 > 0
    single, other = (
        Data.of(launches(slopes), np.exp(OFFSET + np.where(kept, off, wrong))).only(kept)
        for wrong in (-3.0, 3.0)
    )
    theta = [fit([item], [0], parameters, linear, starts=1) for item in (single, other)]
    np.testing.assert_array_equal(theta[0].theta, theta[1].theta)
    mean, covariance = ridge(slopes[kept], off[kept], theta[0].unexplained, WIDTHS)
    assert np.all(np.abs(theta[0].theta - mean) < 0.5 * np.sqrt(np.diag(covariance)))
    assert theta[0].theta[0] != found.theta[0]


def test_two_gpus_share_a_parameter(slopes, off):
    parameters = Parameters(NAMES, np.stack([WIDTHS, 2 * WIDTHS]), frozenset(["cpi.fp32"]))
    np.testing.assert_array_equal(parameters.index, [[0, 1, 2], [3, 1, 4]])
    np.testing.assert_allclose(parameters.width, [0.3, 0.2, 0.2, 0.6, 0.4])
    half = COUNT // 2
    parts = [
        Data.of(launches(slopes[rows]), np.exp(OFFSET + off[rows] + more * slopes[rows, 0]))
        for rows, more in ((np.arange(half), 0.0), (np.arange(half, COUNT), 0.4))
    ]
    found = fit(parts, [0, 1], parameters, linear, starts=1)
    design = np.zeros((COUNT, 5))
    design[:half, :3] = slopes[:half]
    design[half:, [3, 1, 4]] = slopes[half:]
    times = off + np.where(np.arange(COUNT) < half, 0.0, 0.4 * slopes[:, 0])
    mean, covariance = ridge(design, times, found.unexplained, parameters.width)
    assert np.all(np.abs(found.theta - mean) < 0.5 * np.sqrt(np.diag(covariance)))
    assert found.logs(0)[1] == found.logs(1)[1]
    assert found.logs(1)[0] - found.logs(0)[0] == pytest.approx(0.4, abs=0.1)
    np.testing.assert_allclose(
        [found.spreads(0), found.spreads(1)], np.sqrt(np.diag(covariance))[parameters.index], rtol=0.15
    )


def test_bounds_hold_and_what_runs_into_one_is_doubted(found, data, slopes):
    """The first θ is to go to 0.2, and may go to 0.1: the mode is on the bound, and no sample is beyond."""
    bounds = np.stack([[-WIDTHS], [[0.1, 0.3, 0.6]]])
    parameters = Parameters(NAMES, WIDTHS[None], bounds=bounds)
    for method in ("lm", "bfgs"):
        steps: list[int] = []
        bounded = fit([data], [0], parameters, linear, method, starts=2, advance=steps.append)
        assert sum(steps) == stages(2)
        np.testing.assert_allclose(bounded.theta[0], 0.1, atol=2e-3)
        assert bounded.unexplained > found.unexplained
        assert np.all((bounded.samples >= -WIDTHS) & (bounded.samples <= [0.1, 0.3, 0.6]))
        assert bounded.doubts() == {"clock": "at its bound"}
        assert bounded.undetermined() == ("cpi.l2",)  # as narrow as its bounds alone make it


def test_what_is_far_from_the_catalogue_is_doubted(slopes):
    far = Data.of(launches(slopes), np.exp(OFFSET + slopes @ [0.2, 0.25, 0.0]))
    assert fit([far], [0], Parameters(NAMES, WIDTHS[None]), linear).doubts() == {"cpi.fp32": "2.5 widths off"}


def test_launches_that_failed_are_left_out(slopes):
    seconds = np.full(COUNT, 1e-3)
    seconds[[3, 5]] = np.nan, np.inf
    rest = Data.of(launches(slopes), seconds)
    np.testing.assert_array_equal(rest.launches.kernel.work.fp32, np.delete(slopes[:, 0], [3, 5]))
    with pytest.raises(DseError, match="found no launch that ran and is possible"):
        Data.of(launches(slopes), np.full(COUNT, np.nan))


def test_dram_keeps_its_own_clock():
    follow = Parameters(("clock", "cpi.dram", "cpi.l2"), WIDTHS[None]).follow
    np.testing.assert_array_equal(follow @ [0.5, 0.1, 0.2], [0.5, 0.6, 0.2])
