"""The two-subsystem notation where models' references do not reach."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from points import build, point

from dse.hardware.memory import shared_latency
from dse.models.notation import two_pipes


@pytest.mark.parametrize(("passes", "cycles"), [(10, 30), (5, 30), (20, 34), (160, 90)])
def test_bank_conflicts_add_a_pass_each(passes, cycles):
    # Ten accesses of latency 30 and λ 4; an access cannot take less than one pass.
    gpu, kernel, _ = build(point(shared_insts=10.0, work_shared=passes, latency_shared=30.0, cpi_shared=4.0))
    assert float(shared_latency(gpu, kernel)) == cycles


def test_without_instructions_everything_is_zero_and_its_gradient_finite():
    gpu, kernel, _ = build(point(cpi_fp32=1.0, latency_fp32=4.0, issue_limit=2.0))

    def total(kernel):
        return sum(jnp.sum(x) for x in eqx.filter(vars(two_pipes(gpu, kernel)), eqx.is_array).values())

    value, gradient = eqx.filter_value_and_grad(total)(kernel)
    assert float(value) == 0
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
