"""Instruction roofline: instructions and DRAM bytes of launches, and the GPU's roofs."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from dse.core.precision import in_64_bits
from dse.hardware.gpus import column, stack
from dse.kernels.counts import Counts, Number
from dse.types import TENSOR, Gpu

SECTOR = 32  # bytes


class LaunchTotals(NamedTuple):
    """Totals of launches, arrays [L]."""

    threads: np.ndarray  # of a block
    blocks: np.ndarray
    instructions: np.ndarray  # of all threads; NaN with matrix products, which do many operations in one
    dram_bytes: np.ndarray


class Roofs(NamedTuple):
    """The roofs of an instruction roofline: a GPU's largest rates."""

    instructions_per_s: float  # of threads: the schedulers' issue rate
    fp32_per_s: float  # of threads
    dram_bytes_per_s: float  # achieved bandwidth, from λ of DRAM
    l2_bytes_per_s: float


def launch_totals(
    kernel: Counts,
    gpu: Gpu,
    parameters: Mapping[str, np.ndarray],
    problem: Mapping[str, Number] | None = None,
) -> LaunchTotals:
    """Compute the totals of whole launches for configurations [L] of a described kernel.

    **Raises:** DseError as the kernel's `count`.
    """
    count = len(next(iter(parameters.values())))
    gpus = stack([gpu])
    with in_64_bits():
        known = kernel.count(parameters, gpus, problem).batch.take(np.arange(count)).on(column(gpus))
        work = known.kernel.work
        threads, blocks = (np.asarray(x)[0] for x in (known.resources.threads, known.resources.blocks))
        warp_size = int(np.asarray(gpu.limits.warp_size))
        warps = np.ceil(threads / warp_size) * blocks.astype(float)
        instructions = np.asarray(known.kernel.insts, float)[0] * warps * warp_size
        sectors = np.asarray(work.dram, float)[0] * warps
        products = sum(np.asarray(getattr(work, name), float)[0] for name in TENSOR)
    instructions = np.where(products > 0, np.nan, instructions)
    return LaunchTotals(threads, blocks, instructions, sectors * SECTOR)


def roofs(gpu: Gpu) -> Roofs:
    """Compute the roofs of a GPU: a pipe takes λ cycles of an SM per unit of work.

    **Source:** Ding & Williams, An Instruction Roofline Model for GPUs, PMBS 2019.
    """
    cycles = float(gpu.sm_count) * float(gpu.clock)  # of all SMs, in a second
    threads = int(np.asarray(gpu.limits.warp_size))
    return Roofs(
        instructions_per_s=cycles * float(gpu.issue_limit) * threads,
        fp32_per_s=cycles * threads / float(gpu.cpi.fp32),
        dram_bytes_per_s=cycles * SECTOR / float(gpu.cpi.dram),
        l2_bytes_per_s=cycles * SECTOR / float(gpu.cpi.l2),
    )
