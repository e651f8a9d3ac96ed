"""How a sweep is cut: parts of one shape, which nothing is compiled for twice, and counts along axes."""

import jax
import numpy as np
import pytest

from dse import kernels
from dse.explore.sweep import dense, plan
from dse.explore.sweep.dense import cut
from dse.explore.sweep.plan import Plan
from dse.explore.sweep.product import SweepProduct, density, evenly
from dse.explore.sweep.reductions import LimiterCounts, Top
from dse.hardware import gpus
from dse.kernels.counts import sizes_of
from dse.kernels.description import describe
from dse.models import get_all

FILES = tuple(gpus.load(name) for name in ("a100", "gtx-280", "mi250x"))
PER = frozenset({"gpu", "size", "model"})


def product_of(kernel, sizes, files=FILES, models=("roofline",)):
    return SweepProduct.of([(kernel, dict(kernel.problem) | sizes)], files, get_all(models))


@pytest.fixture
def traced():
    """Names of the functions that JAX traces from here on."""
    seen = []

    def listen(event, duration_secs, **about):
        if event == "/jax/core/compile/jaxpr_trace_duration":
            seen.append(about.get("fun_name"))

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield seen
    jax.monitoring.unregister_event_duration_listener(listen)


@pytest.mark.quick("0-1048576")
@pytest.mark.parametrize(("dense_from", "few"), [(0, 1 << 20), (1 << 62, 0)])
def test_a_second_sweep_of_the_same_shape_compiles_nothing(toy_kernel, monkeypatch, traced, dense_from, few):
    monkeypatch.setattr(plan, "DENSE", dense_from)
    monkeypatch.setattr(plan, "FEW", few)
    monkeypatch.setattr(dense, "WIDTH", 60)
    toy = kernels.load(toy_kernel)

    def sweep(sizes, files):
        top = Top(3, PER)
        made = Plan(product_of(toy, {"n": sizes}, files, ("volkov",)), top)
        assert made.units > 1
        return top.merged(list(made.reduced(range(made.units)).values()))

    first = sweep((1 << 16, 1 << 18, 1 << 20), FILES)
    assert traced or dense_from  # chunks share what is compiled with other kernels, which may have been there
    traced.clear()
    # Other sizes, other GPUs, other values of the parameters.
    second = sweep((1 << 17, 1 << 19, 1 << 21), (gpus.load("h200"), *FILES[1:]))
    assert traced == []
    assert (first["time_s"] != second["time_s"]).any()


@pytest.mark.parametrize(
    ("name", "width"),
    [("gemm", 1 << 10), ("convolution", 1 << 19), ("dedispersion", 1 << 10), ("nbody", 1 << 19)],
)
def test_counts_along_axes_are_those_of_single_configurations(name, width, monkeypatch):
    monkeypatch.setattr(dense, "WIDTH", width)
    kernel = kernels.load(name)
    size, value = next(iter(kernel.problem))
    values = (value, 2 * value, 4 * value)
    product = product_of(kernel, {size: values})
    made = cut(kernel, product.sizes[0], product.stacked)
    points = [sizes_of(kernel, {size: item}) for item in values[: made.points]]
    listed = next(made.prefix.pieces(0, made.prefix.size, points[0]))[-made.rows :]
    gpu, counted, resources = made.fields(points, listed)
    leaves = jax.tree.leaves((gpu, counted, resources))
    assert all(leaf.ndim == len(made.shape) for leaf in leaves)
    assert np.broadcast_shapes(*(leaf.shape for leaf in leaves)) <= made.shape
    rng = np.random.default_rng(0)
    for _ in range(5):
        g, s, row = (int(rng.integers(n)) for n in (made.shape[0], len(points), len(listed)))
        flat = int(rng.integers(made.below))
        [index] = made.index(listed, np.asarray([row * made.below + flat])).tolist()
        last = np.unravel_index(flat, made.shape[3:])
        parameters = kernel.space.decode(np.asarray(index), np)
        single = jax.tree.map(lambda x, g=g: x[g], product.stacked)
        wanted = describe(kernel, parameters, points[s], single)
        at = (g, s, row, *last)
        actual = jax.tree.map(lambda x, at=at: np.broadcast_to(x, made.shape)[at], (counted, resources))
        for x, y in zip(jax.tree.leaves(actual), jax.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(x, np.asarray(y), rtol=1e-6)


def test_what_is_not_described_goes_one_by_one(toy_kernel, monkeypatch):
    monkeypatch.setattr(plan, "DENSE", 0)
    toy = kernels.load(toy_kernel)
    product = product_of(toy, {})
    assert Plan(product, Top(1, PER)).cuts[0].dense is not None
    assert Plan(product, LimiterCounts(PER)).cuts[0].dense is not None
    assert Plan(product, None).cuts[0].dense is None
    simulated = product_of(toy, {}, models=("pipeline",))
    assert Plan(simulated, Top(1, PER)).cuts[0].dense is None


def test_constraints_of_sizes_part_them(monkeypatch, own_toy_kernel):
    own_toy_kernel.write_text(own_toy_kernel.read_text().replace('"block != 96"', '"block * 1024 <= n"'))
    monkeypatch.setattr(plan, "DENSE", 0)
    kernel = kernels.load(own_toy_kernel)
    sizes = (1 << 15, 1 << 17, 1 << 19)
    counts = LimiterCounts(frozenset({"size"}))
    made = Plan(product_of(kernel, {"n": sizes}), counts)
    assert made.cuts[0].points == 1
    actual = counts.merged(list(made.reduced(range(made.units)).values()))
    wanted = [len(kernel.space.indices({"n": n})) * len(FILES) for n in sizes]
    assert actual["counts"].sum(axis=1).tolist() == wanted
    assert len(set(wanted)) == 3


def test_even_parts_and_the_share_of_a_space_that_is_valid(toy_kernel):
    space = kernels.load(toy_kernel).space
    assert density(space, {}) == len(space.indices()) / space.size
    for size, most in ((10, 3), (10, 10), (10, 100), (1, 1), (7, 0)):
        part = evenly(size, most)
        assert part <= max(most, 1)
        assert -(-size // part) == -(-size // max(1, min(most, size)))
