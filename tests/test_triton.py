"""`dse.triton`: kernels of a program ranked and pruned, as Triton's own autotuner calls it, without a GPU."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dse.triton
from dse.errors import DseError
from dse.kernels.description import Contents
from dse.source.launches import configurations
from dse.source.nvidia.compile.triton_function import function
from dse.source.nvidia.source import source_of
from dse.source.readers.triton_call import of_call

triton = pytest.importorskip("triton")

FILE = Path(__file__).parent / "source" / "readers" / "triton_kernels.py"
GPU = "a100-pcie-40gb"
GATHER = {"out": "*fp16", "x": "*fp16", "rows": 4096}
GATHER |= {"ids": np.arange(4096, dtype=np.int32), "count": np.array([64])}


@pytest.fixture(scope="module")
def cache(tmp_path_factory, new_cache):
    return new_cache(tmp_path_factory.mktemp("caches") / "dse")


@pytest.fixture(autouse=True)
def own_caches(cache, monkeypatch):
    monkeypatch.setenv("DSE_CACHE", cache)
    monkeypatch.setenv("TRITON_CACHE_DIR", f"{cache}/triton")


def configs(*blocks: int) -> list:
    return [triton.Config({"BLOCK": block}, num_warps=warps) for block in blocks for warps in (2, 4)]


def grid(meta) -> tuple:
    return (triton.cdiv(meta["rows"], meta["BLOCK"]),)


def test_rank():
    kernel = function(FILE, "gather").jit
    ranking = dse.triton.rank(kernel, GPU, args=GATHER, grid=grid, configs=configs(64, 128))
    rows = ranking.rows()
    assert {(row["BLOCK"], row["num_warps"], row["blocks"]) for row in rows} == {
        (64, 2, 64), (64, 4, 64), (128, 2, 32), (128, 4, 32)}  # fmt: skip
    values = {"BLOCK": [64], "num_warps": [2, 4]}
    by_value = dse.triton.rank(kernel, GPU, args=GATHER, grid="cdiv(rows, BLOCK)", configs=values)
    assert [row["time_s"] for row in by_value.rows()] == [row["time_s"] for row in rows if row["BLOCK"] == 64]


def test_the_arguments_of_a_launch():
    kernel = function(FILE, "gather").jit
    description = of_call(
        kernel, GATHER | {"KIND": "negative", "SCALE": np.float64(3.0)}, (8, 2), configs(64)
    )
    actual = configurations(description, description.space.configurations(), {}, dse.gpu(GPU).gpu)[0]
    assert actual.grid == (8, 2, 1)
    ids = actual.arguments[2]
    assert isinstance(ids, Contents)
    assert ids.array.tolist() == list(range(4096))
    assert "arange" not in repr(ids)
    settings = dict(source_of(description).settings(actual.defines, actual.arguments))
    assert (settings["KIND"], settings["SCALE"], settings["BLOCK"]) == ("negative", 3.0, 64)
    assert [settings[name].type for name in ("out", "ids", "count")] == ["*fp16", "*i32", "*i64"]


class Tensor:
    """A tensor of which nothing but the type is known."""

    dtype = "torch.float16"


def tuner(**by):
    kernel = function(FILE, "gather").jit
    return triton.autotune(configs(64, 128), key=["rows"], prune_configs_by=by)(kernel)


@pytest.mark.slow
def test_the_autotuner_prunes_what_it_need_not_time_or_takes_the_best_by_the_model():
    prune = dse.triton.prune(lambda: tuned, GPU, risk=0.5)
    tuned = tuner(early_config_prune=prune)
    tuned.nargs = GATHER | {"out": Tensor(), "x": Tensor()}
    kept = tuned.prune_configs({"grid": grid, "warmup": False})
    ranking = dse.triton.rank(tuned, GPU, args=GATHER, grid=grid, configs=configs(64, 128))
    times = {(row["BLOCK"], row["num_warps"]): row["time_s"] for row in ranking.rows()}
    assert 0 < len(kept) < 4
    assert (kept[0].kwargs["BLOCK"], kept[0].num_warps) == min(times, key=times.__getitem__)
    seconds = prune.perf_model(**tuned.nargs, grid=grid, **kept[0].all_kwargs())
    np.testing.assert_allclose(seconds, min(times.values()), rtol=1e-6)
    prune = dse.triton.prune(function(FILE, "gather").jit, GPU, grid=grid)
    tuned = tuner(early_config_prune=prune, perf_model=prune.perf_model, top_k=1)
    tuned.nargs = GATHER
    assert len(tuned.prune_configs({})) == 1


@pytest.mark.slow
def test_what_cannot_run_is_left_out_and_all_are_kept_where_none_can():
    prune = dse.triton.prune(function(FILE, "gather").jit, GPU, grid=grid, risk=0.01)
    some = [*configs(128), triton.Config({"BLOCK": 128}, num_warps=64), triton.Config({"BLOCK": 100})]
    kept = prune(some, GATHER)
    assert 0 < len(kept) <= 2
    assert {(item.kwargs["BLOCK"], item.num_warps) for item in kept} <= {(128, 2), (128, 4)}


def test_best_first_keeps_all_and_puts_last_what_cannot_be_launched():
    kernel = function(FILE, "gather").jit
    some = [triton.Config({"BLOCK": 128}, num_warps=64), *configs(64, 128)]
    ordered = dse.triton.best_first(some, kernel, GPU, args=GATHER, grid=grid)
    assert ordered[-1] is some[0]
    assert sorted(map(id, ordered)) == sorted(map(id, some))
    rows = dse.triton.rank(kernel, GPU, args=GATHER, grid=grid, configs=some[1:]).rows()
    times = {(row["BLOCK"], row["num_warps"]): row["time_s"] for row in rows}
    actual = [times[item.kwargs["BLOCK"], item.num_warps] for item in ordered[:-1]]
    assert actual == sorted(actual)


def test_mistakes():
    kernel = function(FILE, "gather").jit
    with pytest.raises(DseError, match=r"grid: found none, expected numbers"):
        dse.triton.prune(kernel, GPU)(configs(64), GATHER)
    with pytest.raises(DseError, match=r"given.constexprs: .*gather: found no value of BLOCK"):
        dse.triton.rank(kernel, GPU, args=GATHER, grid=grid, configs={"num_warps": [4]})
    with pytest.raises(DseError, match=r"args: x: found \[1\], expected a number, a tensor, or a type"):
        dse.triton.rank(kernel, GPU, args=GATHER | {"x": [1]}, grid=grid, configs=configs(64))
    with pytest.raises(DseError, match=r"kernel: found .*, expected a function with @triton.jit"):
        dse.triton.rank(print, GPU, args={}, grid=grid)
    with pytest.raises(DseError, match=r"configs: found BLOCK, expected num_warps in all"):
        dse.triton.rank(kernel, GPU, args=GATHER, grid=grid, configs=[{"num_warps": 1}, {"BLOCK": 64}])
    wrong: Any = "a"
    some = [triton.Config({"BLOCK": 64}, num_warps=wrong)]
    with pytest.raises(DseError, match=r"triton.Config: num_warps: found 'a', expected a whole number"):
        dse.triton.rank(kernel, GPU, args=GATHER, grid=grid, configs=some)
