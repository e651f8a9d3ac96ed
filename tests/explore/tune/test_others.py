"""Recorded times on other GPUs, and what they add."""

from dataclasses import replace

import numpy as np
import pytest

from dse import kernels
from dse.errors import DseError, InputWarning
from dse.evaluate.rank import configurations
from dse.explore.tune.candidates import SHARED, TRUST, bare, of_kernel
from dse.explore.tune.others import with_others
from dse.explore.tune.tuner import Tuner
from dse.hardware import gpus


@pytest.fixture
def space(toy_kernel):
    kernel = kernels.load(toy_kernel)
    return kernel, of_kernel(kernel, gpus.load("a100-pcie-40gb"), "roofline", configurations(kernel))


def write(path, candidates, seconds):
    names = list(candidates.parameters)
    rows = [[*names, "time_s", "status"]]
    for place, time in seconds.items():
        end = [time, "ok"] if np.isfinite(time) else ["", "runtime"]
        rows.append([*(candidates.parameters[name][place] for name in names), *end])
    path.write_text("\n".join(",".join(map(str, row)) for row in rows))
    return path


def test_the_scale_of_a_table_does_not_count_and_what_it_lacks_is_as_predicted(space, tmp_path):
    kernel, candidates = space
    off = np.linspace(-0.4, 0.4, 5)
    times = {place: 7 * np.exp(candidates.log_s[place] + x) for place, x in enumerate(off)}
    failed = len(off)
    actual = with_others(
        candidates, kernel, [write(tmp_path / "a.csv", candidates, times | {failed: np.inf})]
    )
    assert actual.others is not None
    [off_there] = actual.others.T
    np.testing.assert_allclose(off_there[:5], off, atol=1e-9)
    np.testing.assert_array_equal(off_there[6:], 0.0)
    slowest = np.log(max(times.values()) / 7)
    assert candidates.log_s[failed] + off_there[failed] == pytest.approx(slowest)
    np.testing.assert_array_equal(actual.expected, candidates.log_s)


def test_errors_on_a_gpu_alike_are_expected_and_those_of_another_vendor_are_left_out(space, tmp_path):
    kernel, candidates = space
    off = np.linspace(-0.4, 0.4, len(candidates))
    there = of_kernel(kernel, gpus.load("rtx-a4000"), "roofline", candidates.parameters)
    path = write(tmp_path / "A4000.csv", there, dict(enumerate(np.exp(there.log_s + off))))
    expected = with_others(candidates, kernel, [path]).expected
    np.testing.assert_allclose(expected - candidates.log_s, SHARED * off, atol=1e-6)
    other = path.rename(tmp_path / "MI250X.csv")
    with pytest.warns(InputWarning, match=r"MI250X\.csv: left out"):
        assert with_others(candidates, kernel, [other]) is candidates


def test_several_tables_count_alike_and_are_trusted_by_themselves(space, tmp_path):
    kernel, candidates = space
    paths = []
    for name, slope in (("a", 0.2), ("b", 0.6)):
        off = slope * np.linspace(-1, 1, len(candidates))
        times = dict(enumerate(np.exp(candidates.log_s + off)))
        paths.append(write(tmp_path / f"{name}.csv", candidates, times))
    actual = with_others(candidates, kernel, paths)
    mean = 0.4 * np.linspace(-1, 1, len(candidates))
    unknown = replace(actual, modelled=False)
    np.testing.assert_allclose(unknown.expected - candidates.log_s, mean, atol=1e-9)
    assert actual.others is not None
    np.testing.assert_allclose(actual.points.slopes[:, -2:], TRUST * actual.others)
    assert with_others(candidates, kernel, []) is candidates
    kernel, candidates = space
    path = write(tmp_path / "a.csv", candidates, {0: 1.0})
    text = path.read_text().splitlines()
    path.write_text("\n".join([text[0], "7,7,1,ok"]))
    with pytest.raises(DseError, match=r"a\.csv: found none of the configurations of toy that ran"):
        with_others(candidates, kernel, [path])


def test_a_table_earns_its_trust():
    """Of two tables the one that is right decides; with both wrong, measurements do."""
    a, b = (axis.ravel() for axis in np.meshgrid(2 ** np.arange(8), 2 ** np.arange(8)))
    random = np.random.default_rng(0)
    true, other = random.normal(size=(2, len(a))) * 0.5
    space = replace(bare({"a": a, "b": b}), others=np.column_stack([other, true]))
    seen = random.permutation(len(a))[:12]
    measured = {int(place): float(np.exp(true[place])) for place in seen}
    rest = np.setdiff1d(np.arange(len(a)), seen)
    mean, _ = Tuner(space, times=measured).predict()
    before = np.corrcoef(space.expected[rest], true[rest])[0, 1]
    assert np.corrcoef(mean[rest], true[rest])[0, 1] > max(0.9, before + 0.1)
