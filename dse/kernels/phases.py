"""A phase of a described kernel: the waits and slots of a single warp, from its counts.

One in `ilp` instructions and one in `mlp` accesses is waited for; the others take the throughput of their
busiest pipe. This is the single-warp latency of `dse.models.volkov`, split by pipe and memory level.

Source: Lemeire, Cornelis & Konstantinidis, Eq. L2 and Sec. 6.3. In NumPy, 64 bits.
"""

from typing import Any

import jax
import numpy as np

from dse.core.precision import in_64_bits
from dse.hardware.memory import access_cpi, served
from dse.types import ARITHMETIC, CLASSES, COMPUTE, Gpu, Kernel, PerClass, Phase


def phase_of(gpu: Gpu, kernel: Kernel, passes: Any = 1.0) -> Phase:
    """Convert the counts of a phase, over all its `passes`, to one pass.

    **Shapes:** fields and `passes` broadcast with those of the GPU.
    **Edges:** matrix products occupy their pipe, and nothing waits for them.
    """
    gpu, kernel = jax.tree.map(lambda x: np.asarray(x, float), (gpu, kernel))  # some have 32 bits
    work, mem_waits = kernel.work, kernel.load_insts / kernel.mlp
    past_l1, past_l2 = served(kernel, np)
    waits: dict[str, Any] = {name: getattr(work, name) / kernel.ilp for name in ARITHMETIC}
    waits |= {"shared": kernel.shared_insts / kernel.ilp, "barrier": work.barrier}
    waits |= {"l1": mem_waits * (1.0 - past_l1), "l2": mem_waits * (past_l1 - past_l2)}
    waits["dram"] = mem_waits * past_l2

    further_passes = np.maximum(work.shared - kernel.shared_insts, 0.0) * gpu.cpi.shared / kernel.ilp
    pipes = sum(getattr(work, name) * getattr(gpu.cpi, name) for name in COMPUTE)
    overlapped = access_cpi(gpu, kernel, np) * (kernel.mem_insts - mem_waits)
    slots = further_passes + pipes * (1.0 - 1.0 / kernel.ilp) + overlapped
    passes = np.asarray(passes, float)
    divisor = np.where(passes > 0.0, passes, 1.0)
    with in_64_bits():
        waited = PerClass(**(dict.fromkeys(CLASSES, np.asarray(0.0)) | waits))
        counted = work, waited, kernel.insts, kernel.shared_insts + kernel.mem_insts, slots
        work, waited, insts, memory_insts, slots = jax.tree.map(lambda x: np.asarray(x) / divisor, counted)
        return Phase(
            work=work,
            async_work=None,
            waits=waited,
            async_waits=None,
            passes=passes,
            insts=insts,
            memory_insts=memory_insts,
            slots=slots,
        )
