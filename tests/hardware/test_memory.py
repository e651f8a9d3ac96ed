"""Division by what may be zero; tests of the models hold λ and Λ of an access against plain Python."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from points import build, point

from dse.hardware.memory import safe_divide, shared_latency


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


@pytest.mark.parametrize(("passes", "cycles"), [(10, 30), (5, 30), (20, 34), (160, 90)])
def test_bank_conflicts_add_a_pass_each(passes, cycles):
    # Ten accesses of latency 30 and λ 4; an access cannot take less than one pass.
    gpu, kernel, _ = build(point(shared_insts=10.0, work_shared=passes, latency_shared=30.0, cpi_shared=4.0))
    assert float(shared_latency(gpu, kernel)) == cycles
