"""Configurations counted from source, or estimated from some that are, as models take them."""

from dataclasses import replace

import numpy as np
import pytest

from dse import kernels
from dse.errors import DseError
from dse.evaluate.rank import configurations, rank
from dse.hardware import gpus
from dse.kernels.counts import Counted, KnownBatch
from dse.source.cache import Cache
from dse.source.kernel import SourceKernel
from dse.source.nvidia.source import architecture

A100 = gpus.load("a100-pcie-40gb")
GPUS = gpus.stack([A100.gpu])


@pytest.fixture(scope="module")
def transpose():
    """Some configurations of little code."""
    described = kernels.load("transpose")
    return replace(described, space=described.space.with_values({"tile": (16, 32), "padding": (0,)}))


@pytest.fixture(scope="module")
def every(transpose, tmp_path_factory) -> tuple[Cache, Counted]:
    cache = Cache(tmp_path_factory.mktemp("cache") / "kernels.sqlite")
    return cache, SourceKernel(transpose, None, cache, 1).count(configurations(transpose), GPUS)


def known(counted: Counted) -> KnownBatch:
    assert isinstance(counted.batch, KnownBatch)
    return counted.batch


@pytest.mark.slow
def test_those_not_compiled_are_estimated(transpose, every):
    cache, whole = every
    guess = SourceKernel(transpose, 12, cache, 1).count(configurations(transpose), GPUS)
    assert guess.compiled == 12
    assert guess.estimates is not None
    index, alone = guess.estimates.index, guess.estimates.batch
    ours, theirs = known(guess), known(whole)
    for name in ("load_insts", "sectors", "ilp"):
        few, all_of_them = (np.asarray(getattr(batch.kernel, name))[0] for batch in (ours, theirs))
        np.testing.assert_allclose(few[index], all_of_them[index], rtol=1e-12)
        assert np.median(np.abs(few / all_of_them - 1)) < 0.1
    np.testing.assert_array_equal(ours.resources.threads, theirs.resources.threads)
    assert isinstance(alone, KnownBatch)
    assert alone.kernel.load_insts.shape == alone.resources.threads.shape == (1, len(index)) == (1, 12)


@pytest.mark.slow
def test_several_gpus_are_counted_one_after_the_other_and_too_few_tell_nothing(transpose, every):
    others = gpus.stack([A100.gpu, gpus.load("h200").gpu])
    both = known(SourceKernel(transpose, None, every[0], 1).count(configurations(transpose), others))
    np.testing.assert_array_equal(both.kernel.load_insts[0], known(every[1]).kernel.load_insts[0])
    assert both.resources.registers.shape == (2, len(configurations(transpose)["tile"]))
    with pytest.raises(DseError, match=r"compile: found 3, expected 8 or more, or all \d+"):
        SourceKernel(transpose, 3, every[0]).count(configurations(transpose), GPUS)


def test_a_gpu_that_nothing_compiles_for():
    assert architecture(A100.gpu) == 80
    with pytest.raises(DseError, match=r"compute capability: found none, expected one from 7\.5"):
        architecture(gpus.load("mi250x").gpu)


def test_what_does_not_compile_comes_last(transpose, tmp_path, own_cache):
    source = tmp_path / "kernel.cu"
    assert transpose.source is not None
    source.write_text(transpose.source.read_text() + "\n#if TILE == 32\n#error no such tile\n#endif\n")
    few = replace(
        transpose, source=source, space=transpose.space.with_values({"tile": (16, 32), "rows": (1,)})
    )
    ranking = rank(SourceKernel(few), A100.gpu, ["volkov"])
    last = ranking.rows()[-1]
    assert (last["tile"], last["limited_by"], last["time_s"]) == (32, "compile error", float("inf"))
    assert ranking.rows()[0]["tile"] == 16
    none = replace(few, space=few.space.with_values({"tile": (32,)}))
    with pytest.raises(DseError, match=r"transpose: source: .*no such tile"):
        rank(SourceKernel(none), A100.gpu, ["volkov"])
