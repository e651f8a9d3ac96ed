"""The fastest of a dense grid, against all of its configurations evaluated at once and sorted in Python."""

import math
from dataclasses import replace
from functools import cache, partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.evaluate.grid import fastest_of_grid
from dse.evaluate.layout import Cuts
from dse.evaluate.minima import row_minima
from dse.hardware import gpus, occupancy
from dse.models import get
from dse.types import CLASSES, TENSOR, Kernel, PerClass, Resources

NAMES = ("a100", "mi250x", "gtx-280")  # warps of 32 and 64; registers allocated by warp and by block
AXES = "GKCBR"  # GPUs, kernels, coarsening (of kernels and launches), block sizes, registers
REGISTERS = (16, 40, 77, 128, 255)
COMPILED: Any = row_minima
FEW, OTHERS = ("volkov", "wfg-corrected"), ("phase", "gpumech-gto")
COUNTS = tuple(name for name in Kernel.__dataclass_fields__ if name not in ("work", "phases"))


def along(axis, values, dtype=float):
    return np.asarray(values, dtype).reshape([-1 if name == axis else 1 for name in AXES])


@cache
def stacked(dtype):
    return gpus.stack([gpus.load(name, dtype).gpu for name in NAMES])


def made(dtype=np.float64, order=AXES, registers=REGISTERS):
    """Fields along `order`. Some launches cannot run.

    Kernel 0 has no memory accesses, kernel 2 nothing else; 1 and 3, the fastest, are the same.
    """
    rng = np.random.default_rng(1)
    gpu = jax.tree.map(lambda x: along("G", x, x.dtype), stacked(dtype))

    def per_kernel(low, high):
        values = rng.uniform(low, high, 5)
        values[3] = values[1]
        return along("K", values)

    c = along("C", [1, 2, 4])
    amount = c * along("K", [1, 0.2, 1, 0.2, 1])
    work = {name: per_kernel(1, 60) * amount for name in CLASSES}
    work |= {name: 0.0 * work[name] for name in TENSOR}
    fields: dict[str, Any] = {name: per_kernel(1, 20) * amount for name in COUNTS}
    fields |= {"ilp": per_kernel(1, 4), "mlp": per_kernel(1, 3)}
    fields["uncoal_insts"] = 0.5 * fields["load_insts"]
    memory = ("l1", "l2", "dram", "load_insts", "store_insts", "uncoal_insts", "sectors")
    for values in (work, fields):
        for name in values.keys() - {"ilp", "mlp", "bytes_per_access", "transactions_per_uncoal"}:
            values[name] = values[name] * along("K", np.arange(5) != (0 if name in memory else 2))
    kernel = Kernel(
        work=PerClass(**{name: x.astype(dtype) for name, x in work.items()}),
        **{name: x.astype(dtype) for name, x in fields.items()},
    )
    threads = along("B", [32, 96, 100, 256, 512, 1024, 1500], int)
    resources = Resources(
        threads=threads,
        blocks=-(-200_000 // (threads * c.astype(int))),
        registers=along("R", registers, int),
        shared_bytes=16 * threads,
        static_shared_bytes=16 * threads,
    )
    axes = [AXES.index(name) for name in order]
    return jax.tree.map(lambda x: np.asarray(x).transpose(axes), (gpu, kernel, resources))


def one_of(fields, **chosen):
    """The grid at one position along some of its axes."""

    def take(x):
        for axis, name in enumerate(AXES):
            if name in chosen and x.shape[axis] > 1:
                x = x.take([chosen[name]], axis)
        return x

    return jax.tree.map(take, fields)


def plain(model, fields):
    """Seconds of every configuration in flat order, infinite for those that cannot run."""
    shape = np.broadcast_shapes(*(x.shape for x in jax.tree.leaves(fields)))
    count = math.prod(shape)
    padded = -(-count // 4096) * 4096  # so that grids of few sizes are compiled
    flat = jax.tree.map(lambda x: jnp.asarray(np.resize(np.broadcast_to(x, shape), padded)), fields)
    return np.asarray(seconds_of(model, *flat))[:count]


@partial(jax.jit, static_argnums=0)
def seconds_of(model, gpu, kernel, resources):
    launch, limiter = occupancy.launch(gpu, resources)
    return jnp.where(occupancy.possible(limiter), get(model).predict(gpu, kernel, launch).seconds, jnp.inf)


def fastest(model, fields, k, **options):
    """Seconds and indices of the k fastest of the only group."""
    (seconds,), (index,) = fastest_of_grid((model,), *fields, k=k, **options)[model]
    return seconds, index


def check(fastest, model, fields, rtol=1e-12, some=True):
    """Against all evaluated plainly; with `some`, of which some can run and some cannot."""
    times, index = fastest
    seconds = plain(model, fields)
    ran = np.isfinite(seconds)
    best = sorted(np.flatnonzero(ran).tolist(), key=lambda i: (seconds[i], i))[: len(times)]
    assert 0 < ran.sum() < ran.size or not some
    np.testing.assert_allclose(times[: len(best)], seconds[best], rtol=rtol)
    np.testing.assert_array_equal(index[: len(best)], best)
    np.testing.assert_array_equal(times[len(best) :], np.inf)
    np.testing.assert_array_equal(index[len(best) :], -1)


@pytest.mark.quick("few")
@pytest.mark.parametrize(
    ("models", "dtype", "rtol"),
    [(OTHERS, float, 1e-12), (FEW, float, 1e-12), (FEW, np.float32, 2e-5)],
    ids=["others", "few", "single"],
)
def test_equals_evaluating_everything(models, dtype, rtol):
    fields = made(dtype)
    actual = fastest_of_grid(models, *fields, k=10)
    assert tuple(actual) == models
    for model, (seconds, index) in actual.items():
        assert seconds.dtype == dtype
        check((seconds[0], index[0]), model, fields, rtol)
    compiled = COMPILED._cache_size()
    gpu, kernel, resources = fields
    fewer = replace(resources, registers=resources.registers // 2, blocks=2 * resources.blocks)
    faster = eqx.tree_at(lambda g: g.clock, gpu, 2 * gpu.clock)
    other = faster, kernel, jax.tree.map(np.asarray, fewer)
    check(fastest(models[0], other, 10), models[0], other, rtol)
    assert COMPILED._cache_size() <= compiled + 1  # not for each of the lengths of rows


SMALL = Cuts(
    short_row=16, long_row=64, enough=8, loop=48, kernels=32, table=32, launches=8, lengths=(3, 5, 8)
)
TINY = Cuts(short_row=2, long_row=8, enough=1, loop=16, kernels=4, table=4, launches=3, lengths=(3, 5, 8))
SINGLE = Cuts(loop=16, kernels=16, table=16, launches=1, lengths=(3, 5, 8), most_tied=1)


@pytest.mark.slow
@pytest.mark.parametrize(("order", "cuts"), [("GKCBR", SMALL), ("BRCKG", TINY), ("KCRBG", SINGLE)])
def test_how_it_is_cut_does_not_matter(order, cuts):
    fields = made(order=order)
    check(fastest("roofline", fields, 40, cuts=cuts), "roofline", fields)


THREADS, REGISTERS = st.sampled_from([0, 32, 33, 64, 512, 1024, 1500]), st.sampled_from([8, 9, 40, 255, 300])


@pytest.mark.slow
@settings(max_examples=8)
@given(
    threads=st.lists(THREADS, min_size=6, max_size=6),
    registers=st.lists(REGISTERS, min_size=12, max_size=12),
    shared=st.lists(st.sampled_from([0, 1000, 1 << 20]), min_size=3, max_size=3),
    k=st.sampled_from([1, 7, 4000]),  # 2,592 configurations
)
def test_equals_evaluating_everything_of_any_launches(threads, registers, shared, k):
    # Repeats along the registers, ties between kernels 1 and 3, rows and positions where nothing can run.
    gpu, kernel, resources = made()
    resources = replace(
        resources,
        threads=along("B", threads, int),
        blocks=along("C", [3000, 2000, 1000], int),
        registers=along("R", registers, int),
        shared_bytes=along("C", shared, int),
        static_shared_bytes=along("C", shared, int),
    )
    fields = jax.tree.map(np.asarray, (gpu, kernel, resources))
    check(fastest("volkov", fields, k), "volkov", fields, some=False)


def special(name):
    """Fields out of the ordinary."""
    gpu, kernel, resources = made()
    match name:
        case "infinite":
            free = eqx.tree_at(lambda g: g.issue_limit, gpu, np.full_like(gpu.issue_limit, np.inf))
            return free, eqx.tree_at(lambda k: k.ilp, kernel, np.full_like(kernel.ilp, np.inf)), resources
        case "a last axis longer than a row":
            registers = np.linspace(255, 8, 20_011).astype(int)  # the fastest come last
            return one_of(made(registers=registers), G=1, C=0, K=2)
        case "registers that make no difference":
            return made(registers=(8, 9, 10, 11, 12))
        case "fewer that can run than are asked for":
            return one_of(made(), G=0, K=1, C=0)
        case "one GPU for all":
            return jax.tree.map(lambda x: x[:1, :1, :1, :1, :1], gpu), kernel, resources
    return made(registers=(1000, 2000))  # nothing can run


@pytest.mark.quick("fewer", "nothing", "registers", "infinite")
@pytest.mark.parametrize(
    "name",
    ["infinite", "a last axis longer than a row", "registers that make no difference",
     "fewer that can run than are asked for", "one GPU for all", "nothing can run"],
)  # fmt: skip
def test_equals_evaluating_everything_where_fields_are_special(name):
    fields = special(name)
    actual = fastest("volkov", fields, 40)
    check(actual, "volkov", fields, some=name != "nothing can run")
    assert len(np.unique(actual[0])) < 40 or name != "registers that make no difference"


@pytest.mark.parametrize("factor", [1e3, 0.0])
def test_a_launch_that_cannot_run_is_none_of_the_fastest_however_fast_or_slow_it_would_be(factor):
    gpu, kernel, resources = made(order="BRCKG")  # rows of GPUs, of which the last runs 512 threads at most
    clock = gpu.clock * np.where(np.arange(len(NAMES)) == 2, factor, 1.0)
    gpu = replace(gpu, clock=clock, launch_overhead=np.zeros_like(clock))
    if factor:
        resources = replace(resources, blocks=np.where(resources.threads > 512, 1, resources.blocks))
    else:  # it would take for ever
        resources = replace(resources, threads=np.maximum(resources.threads, 1024))
    fields = gpu, kernel, resources
    together = replace(TINY, launches=10_000, table=200, kernels=10_000)  # many short rows in one part
    check(fastest("roofline", fields, 1, cuts=together), "roofline", fields)


def test_infinite_seconds_are_no_nan():
    gpu, kernel, resources = made(order="BRCKG")  # rows in which some cannot run
    kernel = eqx.tree_at(lambda k: k.work.fp32, kernel, np.full_like(kernel.work.fp32, 1e308))
    gpu = eqx.tree_at(lambda g: g.cpi.fp32, gpu, np.full_like(gpu.cpi.fp32, 1e10))
    seconds, _ = fastest("roofline", (gpu, kernel, resources), 16)
    np.testing.assert_array_equal(seconds, np.inf)
    gpu, kernel, resources = made()
    broken = eqx.tree_at(lambda k: k.work.dram, kernel, np.full_like(kernel.work.dram, np.nan))
    with pytest.raises(ValueError, match=r"work\.dram: found NaN"):
        fastest("volkov", (gpu, broken, resources), 1)
    with pytest.raises(ValueError, match="no empty axis"):
        fastest("volkov", (gpu, kernel, jax.tree.map(lambda x: x[..., :0], resources)), 1)


@pytest.mark.slow
def test_products_that_a_gpu_lacks_cannot_run():
    gpu, kernel, resources = made()
    axis = AXES.index("K")
    some = np.arange(kernel.work.fp32.shape[axis]) % 2
    products = some.reshape([-1 if i == axis else 1 for i in range(len(AXES))]).astype(float)
    kernel = replace(kernel, work=replace(kernel.work, mma_fp8=products))  # none of these GPUs does them
    fields = gpu, kernel, resources
    shape = np.broadcast_shapes(*(x.shape for x in jax.tree.leaves(fields)))
    seconds, index = fastest("roofline", fields, math.prod(shape))
    can_run = np.isfinite(seconds)
    assert 0 < can_run.sum() < can_run.size
    assert not some[np.unravel_index(index[can_run], shape)[axis]].any()


@pytest.mark.slow
@pytest.mark.parametrize(("order", "groups"), [("KGCBR", 2), ("BRGCK", 1)])
def test_each_group_is_a_grid_of_its_own(order, groups):
    fields = made(order=order)
    cuts = Cuts(short_row=16)
    actual = fastest_of_grid(("volkov",), *fields, k=12, groups=groups, cuts=cuts)["volkov"]
    shape = np.broadcast_shapes(*(x.shape for x in jax.tree.leaves(fields)))
    for seconds, index, at in zip(*actual, np.ndindex(*shape[:groups]), strict=True):
        check((seconds, index), "volkov", one_of_axes(fields, at), some=False)


def one_of_axes(fields, at):
    """The grid at one position along its first axes, without them."""

    def take(x):
        return x[tuple(i if size > 1 else 0 for i, size in zip(at, x.shape, strict=False))]

    return jax.tree.map(take, fields)
