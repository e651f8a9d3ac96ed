"""Which GPU fields are fitted, how they move, and how well the catalogue knows them."""

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from dse.errors import DseError
from dse.explore.fit.parameters import (
    ALL_NAMES,
    CLOCK_WIDTH,
    NAMES,
    TENSOR_NAMES,
    WIDTHS,
    check,
    moved,
    names_for,
    values,
    widths,
)
from dse.hardware import gpus
from dse.types import CLASSES, TENSOR, Kernel, PerClass


@pytest.fixture(scope="module")
def file():
    return gpus.load("a100-pcie-40gb", np.float64)


def test_moved(file):
    names = ("clock", "cpi.l2", "latency.dram", "lsu_cycles")
    logs = np.array([0.1, -0.5, 0.0, 2.0])
    new = moved(file.gpu, names, jnp.asarray(logs))
    for name, old, now, log in zip(names, values(file.gpu, names), values(new, names), logs, strict=True):
        np.testing.assert_allclose(now, old * np.exp(log), rtol=1e-14, err_msg=name)
    others = [name for name in NAMES if name not in names]
    assert values(new, others) == values(file.gpu, others)
    assert new.dram_bandwidth == file.gpu.dram_bandwidth
    zero = replace(gpus.load("a100-pcie-40gb").gpu, lsu_cycles=jnp.float32(0.0))
    still = moved(zero, ("lsu_cycles", "clock"), jnp.asarray([5.0, 0.1]))
    assert (still.lsu_cycles, still.clock.dtype) == (0, jnp.float32)
    assert len(set(NAMES)) == len(NAMES) == 3 + 2 * 10


def test_widths_by_provenance(file):
    known = {record.field: record.provenance for record in file.fields}
    actual = dict(zip(NAMES, widths(file), strict=True))
    assert actual.pop("clock") == CLOCK_WIDTH
    assert len({known[name] for name in actual}) > 1
    for name, width in actual.items():
        assert width == WIDTHS[known[name]]


def test_tensor_cores_are_fitted_to_kernels_that_use_them():
    def kernel(**work):
        counts: Any = dict.fromkeys(set(Kernel.__dataclass_fields__) - {"work", "phases"}, np.ones(2))
        zeros = dict.fromkeys(CLASSES, np.zeros(2))
        return Kernel(work=PerClass(**(zeros | work)), **counts)

    assert names_for([kernel(fp32=np.ones(2))]) == NAMES
    actual = names_for([kernel(), kernel(mma_fp8=np.array([0.0, 3.0]), mma_warp=np.ones(2))])
    fields = {f"{group}.{name}" for group in ("cpi", "latency") for name in ("mma_fp8", "mma_warp")}
    assert actual[: len(NAMES)] == NAMES
    assert set(actual[len(NAMES) :]) == fields


@pytest.mark.parametrize("name", ["a100-pcie-40gb", "gtx-1060", "mi250x"])
def test_fields_that_a_file_lacks_have_a_width_and_stay_absent(name):
    file = gpus.load(name)
    assert len(TENSOR_NAMES) == 2 * len(TENSOR)
    assert (widths(file, ALL_NAMES) > 0).all()
    new = moved(file.gpu, ("cpi.mma_fp8",), jnp.asarray([-1.0]))
    assert float(new.cpi.mma_fp8) > 1e29


def test_check():
    check(ALL_NAMES)
    with pytest.raises(DseError, match="free: found 'clock' twice"):
        check(["clock", "clock"])
