"""The cost of a memory access: λ and Λ from where its sectors are served and how often it passes the banks.

The Pipeline paper's mapper g.

Source: Lemeire, Cornelis & Konstantinidis, Sec. 6.3, extended from one cache level to two.
"""

import jax.numpy as jnp
from jaxtyping import Array

from dse.types import MEMORY, Gpu, Kernel


def safe_divide(a: Array, b: Array, default: float = 0.0) -> Array:
    """Divide a by b, and give `default` where b is 0; its gradient is finite there too."""
    zero = b == 0
    return jnp.where(zero, default, a / jnp.where(zero, 1.0, b))


def served(kernel: Kernel) -> tuple[Array, Array]:
    """The shares of the requested sectors that go past the L1, and past the L2.

    **Shapes:** broadcast. A kernel that moves more than it asks for (whole lines fetched for a part)
    counts as asking once: the shares stay in 0..1.
    """
    past_l1 = jnp.minimum(safe_divide(kernel.work.l2, kernel.sectors), 1.0)
    past_l2 = jnp.minimum(safe_divide(kernel.work.dram, kernel.sectors), past_l1)
    return past_l1, past_l2


def access_latency(gpu: Gpu, kernel: Kernel) -> Array:
    """Λ of an average global access, cycles: each level's latency by the share that it serves."""
    past_l1, past_l2 = served(kernel)
    return (
        (1.0 - past_l1) * gpu.latency.l1 + (past_l1 - past_l2) * gpu.latency.l2 + past_l2 * gpu.latency.dram
    )


def access_cpi(gpu: Gpu, kernel: Kernel) -> Array:
    """λ of an average global access, cycles: the load/store units or the level that is busiest with it."""
    busy = kernel.mem_insts * gpu.lsu_cycles
    for level in MEMORY:
        busy = jnp.maximum(busy, getattr(kernel.work, level) * getattr(gpu.cpi, level))
    return safe_divide(busy, kernel.mem_insts)


def shared_latency(gpu: Gpu, kernel: Kernel) -> Array:
    """Λ' of a shared-memory access, cycles: each pass beyond the first adds λ (Sec. 6.3)."""
    passes = safe_divide(kernel.work.shared, kernel.shared_insts)
    return gpu.latency.shared + jnp.maximum(passes - 1.0, 0.0) * gpu.cpi.shared
