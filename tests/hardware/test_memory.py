"""λ and Λ of a global access, against a weighing of the levels in plain Python."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dse.hardware.memory import access_cpi, access_latency, safe_divide, served
from dse.types import CLASSES, Gpu, Kernel, Limits, PerClass


def per_class(**given):
    return PerClass(**(dict.fromkeys(CLASSES, 0.0) | given))


def gpu(cpi=(1.0, 2.0, 4.0), latency=(30.0, 200.0, 500.0)):
    names = set(Gpu.__dataclass_fields__) - {"cpi", "latency", "limits"}
    levels = ("l1", "l2", "dram")
    return Gpu(
        **dict.fromkeys(names, 1.0),
        cpi=per_class(**dict(zip(levels, cpi, strict=True))),
        latency=per_class(**dict(zip(levels, latency, strict=True))),
        limits=Limits(**dict.fromkeys(Limits.__dataclass_fields__, 1)),
    )


def kernel(sectors, l2, dram, l1=0.0, loads=1.0, stores=0.0):
    names = [name for name in Kernel.__dataclass_fields__ if name not in ("work", "phases")]
    given: dict[str, Any] = dict.fromkeys(names, 1.0) | {
        "sectors": sectors,
        "load_insts": loads,
        "store_insts": stores,
    }
    return Kernel(work=per_class(l1=l1, l2=l2, dram=dram), **given)


def test_safe_divide():
    a, b = jnp.array([1.0, 1.0, 0.0, -3.0]), jnp.array([2.0, 0.0, 0.0, 4.0])
    np.testing.assert_array_equal(safe_divide(a, b), [0.5, 0, 0, -0.75])
    np.testing.assert_array_equal(safe_divide(a, b, jnp.inf), [0.5, np.inf, np.inf, -0.75])
    assert safe_divide(jnp.ones((2, 1)), jnp.zeros((1, 3)), 7.0).tolist() == [[7.0] * 3] * 2
    assert safe_divide(jnp.float32(1), jnp.float32(0), jnp.inf).dtype == np.float32


@pytest.mark.parametrize("default", [0.0, jnp.inf])
def test_the_gradient_of_a_safe_division_is_finite(default):
    def total(a, b):
        quotient = safe_divide(a, b, default)
        return jnp.where(jnp.isfinite(quotient), quotient, 0.0).sum()

    a, b = jnp.array([1.0, 6.0]), jnp.array([0.0, 2.0])
    by_a, by_b = jax.grad(total, (0, 1))(a, b)
    np.testing.assert_array_equal(by_a, [0, 1 / 2])
    np.testing.assert_array_equal(by_b, [0, -6 / 4])


def test_shares_that_pass_each_cache_add_up_to_one_access():
    random = np.random.default_rng(0)
    sectors, l2, dram = 10 ** random.uniform(0, 3, (3, 1000))
    l2[:100], dram[:50], sectors[200:250] = 0.0, 0.0, 0.0  # all in the L1, none past the L2, no access
    past_l1, past_l2 = map(np.asarray, served(kernel(sectors, l2, dram)))
    expected = []
    for touched, to_l2, to_dram, *found in zip(sectors, l2, dram, past_l1, past_l2, strict=True):
        share_l2 = min(to_l2 / touched, 1) if touched else 0  # whole lines may be fetched for a part of them
        share_dram = min(to_dram / touched, share_l2) if touched else 0  # what passes the L2 passed the L1
        assert found == pytest.approx([share_l2, share_dram], rel=1e-15)
        expected.append(30 * (1 - share_l2) + 200 * (share_l2 - share_dram) + 500 * share_dram)
    np.testing.assert_allclose(access_latency(gpu(), kernel(sectors, l2, dram)), expected, rtol=1e-12)
    # Lemeire et al., Sec. 6.3, for one cache: q Λ_D + (1 − q) Λ_L2
    assert float(access_latency(gpu(), kernel(8.0, 8.0, 2.0))) == 0.25 * 500 + 0.75 * 200


@pytest.mark.parametrize(
    ("l1", "l2", "dram", "busiest"),
    [(90.0, 20.0, 20.0, 90 * 1), (10.0, 50.0, 20.0, 50 * 2), (10.0, 50.0, 40.0, 40 * 4)],
)
def test_the_busiest_level_sets_the_pace(l1, l2, dram, busiest):
    found = access_cpi(gpu(), kernel(100.0, l2, dram, l1=l1, loads=3.0, stores=2.0))
    assert float(found) == busiest / 5  # of loads and stores


def test_without_an_access():
    nothing = kernel(0.0, 0.0, 0.0, loads=0.0)
    assert float(access_cpi(gpu(), nothing)) == 0
    assert float(access_latency(gpu(), nothing)) == 30

    def both(kernel):
        return access_cpi(gpu(), kernel) + access_latency(gpu(), kernel)

    assert all(jnp.isfinite(leaf) for leaf in jax.tree.leaves(jax.grad(both)(nothing)))
