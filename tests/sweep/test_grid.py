"""Reductions over a dense grid, against the same models evaluated on all of it at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dse import occupancy
from dse.data import gpus
from dse.models import predictor
from dse.sweep.grid import reduce_grid
from dse.types import CLASSES, Kernel, PerClass, Resources

MODELS = ("volkov", "mwp-cwp", "mwp-cwp-corrected", "wfg-corrected")
NAMES = ("gtx-280", "a100", "mi250x")


def made(dtype, kernels=5, blocks=9, registers=7):
    """GPUs on axis 0, kernels on 1, block sizes on 2, registers on 3; some launches cannot run."""
    files = gpus.stack([gpus.load(name, dtype).gpu for name in NAMES])
    k = np.arange(kernels)[:, None, None]
    work = dict.fromkeys(CLASSES, np.zeros_like(k)) | {
        "fp32": 10 + 30 * k,
        "int32": 8 + k,
        "shared": 6 * k,
        "l1": 2 + k,
        "l2": 8 + 4 * k,
        "dram": 4 + 2 * k,
        "barrier": k % 3,
    }
    fields = {
        "shared_insts": 5 * k,
        "load_insts": 2 + k,
        "store_insts": 1 + 0 * k,
        "uncoal_insts": k % 2,
        "transactions_per_uncoal": 4 + 0 * k,
        "sectors": 10 + 5 * k,
        "bytes_per_access": 128 + 0 * k,
        "ilp": 1 + k / 4,
        "mlp": 1 + k / 3,
    }
    threads = (32 * 2 ** np.arange(blocks))[:, None]  # beyond 1,024 at the end
    with jax.enable_x64(True):
        gpu = jax.tree.map(lambda x: x.reshape(-1, 1, 1, 1), files)
        kernel = Kernel(
            work=PerClass(**{name: jnp.asarray(x, dtype)[None] for name, x in work.items()}),
            **{name: jnp.asarray(x, dtype)[None] for name, x in fields.items()},
        )
        resources = Resources(
            threads=threads[None, None],
            blocks=np.maximum(1, 2**22 // threads)[None, None],
            registers=np.linspace(16, 250, registers).astype(int)[None, None, None],
            shared_bytes=np.zeros((1, 1, 1, 1), int),
        )
    return gpu, kernel, resources


def plain(model, gpu, kernel, resources):
    """Seconds of the whole grid; infinite where a launch cannot run."""
    launch, limiter = occupancy.launch(gpu, resources)
    seconds = predictor(model)(gpu, kernel, launch).seconds
    shape = np.broadcast_shapes(seconds.shape, limiter.shape)
    return np.where(occupancy.possible(limiter), np.broadcast_to(seconds, shape), np.inf)


def check(summary, seconds, k, rtol):
    flat = seconds.ravel()
    ran = np.isfinite(flat)
    assert summary.shape == seconds.shape
    assert summary.count == ran.sum()
    np.testing.assert_allclose(summary.total, flat[ran].sum(dtype=np.float64), rtol=10 * rtol)
    order = np.argsort(flat, kind="stable")[:k]
    np.testing.assert_allclose(summary.seconds, flat[order], rtol=rtol)
    np.testing.assert_allclose(flat[summary.index], flat[order], rtol=rtol)
    assert len(set(summary.index.tolist())) == k
    again = tuple(axis[0] for axis in summary.coordinates())
    assert np.ravel_multi_index(again, summary.shape) == summary.index[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equals_evaluating_everything(dtype):
    fields = made(dtype)
    found = reduce_grid(MODELS, *fields, k=12)
    assert tuple(found) == MODELS
    for model in MODELS:
        seconds = plain(model, *fields)
        assert np.isinf(seconds).any()
        check(found[model], seconds, 12, 2e-5 if dtype == np.float32 else 1e-12)


def test_a_last_axis_longer_than_a_chunk():
    fields = made(np.float64, kernels=3, blocks=2, registers=70_001)
    found = reduce_grid(("volkov",), *fields, k=5)
    check(found["volkov"], plain("volkov", *fields), 5, 1e-12)


def test_equal_times_go_to_the_lower_index():
    gpu, kernel, resources = made(np.float64)
    same = jax.tree.map(lambda x: jnp.broadcast_to(x[:, :1], x.shape), kernel)  # all kernels alike
    found = reduce_grid(("roofline",), gpu, same, resources, k=9)["roofline"]
    flat = plain("roofline", gpu, same, resources).ravel()
    order = np.argsort(flat, kind="stable")[:9]
    np.testing.assert_allclose(found.seconds, flat[order], rtol=1e-12)
    for time in np.unique(found.seconds):
        index = found.index[found.seconds == time]
        assert index.tolist() == sorted(index.tolist())


def test_fewer_can_run_than_are_asked_for():
    gpu, kernel, resources = made(np.float64, kernels=1, blocks=7, registers=1)
    from dataclasses import fields

    values = {field.name: getattr(resources, field.name) for field in fields(resources)}
    few = Resources(**values | {"threads": np.where(values["threads"] == 64, 64, 4096)})
    found = reduce_grid(("volkov",), gpu, kernel, few, k=8)["volkov"]
    assert found.count == len(NAMES)
    assert np.isinf(found.seconds[found.count :]).all()
    assert (found.index[found.count :] == -1).all()
    none = Resources(**values | {"threads": np.full_like(values["threads"], 4096)})
    nothing = reduce_grid(("volkov",), gpu, kernel, none, k=3)["volkov"]
    assert (nothing.count, nothing.minimum) == (0, np.inf)
    assert np.isnan(nothing.mean)
