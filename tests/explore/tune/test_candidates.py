"""What a tuner chooses from: predictions as the sweep has them, slopes as finite differences have them."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from dse import kernels
from dse.errors import InputWarning
from dse.evaluate.chunks import evaluate
from dse.explore.fit.parameters import NAMES, moved, widths
from dse.explore.fit.surrogate import positions
from dse.explore.tune.candidates import CONTRAST, HABITS, LEVEL, Candidates, bare, of_kernel
from dse.explore.tune.tuner import Tuner
from dse.hardware import gpus
from dse.models import get
from dse.models.protocol import ClosedForm

MODEL = "roofline"
PARAMETERS = {
    "block": np.array([32, 64, 128, 256, 512, 1024, 2048, 128]),
    "items": np.array([1, 2, 4, 4, 2, 1, 1, 3]),
}
IMPOSSIBLE = 6  # 2,048 threads are no block


@pytest.fixture(scope="module")
def file():
    return gpus.load("a100-pcie-40gb", np.float64)


@pytest.fixture(scope="module")
def toy(toy_kernel):
    return kernels.load(toy_kernel)


@pytest.fixture(scope="module")
def candidates(toy, file):
    return of_kernel(toy, file, MODEL, PARAMETERS, {"n": 65536})


def test_predictions_are_those_of_the_sweep(toy, file, candidates):
    swept = evaluate(toy, [MODEL], gpus.stack([file.gpu]), PARAMETERS, {"n": 65536})
    assert candidates.modelled
    np.testing.assert_array_equal(np.flatnonzero(~candidates.possible), [IMPOSSIBLE])
    seconds, ran = swept.forecasts[MODEL].seconds[0], candidates.possible
    np.testing.assert_allclose(np.exp(candidates.log_s[ran]), seconds[ran], rtol=1e-12)
    assert candidates.log_s[IMPOSSIBLE] == candidates.log_s[ran].max()  # as slow as any
    np.testing.assert_array_equal(candidates.position, positions(PARAMETERS))
    shape = {"threads": swept.resources["threads"][0], "warps": swept.warps_per_sm[0]}
    known = {name: np.where(ran, x, x[ran].min()) for name, x in shape.items()}
    np.testing.assert_allclose(candidates.launch, positions(known), rtol=1e-6)


def test_slopes_are_in_prior_deviations_and_centred(toy, file, candidates):
    def log_seconds(name, log):
        gpu = moved(file.gpu, (name,), jnp.asarray([log]))
        evaluated = evaluate(toy, [MODEL], gpus.stack([gpu]), PARAMETERS, {"n": 65536})
        return np.log(np.where(candidates.possible, evaluated.forecasts[MODEL].seconds[0], 1.0))

    width = dict(zip(NAMES, widths(file), strict=True))
    for name in ("clock", "cpi.dram", "latency.dram"):
        raw = (log_seconds(name, 1e-5) - log_seconds(name, -1e-5)) / 2e-5 * width[name]
        expected = raw - raw.mean()
        np.testing.assert_allclose(candidates.slopes[:, NAMES.index(name)], expected, atol=1e-8)
    assert candidates.slopes.shape == (8, len(NAMES))
    ran = candidates.possible
    contrast = CONTRAST * (candidates.log_s - candidates.log_s[ran].mean())
    expected = np.column_stack([candidates.slopes, np.full(8, LEVEL), contrast])
    np.testing.assert_allclose(candidates.points.slopes, expected)
    order = candidates.points.position[:, len(PARAMETERS)]
    assert (np.diff(order[np.argsort(candidates.log_s)]) >= 0).all()


def test_slopes_that_are_no_numbers_are_named_and_left_out(toy, file):
    class Broken(ClosedForm):
        @property
        def predict(self):
            def predict(gpu, kernel, launch):
                predicted = get(MODEL).predict(gpu, kernel, launch)
                nothing = 0.0 * jnp.sqrt(gpu.clock - gpu.clock)  # whose slope is infinite times 0
                return replace(predicted, seconds=predicted.seconds + nothing)

            return predict

    model = Broken(MODEL)
    with pytest.warns(InputWarning, match="slopes of the time: found no number for 7 of 8 configurations"):
        actual = of_kernel(toy, file, model, PARAMETERS, {"n": 65536})
    assert np.isfinite(actual.slopes).all()
    np.testing.assert_array_equal(actual.slopes[:, NAMES.index("clock")], 0.0)
    assert Tuner(actual, times={0: 1.0}).ask()


def test_without_a_model_powers_of_two_come_first_and_blocks_of_few_or_many_threads_last():
    a, b = (axis.ravel() for axis in np.meshgrid([2, 4, 6, 8], [0, 1]))
    actual = bare({"a": a, "b": b, "word": np.where(a == 6, "x", "y")})
    assert set(a[actual.log_s == actual.log_s.min()]) == {4}
    assert set(a[actual.log_s == actual.log_s.max()]) == {6}
    x, y = (axis.ravel() for axis in np.meshgrid([16, 32, 64, 128], [1, 2, 4, 8]))
    actual = bare({"block_size_x": x, "block_size_y": y})
    other = bare({"threads": x, "items": y})  # no axes of one object
    outer = (x * y < 32) | (x * y > 512)
    np.testing.assert_allclose(actual.log_s - other.log_s, HABITS[2] * outer)


def test_most_are_half_the_fastest_and_half_the_others():
    n = 1_000
    log_s = np.random.default_rng(0).permutation(n).astype(float)
    possible = log_s != 0  # the fastest cannot run
    base = bare({"a": np.arange(1, n + 1)})
    whole = Candidates(base.parameters, base.position, log_s, base.slopes, possible, True)
    some = whole.most(100)
    assert len(some) == 100
    assert len(np.unique(some.log_s)) == 100
    assert set(range(1, 51)) <= set(some.log_s)  # the 50 fastest that can run
    others = np.sort(some.log_s)[51:]
    assert 400 < others.mean() < 650  # from everywhere
    np.testing.assert_array_equal(np.diff(some.parameters["a"]) > 0, True)  # in their old order
    assert whole.most(n) is whole
    assert set(whole.most(100, 1).places) != set(some.places)
