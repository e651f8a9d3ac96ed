"""The nouns: what their fields take, and how a prediction is made of terms."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from dse.types import CLASSES, Gpu, Kernel, Launch, Limits, PerClass, Prediction, Resources

NOUNS = (PerClass, Limits, Gpu, Kernel, Resources, Launch)


def per_class(**given):
    return PerClass(**(dict.fromkeys(CLASSES, 0.0) | given))


def launch(**given):
    return Launch(**(dict.fromkeys(Launch.__dataclass_fields__, 1.0) | given))


def kernel(**given):
    names = [name for name in Kernel.__dataclass_fields__ if name not in ("work", "phases")]
    fields: dict[str, Any] = {**dict.fromkeys(names, 1.0), "work": per_class(), **given}
    return Kernel(**fields)


def gpu(**given):
    names = set(Gpu.__dataclass_fields__) - {"cpi", "latency", "limits"}
    limits = Limits(**dict.fromkeys(Limits.__dataclass_fields__, 1))
    tables = {"cpi": per_class(), "latency": per_class(), "limits": limits}
    fields: dict[str, Any] = {**dict.fromkeys(names, 1.0), **tables, **given}
    return Gpu(**fields)


def test_every_field_has_a_unit():
    for noun in NOUNS:
        for name, field in noun.__dataclass_fields__.items():
            assert field.metadata.get("unit") or name in ("limits", "work"), f"{noun.__name__}.{name}"


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (True, np.float64),
        (np.arange(3), np.float64),
        (np.float32(3), np.float32),
        (jnp.zeros(3, jnp.float32), np.float32),
        (jnp.zeros(3, jnp.bfloat16), jnp.bfloat16),
    ],
)
def test_a_quantity_keeps_its_precision(value, dtype):
    waves = launch(waves=value).waves
    assert (waves.dtype, waves.weak_type) == (dtype, False)
    np.testing.assert_array_equal(waves, np.asarray(value, np.float64).astype(dtype))


@pytest.mark.parametrize("given", [3, 3.0, np.int64(3), np.array([3, 4]), jnp.arange(2, dtype=jnp.int64)])
def test_a_count_is_a_32_bit_integer(given):
    actual = Resources(threads=given, blocks=1, registers=1, shared_bytes=0).threads
    assert actual.dtype == np.int32
    np.testing.assert_array_equal(actual, given)


def test_fields_broadcast():
    assert launch(waves=np.ones((2, 1)), blocks=np.ones((1, 3))).warps_per_sm.shape == ()
    wide = launch(warps_per_block=np.full((2, 1), 3.0), resident_blocks=np.full((1, 3), 4.0))
    np.testing.assert_array_equal(wide.warps_per_sm, np.full((2, 3), 12.0))
    cpi = per_class(fp32=np.ones((2, 1)), dram=np.ones((1, 3)))
    assert (cpi.fp32.shape, cpi.dram.shape, cpi.sfu.shape) == ((2, 1), (1, 3), ())
    assert gpu(cpi=cpi, clock=np.ones((2, 3))).cpi.fp32.shape == (2, 1)


@pytest.mark.parametrize(
    ("make", "noun", "fields"),
    [
        (lambda: launch(waves=np.ones(2), blocks=np.ones(3)), "Launch", ["waves (2,)", "blocks (3,)"]),
        (lambda: per_class(sfu=np.ones(2), l1=np.ones(3)), "PerClass", ["sfu (2,)", "l1 (3,)"]),
        (lambda: gpu(cpi=per_class(fp32=np.ones(2)), clock=np.ones(3)), "Gpu", ["(2,)", "clock (3,)"]),
    ],
)
def test_fields_that_do_not_broadcast_are_named(make, noun, fields):
    with pytest.raises(ValueError, match=f"^{noun}: fields do not broadcast: ") as raised:
        make()
    message = str(raised.value)
    assert all(field in message for field in fields)
    assert "threads_per_block" not in message  # scalars clash with nothing


def test_instruction_counts():
    work = per_class(fp32=1.0, fp64=2.0, int32=4.0, imul32=8.0, sfu=16.0, shared=1e3, l1=1e4, barrier=32.0)
    single = kernel(work=work, shared_insts=64.0, other_insts=512.0, load_insts=128.0, store_insts=256.0)
    assert float(single.comp_insts) == 31 + 64 + 512  # accesses of shared memory, not their passes
    assert float(single.mem_insts) == 128 + 256
    assert float(single.insts) == 31 + 64 + 512 + 128 + 256 + 32


CLOCK = jnp.float64(1e9)


def test_the_largest_bound_takes_all():
    times = jnp.array([1.0, 10.0, 0.5, 1.0])
    a, b, c = jnp.array([[1.0, 5.0, 2.0, 0.0], [3.0, 5.0, 2.0, 0.0], [2.0, 4.0, 2.0, 0.0]])
    p = Prediction.largest(CLOCK, times, a=a, b=b, c=c)
    np.testing.assert_array_equal(p.cycles, [3, 50, 1, 0])
    np.testing.assert_allclose(p.seconds, [3e-9, 50e-9, 1e-9, 0], rtol=1e-15)
    # of equal ones the first
    terms = {"a": [0, 50, 1, 0], "b": [3, 0, 0, 0], "c": [0, 0, 0, 0]}
    assert {name: x.tolist() for name, x in p.terms.items()} == terms
    assert p.bottleneck.tolist() == [1, 0, 0, 0]
    assert p.details == {}
