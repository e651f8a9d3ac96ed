"""Phases of described kernels: the work of all is the kernel's, and one phase is what no phase is."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dse import kernels
from dse.hardware import gpus, occupancy
from dse.kernels.description import PhaseExpressions, describe
from dse.kernels.phases import phase_of
from dse.models import phase as model
from dse.models.volkov import latency_of_one_warp
from dse.types import CLASSES

SHAPES = {
    "block_size_x": [16, 32, 48, 128],
    "block_size_y": [8, 1, 4, 2],
    "tile_size_x": [1, 2, 3, 1],
    "tile_size_y": [4, 1, 2, 4],
}
SHARED = {"read_only": 0, "use_padding": 0, "use_shmem": 1, "use_cmem": 1}
SHARED |= {"filter_height": 15, "filter_width": 15}


def load(name):
    """A GPU whose numbers have 64 bits."""
    return jax.tree.map(lambda x: jnp.asarray(x, float) if x.dtype.kind == "f" else x, gpus.load(name).gpu)


def counted(description, gpu, **fixed):
    parameters = {name: np.array(values) for name, values in SHAPES.items()}
    parameters |= {name: np.full(4, value) for name, value in (SHARED | fixed).items()}
    return describe(description, parameters, dict(description.problem), gpu)


def seconds(gpu, kernel, resources):
    on_all = jax.tree.map(lambda x: jnp.broadcast_to(jnp.asarray(x), (4,)), (kernel, resources))
    launch, _ = occupancy.launch(gpu, on_all[1], on_all[0].work)
    return model.predict(gpu, on_all[0], launch).seconds


@pytest.mark.parametrize("gpu", ["a100", "mi250x"])
@pytest.mark.parametrize("fixed", [{}, {"use_shmem": 0}])
def test_the_work_of_all_phases_is_that_of_the_kernel(gpu: str, fixed: dict[str, int]):
    kernel, _ = counted(kernels.load("convolution"), load(gpu), **fixed)
    assert len(kernel.phases) == 2
    for name in CLASSES:
        parts = sum(np.broadcast_to(getattr(phase.work, name), 4) for phase in kernel.phases)
        np.testing.assert_allclose(parts, np.broadcast_to(getattr(kernel.work, name), 4), rtol=1e-12)
    parts = sum(np.broadcast_to(phase.insts, 4) for phase in kernel.phases)
    np.testing.assert_allclose(parts, np.broadcast_to(kernel.insts, 4), rtol=1e-12)
    copy, sums = kernel.phases
    assert np.all(copy.work.fp32 == 0)
    assert np.all(sums.work.barrier == 0)


@pytest.mark.parametrize("gpu", ["a100", "rtx-2080-ti", "mi250x"])
def test_a_phase_alone_takes_a_warp_as_long_as_a_kernel_does(gpu: str):
    file = load(gpu)
    kernel, _ = counted(kernels.load("convolution"), file)
    whole = replace(kernel, phases=())
    actual = model.latency(file, phase_of(file, whole))
    np.testing.assert_allclose(actual, latency_of_one_warp(file, whole), rtol=1e-6)


@pytest.mark.slow
def test_one_phase_is_as_none():
    file, description = load("a100"), kernels.load("convolution")
    none = replace(description, phases=())
    accesses = tuple(replace(access, phase="") for access in description.accesses)
    single = replace(description, phases=(PhaseExpressions("all", ()),), accesses=accesses)
    expected = seconds(file, *counted(none, file))
    np.testing.assert_allclose(seconds(file, *counted(single, file)), expected, rtol=1e-5)
    assert np.all(seconds(file, *counted(description, file)) > expected)  # that wait while others compute


def test_a_count_of_a_phase_may_be_whether_something_holds(own_toy_kernel):
    text = own_toy_kernel.read_text().replace('int32 = "8 + items"', 'int32 = "items > 1"')
    phases = '[[phase]]\nname = "copy"\nint32 = "items > 2"\n[[phase]]\nname = "sums"\n'
    own_toy_kernel.write_text(f"{text}\n{phases}")
    parameters = {"block": np.array([64, 64]), "items": np.array([2, 4])}
    kernel, _ = describe(kernels.load(own_toy_kernel), parameters, {"n": 4096}, load("a100"))
    assert [phase.work.int32.tolist() for phase in kernel.phases] == [[0, 1], [1, 0]]
