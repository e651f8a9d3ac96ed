"""Kothapalli et al., against the paper's case studies."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from points import build, point

from dse.hardware import gpus
from dse.models import kothapalli, kothapalli_max, kothapalli_sum


def test_on_the_papers_gpu_a_thread_costs_what_the_paper_says():
    # 27 additions and 5 multiplications of integers; of 6 accesses 4 coalesce; 3 of shared memory, 2 conflict
    gpu = gpus.load("gtx-280", np.float64).gpu
    work = {"work_int32": 27.0, "work_imul32": 5.0, "work_l2": 6.0, "work_dram": 6.0, "work_shared": 5.0}
    accesses = {"load_insts": 6.0, "uncoal_insts": 2.0, "sectors": 6.0, "shared_insts": 3.0}
    _, kernel, launch = build(point(**work, **accesses, warps_per_block=8.0, resident_blocks=3.0, waves=2.5))
    latency = float(gpu.latency.dram)
    comp = 27 * kothapalli.INT_ADD + 5 * kothapalli.INT_MULTIPLY
    mem = 4 * kothapalli.coalesced_access(access=latency) + 2 * latency + 5 * 4.0  # K: 4 cycles at a bank
    actual = [float(x) for x in kothapalli.of_thread(gpu, kernel)]
    np.testing.assert_allclose(actual, [comp, float(mem)], rtol=1e-12)
    for model, of_thread in ((kothapalli_max, max(comp, mem)), (kothapalli_sum, comp + mem)):
        cycles = kothapalli.kernel_cycles(of_thread, 7.5, 8)
        np.testing.assert_allclose(model.predict(gpu, kernel, launch).cycles, cycles, rtol=1e-12)


def test_partitions_run_a_warp_each():
    # Four warps at a time wait together; a pipe of the SM takes as long as before for all of them
    pipes = {"cpi_fp32": 2.0, "cpi_shared": 3.0, "latency_dram": 400.0}
    work = {"work_fp32": 10.0, "shared_insts": 5.0, "work_shared": 5.0}
    work |= dict.fromkeys(("load_insts", "uncoal_insts", "sectors", "work_l2", "work_dram"), 6.0)
    gpu, kernel, launch = build(point(**pipes, **work, warps_per_block=8.0))
    gpu = eqx.tree_at(lambda x: x.limits.sub_partitions, gpu, jnp.int32(4))
    terms = kothapalli_sum.predict(gpu, kernel, launch).terms
    assert float(terms["compute"]) == 8 * 20
    assert float(terms["memory"]) == 8 * (6 * 400 / 4 + 15)


def test_a_program_of_several_kernels():
    single = build(point(cpi_fp32=4.0, work_fp32=10.0, latency_dram=500.0, load_insts=1.0))
    other = build(point(work_fp32=3.0, load_insts=2.0, sectors=2.0, work_l2=2.0, work_dram=2.0))
    gpu, first, second = single[0], single[1:], other[1:]
    for model in (kothapalli_max, kothapalli_sum):
        item = [model.predict(gpu, *item) for item in (first, second)]
        both = kothapalli.program(gpu, [first, second], model.predict)
        assert float(both.cycles) == sum(float(item.cycles) for item in item) > 40
        np.testing.assert_allclose(both.seconds, sum(float(item.seconds) for item in item), rtol=1e-15)
        assert {k: float(x) for k, x in both.terms.items()} == {
            k: sum(float(item.terms[k]) for item in item) for k in both.terms
        }
