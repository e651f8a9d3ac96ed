"""Recorded times on other GPUs, and what they add."""

from dataclasses import replace

import numpy as np
import pytest

from dse import kernels
from dse.errors import DseError
from dse.evaluate.rank import configurations
from dse.explore.tune.candidates import of_kernel
from dse.explore.tune.others import with_others
from dse.explore.tune.tuner import Tuner
from dse.hardware import gpus


@pytest.fixture
def space(toy_kernel):
    kernel = kernels.load(toy_kernel)
    return kernel, of_kernel(kernel, gpus.load("a100-pcie-40gb"), "roofline", configurations(kernel))


def write(path, candidates, seconds):
    names = list(candidates.parameters)
    rows = [
        ",".join(map(str, [*(candidates.parameters[name][place] for name in names), 1e3 * time, "ok"]))
        if np.isfinite(time)
        else ",".join(map(str, [*(candidates.parameters[name][place] for name in names), "", "runtime"]))
        for place, time in seconds.items()
    ]
    path.write_text("\n".join([",".join([*names, "time_ms", "status"]), *rows]))
    return path


def test_the_scale_of_a_table_does_not_count_and_what_it_lacks_is_as_predicted(space, tmp_path):
    kernel, candidates = space
    off = np.linspace(-0.4, 0.4, 5)
    times = {place: 7 * np.exp(candidates.log_s[place] + x) for place, x in enumerate(off)}
    failed = len(off)
    found = with_others(candidates, kernel, [write(tmp_path / "a.csv", candidates, times | {failed: np.inf})])
    assert found.prior is not None
    np.testing.assert_allclose(found.prior[:5] - candidates.log_s[:5], off, atol=1e-9)
    np.testing.assert_array_equal(found.prior[6:], candidates.log_s[6:])
    slowest = np.log(max(times.values()) / 7)
    assert found.prior[failed] == pytest.approx(slowest)
    np.testing.assert_allclose(found.expected, (candidates.log_s + found.prior) / 2)


def test_several_tables_count_alike(space, tmp_path):
    kernel, candidates = space
    paths = []
    for name, slope in (("a", 0.2), ("b", 0.6)):
        off = slope * np.linspace(-1, 1, len(candidates))
        times = dict(enumerate(np.exp(candidates.log_s + off)))
        paths.append(write(tmp_path / f"{name}.csv", candidates, times))
    found = with_others(candidates, kernel, paths)
    np.testing.assert_allclose(
        found.prior - candidates.log_s, 0.4 * np.linspace(-1, 1, len(candidates)), atol=1e-9
    )
    assert with_others(candidates, kernel, []) is candidates


def test_they_say_what_is_measured_first(space, tmp_path):
    """Of a model that finds all alike: what was fastest elsewhere."""
    kernel, candidates = space
    level = replace(candidates, log_s=np.full(len(candidates), -7.0))
    times = dict(enumerate(np.exp(-7 + 0.1 * np.arange(len(level))[::-1])))
    found = with_others(level, kernel, [write(tmp_path / "a.csv", level, times)])
    assert Tuner(found).ask(1) == [len(level) - 1]


def test_a_table_of_nothing_that_there_is(space, tmp_path):
    kernel, candidates = space
    path = write(tmp_path / "a.csv", candidates, {0: 1.0})
    text = path.read_text().splitlines()
    path.write_text("\n".join([text[0], "7,7,1,ok"]))
    with pytest.raises(DseError, match=r"a\.csv: found none of the configurations of toy that ran"):
        with_others(candidates, kernel, [path])
