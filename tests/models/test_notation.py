"""The two-subsystem notation, against its definition in plain Python."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from points import build, equals_reference, lumped, point

from dse.hardware.memory import shared_latency
from dse.models.notation import comp_busy, comp_latencies, comp_latency, two_pipes, waits


def test_equals_the_definition():
    def found(gpu, kernel, launch):
        pipes = two_pipes(gpu, kernel)
        return vars(pipes) | {
            "comp_per_mem": pipes.comp_per_mem,
            "comp_busy": comp_busy(gpu, kernel),
            "comp_latencies": comp_latencies(gpu, kernel),
            "comp_latency": comp_latency(gpu, kernel),
            "waits": waits(kernel),
        }

    def reference(p):
        q = lumped(p)
        case = "memory" if q.a_mem else "no memory"
        return case if q.a_comp else f"{case}, no computation", {
            "comp_insts": q.a_comp,
            "comp_cpi": q.l_comp,
            "mem_insts": q.a_mem,
            "mem_cpi": q.l_mem,
            "mem_latency": q.L_mem,
            "comp_per_mem": q.ci,
            "comp_busy": q.busy_comp,
            "comp_latencies": q.wait_comp,
            "comp_latency": q.L_comp,
            "waits": q.waits,
        }

    cases = {"memory", "no memory", "memory, no computation", "no memory, no computation"}
    equals_reference(found, reference, cases)


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
