"""The chance of each configuration to be the fastest, and rankings put in order by measurements."""

import numpy as np
import pytest
from scipy.stats import norm

from dse import kernels
from dse.evaluate.rank import rank
from dse.explore.tune.candidates import bare
from dse.explore.tune.refit import chances, refitted
from dse.explore.tune.tuner import Tuner
from dse.hardware import gpus

SIDE = 6
A, B = (axis.ravel() for axis in np.meshgrid(2 ** np.arange(SIDE), 2 ** np.arange(SIDE)))


@pytest.fixture(scope="module")
def tuner():
    """Twelve measurements of a smooth space, of which nothing is known."""
    times = np.exp(0.1 * (np.log2(A) - 2) ** 2 + 0.05 * (np.log2(B) - 3) ** 2) * 1e-3
    measured = np.random.default_rng(0).permutation(len(A))[:12]
    return Tuner(bare({"a": A, "b": B}), times={int(place): float(times[place]) for place in measured})


def test_chances_add_up_and_follow_the_posterior(tuner):
    actual = chances(tuner)
    mean, deviation = tuner.predict()
    assert actual["chance_fastest"].sum() == pytest.approx(1.0)
    assert (actual["chance_near"] >= actual["chance_fastest"]).all()
    assert actual["chance_fastest"][np.argmin(mean)] > 1 / len(A)
    np.testing.assert_allclose(actual["refitted_s"], np.exp(mean))
    np.testing.assert_allclose(np.log(actual["high_s"]) - mean, norm.ppf(0.975) * deviation, rtol=1e-3)
    np.testing.assert_allclose(mean - np.log(actual["low_s"]), norm.ppf(0.975) * deviation, rtol=1e-3)
    both = bare({"a": np.array([1, 2])})
    tuner = Tuner(both, times={0: 1.0})
    mean, _ = tuner.surrogate(both.points)
    covariance = tuner.surrogate.process.covariance(both.points, both.points)
    spread = np.sqrt(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1])
    assert chances(tuner)["chance_fastest"][0] == pytest.approx(norm.cdf(np.diff(mean)[0] / spread), abs=0.03)


def test_a_ranking_is_put_in_order_by_what_was_measured(toy_kernel, tmp_path):
    description, file = kernels.load(toy_kernel), gpus.load("a100-pcie-40gb")
    plain = rank(description, file.gpu, ["roofline"])
    path = tmp_path / "times.csv"
    times = [row["time_s"] * (1 if n else 50) for n, row in enumerate(plain.rows(8))]  # the first is slow
    rows = [f"{row['block']},{row['items']},{time}" for row, time in zip(plain.rows(8), times, strict=True)]
    path.write_text("\n".join(["block,items,time_s", *rows]))
    measured = rank(description, file.gpu, ["roofline"], measured=path)
    reordered = refitted(measured, description, file, "roofline")
    assert reordered.order[0] != plain.order[0]
    [first] = reordered.rows(1)
    assert first["low_s"] < first["refitted_s"] < first["high_s"]
    assert 0 < first["chance_fastest"] <= first["chance_near"] <= 1
