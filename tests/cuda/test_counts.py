"""Configurations counted from source, or estimated from some that are, as models take them."""

from dataclasses import replace

import numpy as np
import pytest

from dse import gpus, kernels
from dse.cuda.cache import Cache
from dse.cuda.counts import Counted, architecture, count
from dse.errors import DseError
from dse.evaluate.rank import configurations, rank_source

A100 = gpus.load("a100-pcie-40gb")


@pytest.fixture(scope="module")
def transpose():
    """Some configurations of little code."""
    described = kernels.load("transpose")
    return replace(described, space=described.space.with_values({"tile": (16, 32)}))


@pytest.fixture(scope="module")
def every(transpose, tmp_path_factory) -> tuple[Cache, Counted]:
    cache = Cache(tmp_path_factory.mktemp("cache") / "kernels.sqlite")
    return cache, count(transpose, A100.gpu, 80, configurations(transpose), None, cache=cache, workers=1)


def test_what_is_counted_has_the_launch_and_the_phases(transpose, every):
    parameters, counted = configurations(transpose), every[1]
    assert not counted.failures
    np.testing.assert_array_equal(counted.resources.threads, parameters["tile"] ** 2 // parameters["rows"])
    assert len(counted.found) == len(parameters["tile"]) == len(counted.kernel.load_insts)
    barrier = np.asarray(counted.kernel.phases[1].passes)
    np.testing.assert_array_equal(barrier > 0, parameters["shared"] == 1)


def test_those_not_compiled_are_estimated(transpose, every):
    cache, whole = every
    guess = count(
        transpose, A100.gpu, 80, configurations(transpose), None, compiled=12, cache=cache, workers=1
    )
    assert len(guess.found) == 12
    compiled = sorted(guess.found)
    for name in ("load_insts", "sectors", "ilp"):
        ours, theirs = (np.asarray(getattr(each.kernel, name)) for each in (guess, whole))
        np.testing.assert_allclose(ours[compiled], theirs[compiled], rtol=1e-12)
        assert np.median(np.abs(ours / theirs - 1)) < 0.1
    np.testing.assert_array_equal(guess.resources.threads, whole.resources.threads)
    kernel, resources, places = guess.left_out()
    assert len(kernel.load_insts) == len(resources.threads) == len(places) == 12


def test_too_few_tell_nothing(transpose, every):
    with pytest.raises(DseError, match=r"--compile: found 3, expected 8 or more, or all \d+"):
        count(transpose, A100.gpu, 80, configurations(transpose), None, compiled=3, cache=every[0])


def test_a_gpu_that_nothing_compiles_for():
    assert architecture(A100) == 80
    with pytest.raises(DseError, match=r"compute capability: found none \(AMD\), expected one from 7.5"):
        architecture(gpus.load("mi250x"))


def test_what_does_not_compile_comes_last(transpose, tmp_path, monkeypatch):
    monkeypatch.setenv("DSE_CACHE", str(tmp_path))
    source = tmp_path / "kernel.cu"
    assert transpose.source is not None
    source.write_text(transpose.source.read_text() + "\n#if TILE == 32\n#error no such tile\n#endif\n")
    few = replace(
        transpose, source=source, space=transpose.space.with_values({"tile": (16, 32), "rows": (1,)})
    )
    ranking = rank_source(few, A100.gpu, 80, ["phase"])
    last = ranking.rows()[-1]
    assert (last["tile"], last["limited by"], last["time"]) == (32, "compile error", float("inf"))
    assert ranking.rows()[0]["tile"] == 16
    none = replace(few, space=few.space.with_values({"tile": (32,)}))
    with pytest.raises(DseError, match=r"transpose: source: .*no such tile"):
        rank_source(none, A100.gpu, 80, ["phase"])
