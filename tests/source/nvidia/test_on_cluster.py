"""Kernels read from source on a cluster: the same counts as here, kept in our cache."""

import numpy as np
import pytest

from dse.core.cluster import active_executor, executing_on
from dse.hardware import gpus
from dse.source import readers
from dse.source.cache import Cache
from dse.source.kept import pack
from dse.source.kernel import SourceKernel

pytest.importorskip("distributed")


@pytest.mark.slow
def test_a_ranking_is_the_same_and_is_kept_here(tmp_path, monkeypatch):
    description = readers.load("transpose")
    gpu = gpus.load("a100").gpu
    parameters = {
        name: values[::20] for name, values in description.space.configurations(description.sizes()).items()
    }
    here = SourceKernel(description, cache=Cache(tmp_path / "here")).read(parameters, gpu)
    with executing_on(workers=2):
        assert active_executor() is not None
        there = SourceKernel(description, cache=Cache(tmp_path / "there")).read(parameters, gpu)
    assert active_executor() is None
    assert [*map(pack, there)] == [*map(pack, here)]
    messages: list[int] = []
    monkeypatch.setattr("dse.source.nvidia.source.compiled", messages.append)
    again = SourceKernel(description, cache=Cache(tmp_path / "there")).read(parameters, gpu)
    assert [*map(pack, again)] == [*map(pack, here)]
    assert not messages
    assert len(here) == len(np.asarray(next(iter(parameters.values()))))
