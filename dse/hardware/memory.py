"""The cost of a memory access: λ and Λ from the levels that serve its sectors and its passes of the banks.

The Pipeline paper's mapper g.

Source: Lemeire, Cornelis & Konstantinidis, Sec. 6.3, extended from one cache level to two. Functions with an
`xp` use jax.numpy, or NumPy for GPUs and kernels of NumPy arrays.
"""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from dse.types import MEMORY, Gpu, Kernel


def safe_divide(a: Any, b: Any, default: float = 0.0, xp: Any = jnp) -> Any:
    """Divide a by b, with `default` where b is 0; the gradient is finite there too."""
    zero = b == 0
    return xp.where(zero, default, a / xp.where(zero, 1.0, b))


def written_back(moved: Array, left: Array) -> Array:
    """Return the data of a flush that a launch evicts from L2: as much as it moves, while any is left.

    A flush by writing leaves the cache full of data that DRAM lacks. **Units:** those of both arguments.
    **Source:** the exponent is fitted to the fastest of PyTorch Inductor's mixed products, 10 to 3,000 MB.
    """
    share = safe_divide(moved, left)
    return jnp.where(left > 0, moved / (1.0 + share**3) ** (1.0 / 3.0), 0.0)


def written(read: Array, results: Array, left: Array) -> Array:
    """Return the data written to DRAM during a launch after a flush, of which `left` is still in L2.

    These are the results, except those that L2 holds at the end, and what results and `read` data evict.
    **Units:** those of the arguments.
    """
    return results - written_back(results, left) + written_back(read + results, left)


def served(kernel: Kernel, xp: Any = jnp) -> tuple[Any, Any]:
    """The shares of the requested sectors that miss the L1, and the L2.

    **Shapes:** broadcast. Shares are capped at 1 for kernels that move more than they request (whole lines
    for a part).
    """
    past_l1 = xp.minimum(safe_divide(kernel.work.l2, kernel.sectors, xp=xp), 1.0)
    past_l2 = xp.minimum(safe_divide(kernel.work.dram, kernel.sectors, xp=xp), past_l1)
    return past_l1, past_l2


def access_latency(gpu: Gpu, kernel: Kernel) -> Array:
    """Λ of an average global access, cycles: the levels' latencies weighted by the shares they serve."""
    past_l1, past_l2 = served(kernel)
    return (
        (1.0 - past_l1) * gpu.latency.l1 + (past_l1 - past_l2) * gpu.latency.l2 + past_l2 * gpu.latency.dram
    )


def access_cpi(gpu: Gpu, kernel: Kernel, xp: Any = jnp) -> Any:
    """λ of an average global access, cycles, in the load/store units or the busiest memory level."""
    busy = kernel.mem_insts * gpu.lsu_cycles
    for level in MEMORY:
        busy = xp.maximum(busy, getattr(kernel.work, level) * getattr(gpu.cpi, level))
    return safe_divide(busy, kernel.mem_insts, xp=xp)


def shared_latency(gpu: Gpu, kernel: Kernel) -> Array:
    """Λ' of a shared-memory access, cycles: each pass beyond the first adds λ (Sec. 6.3)."""
    passes = safe_divide(kernel.work.shared, kernel.shared_insts)
    return gpu.latency.shared + jnp.maximum(passes - 1.0, 0.0) * gpu.cpi.shared
