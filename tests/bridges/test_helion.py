"""Helion's kernels and its own searches, for a GPU that is not there: as far as they go without one."""

import pytest

from dse.bridges import helion as bridge
from dse.hardware import gpus

torch = pytest.importorskip("torch")
helion = pytest.importorskip("helion")
hl = pytest.importorskip("helion.language")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # others' warnings

H100 = gpus.load("h100-sxm")


@helion.kernel(static_shapes=True)
def matmul(x, y):  # after the first of Helion's examples
    m, k = x.size()
    _, n = y.size()
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        out[tile_m, tile_n] = acc
    return out


@pytest.fixture
def bound(faked_gpu, own_cache, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(own_cache / "triton"))
    with faked_gpu():
        x, y = (torch.empty(shape, device="cuda", dtype=torch.bfloat16) for shape in ((256, 512), (512, 128)))
        yield matmul.bind((x, y)), (x, y)


def test_what_cannot_be_launched_is_left_out_and_the_fastest_comes_first(bound):
    predicted = bridge.Predictions(H100, *bound)
    slow = helion.Config(block_sizes=[16, 16, 16], num_warps=1, num_stages=1)
    fast = helion.Config(block_sizes=[64, 64, 64], num_warps=4, num_stages=3)
    large = helion.Config(block_sizes=[256, 128, 256], num_warps=8, num_stages=5)
    assert [predicted.filter(item) for item in (slow, fast, large)] == [slow, fast, None]
    assert predicted.best_first([slow, large, fast]) == [fast, slow]


def test_its_finite_search_takes_seeds_and_filter(bound):
    kernel, arguments = bound
    predicted = bridge.Predictions(H100, *bound)
    large = helion.Config(block_sizes=[256, 128, 256], num_warps=8, num_stages=5)
    kernel.settings.autotune_config_filter = predicted.filter
    search = bridge.finite_search(H100, drawn=4, first=2)(kernel, arguments)
    timed: list = []

    def benchmark(configs: list, **others: object) -> list:
        timed.extend(search._apply_config_filter([*configs, large])[0])
        return []

    search.benchmark_batch = benchmark
    with pytest.raises(AssertionError):  # nothing was timed
        search._autotune()
    assert len(timed) == 2
    assert large not in timed
