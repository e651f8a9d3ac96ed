"""Whatever is predicted of the package's kernels: finite or impossible, and never below what pipes need."""

from dataclasses import replace
from math import prod

import jax
import numpy as np
import pytest

from dse import kernels, models
from dse.evaluate.chunks import evaluate, evaluate_counted
from dse.explore.tune.candidates import of_kernel
from dse.hardware import gpus
from dse.kernels.description import evaluated_names
from dse.source import readers
from dse.source.kernel import SourceKernel
from dse.types import CLASSES

FILES = [gpus.load(name) for name in ("a100-pcie-40gb", "gtx-280", "mi250x")]
DESCRIBED = [name for name in kernels.names() if kernels.load(name).described]
SOURCES = {name: source for name in kernels.names() if (source := kernels.load(name).source) is not None}
# GPUs, and configurations of each: a compiler for AMD takes longer
READ_FOR = {".cu": {"a100-pcie-40gb": 2, "mi250x": 1}, ".py": {"h100-sxm": 2, "mi300x": 1}}
PRODUCT = {"M": 1024, "N": 1024, "K": 1024}
SMALL = {  # where the usual sizes take seconds
    "triton_attention": {"heads": 8, "length": 512},
    "triton_moe": {"token_count": 512, "N": 1024, "K": 1024},
    "triton_matmul": PRODUCT,
    "triton_matmul_tma": PRODUCT,
    "gemm": {"m": 1024, "n": 1024, "k": 1024},
    "dedispersion": {"samples": 5000, "dms": 256, "channels": 64},
    "histogram": {"count": 1 << 20},
    "matmul_tiled": {"m": 512, "n": 512, "k": 512},
    "nbody": {"count": 8192},
    "spmv_csr": {"rows": 65536},
}
FEW_OUTPUTS = {"tile_size_x": (1, 2), "tile_size_y": (1, 2)}  # of a thread: of 32, they compile for seconds
FEW = 8  # configurations
BOUNDED = [name for name in models.CLOSED_FORMS if models.module(name).ABOUT.bounded]


def some(kernel, count):
    """A few configurations from all over a kernel's space."""
    every = kernel.space.configurations(kernel.sizes())
    last = len(next(iter(every.values()))) - 1
    places = np.unique(np.linspace(0, last, count).astype(int))
    return {name: values[places] for name, values in every.items()}


def expect_bounded(evaluation, names, stacked):
    bound = evaluation.forecasts["roofline"].seconds
    runs = np.isfinite(bound)
    assert (bound[runs] > 0).all()
    # The roofline of the busiest SM; of DRAM and L2, others that have fewer blocks leave it more.
    blocks, sms = evaluation.resources["blocks"], np.asarray(stacked.sm_count).reshape(-1, 1)
    bound = np.where(runs, bound, 0.0) * blocks / (np.ceil(np.maximum(blocks, 1) / sms) * sms)
    for name in names:
        seconds = evaluation.forecasts[name].seconds
        assert not np.isnan(seconds).any()
        np.testing.assert_array_equal(np.isfinite(seconds), runs, err_msg=name)
        if models.module(name).ABOUT.bounded:
            assert (seconds[runs] >= bound[runs] * (1 - 1e-5)).all(), name  # in single precision


def expect_sums(kernel, slots=(1.0, 1.0)):
    """The work and the accesses of all phases are those of the whole.

    So are the instructions, within the bounds of `slots` that one takes: AMD's cores issue several kinds at a
    time, NVIDIA's none while one reads registers.
    """
    kernel = jax.tree.map(lambda x: np.asarray(x, float), kernel)
    wholes = {name: getattr(kernel.work, name) for name in CLASSES}
    wholes |= {"memory_insts": kernel.mem_insts + kernel.shared_insts, "insts": kernel.insts}
    for name, of_whole in wholes.items():
        whole = np.asarray(of_whole)
        parts = sum(
            np.asarray(phase.passes * getattr(phase.work if name in CLASSES else phase, name))
            for phase in kernel.phases
        )
        if name == "insts":
            low, high = slots
            whole = np.clip(parts, low * whole, high * whole)
        np.testing.assert_allclose(np.broadcast_to(parts, whole.shape), whole, rtol=1e-5, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("name", DESCRIBED)
def test_times_of_described_kernels(name):
    kernel = kernels.load(name)
    stacked, parameters = gpus.stack([file.gpu for file in FILES]), some(kernel, FEW)
    counted = kernel.count(parameters, stacked, kernel.sizes()).batch
    count, registered = len(next(iter(parameters.values()))), models.get_all(models.CLOSED_FORMS)
    evaluation = evaluate_counted(counted, count, name, registered, stacked, sizes=(FEW,))
    expect_bounded(evaluation, models.CLOSED_FORMS, stacked)
    whole = counted.take(np.arange(count)).kernel
    if whole.phases:
        expect_sums(whole)


@pytest.mark.slow
@pytest.mark.parametrize("name", DESCRIBED)
def test_slopes_of_described_kernels(name):
    kernel = kernels.load(name)
    for file in FILES:
        assert np.isfinite(of_kernel(kernel, file, models.DEFAULT, some(kernel, FEW)).slopes).all()


def expect_launches_as_described(made, described, parameters, gpu, sizes):
    """The bytes that all blocks store, by kind; nothing is unknown or spilled."""
    counts, names = made.counts, evaluated_names(described, parameters, sizes, gpu)
    assert (counts.unknown, made.spill_bytes) == ((), 0)
    assert made.shared_bytes == np.ravel(names["shared_bytes"])[0]
    assert prod(counts.block) == np.ravel(names["threads"])[0]
    stored = {kind: counts.total(kind, "bytes") for kind in ("global store", "global atomic")}
    assert min(counts.total("global load", "requests"), sum(stored.values())) > 0
    return {kind: size * counts.blocks for kind, size in stored.items()}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::dse.errors.InputWarning")  # counts of a few blocks may be unsure
@pytest.mark.parametrize("name", SOURCES)
def test_kernels_from_source_on_gpus_of_both_vendors(name):
    kernel, described, stored = readers.kernel(name, source=True), kernels.load(name), []
    assert isinstance(kernel, SourceKernel)
    values = {key: few for key, few in FEW_OUTPUTS.items() if key in described.space.values}
    described = replace(described, space=described.space.with_values(values))
    sizes = described.sizes(**SMALL.get(name, {}))
    for card, count in READ_FOR[SOURCES[name].suffix].items():
        gpu, parameters = gpus.load(card).gpu, some(described, count)
        counted = kernel.count(parameters, stacked := gpus.stack([gpu]), sizes)
        read = [i for i in range(count) if i not in counted.failures]
        assert read
        slots = (0.1, 1.0) if card.startswith("mi") else (1.0, 3.0)
        expect_sums(counted.batch.take(np.array(read)).kernel, slots)
        expect_bounded(evaluate(kernel, BOUNDED, stacked, parameters, sizes), BOUNDED, stacked)
        if described.described:
            first = kernel.read(parameters, gpu, sizes)[0]  # kept
            stored.append(expect_launches_as_described(first, described, parameters, gpu, sizes))
    assert not stored or stored[0] == pytest.approx(stored[1], rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("name", DESCRIBED)
def test_simulated_times_of_described_kernels(name):
    kernel, names, stacked = kernels.load(name), ("roofline", "pipeline"), gpus.stack([FILES[0].gpu])
    expect_bounded(evaluate(kernel, names, stacked, some(kernel, 2)), names, stacked)
