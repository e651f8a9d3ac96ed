"""A kernel on a GPU in the Pipeline paper's notation: a computational and a memory subsystem.

The lumped numbers of all two-subsystem models are derived here.

Source: Lemeire, Cornelis & Konstantinidis, Table 2.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from dse.hardware.memory import access_cpi, access_latency, safe_divide, shared_latency
from dse.hardware.tensor import tensor_cycles, tensor_latency
from dse.types import ARITHMETIC, COMPUTE, MEMORY, Gpu, Kernel, Phase, Quantity, _Quantities, quantity


class TwoPipes(_Quantities):
    """The instruction counts of one warp, and λ and Λ of both subsystems."""

    comp_insts: Quantity = quantity("1")  # α_comp
    comp_cpi: Quantity = quantity("cycles")  # λ_comp
    mem_insts: Quantity = quantity("1")  # α_mem
    mem_cpi: Quantity = quantity("cycles")  # λ_mem
    mem_latency: Quantity = quantity("cycles")  # Λ_mem

    @property
    def comp_per_mem(self) -> Array:
        """CI, the computational instructions per period.

        A warp has at least one period: a mean of less than one memory instruction per warp does not make the
        period longer than the warp's computation.
        """
        return self.comp_insts / jnp.maximum(self.mem_insts, 1.0)


def first_case(cases: Sequence[Array], values: Sequence[Array | float], otherwise: Array | float) -> Array:
    """Return the value of the first case that is true, as in a case distinction of the papers.

    It equals `jnp.select`, whose lookup in an array prevents the vectorisation of loops.
    """
    result = jnp.asarray(otherwise)
    for holds, value in zip(reversed(cases), reversed(values), strict=True):
        result = jnp.where(holds, value, result)
    return result


def waits(kernel: Kernel) -> Array:
    """Return the number of waits of a warp for memory: its loads over `mlp`, the loads in flight together."""
    return kernel.load_insts / kernel.mlp


def phase_waits(phase: Phase) -> Array:
    """Return the number of waits of a warp for memory per pass of a phase, with asynchronous copies."""
    waited_for = [waits for waits in (phase.waits, phase.async_waits) if waits is not None]
    return reduce(jnp.add, (getattr(waits, level) for waits in waited_for for level in MEMORY))


def phase_busy(gpu: Gpu, phase: Phase, accesses: Array, names: Sequence[str]) -> Array:
    """Return the busy cycles for one warp of the busiest of some pipes, the tensor pipe, and issue.

    The `accesses` to global memory are subtracted from the phase's instructions. With `shared` in the names,
    the load/store units are included.
    """
    cycles = [getattr(phase.work, name) * getattr(gpu.cpi, name) for name in names]
    if "shared" in names:
        cycles.append(jnp.maximum(phase.memory_insts - accesses, 0.0) * gpu.lsu_cycles)
    insts = jnp.maximum(phase.insts - accesses, 0.0)
    return reduce(jnp.maximum, [*cycles, insts / gpu.issue_limit, tensor_cycles(gpu, phase.work)])


def phase_accesses(kernel: Kernel) -> list[Array]:
    """Return the global accesses of each phase per pass: the kernel's, by sectors and passes of the L1."""
    moved = [phase.work.l1 + phase.work.l2 for phase in kernel.phases]
    whole = reduce(jnp.add, map(jnp.multiply, [phase.passes for phase in kernel.phases], moved))
    return [safe_divide(kernel.mem_insts, whole) * parts for parts in moved]


def comp_latencies(gpu: Gpu, kernel: Kernel) -> Array:
    """Return Σ Λ over the computational instructions of a warp, as if each depended on the previous one.

    Instructions without a pipe, such as branches, have the latency of an addition. Matrix products from
    shared memory are asynchronous, so no instruction waits for them.
    """
    total = kernel.shared_insts * shared_latency(gpu, kernel) + kernel.other_insts * gpu.latency.int32
    for name in ARITHMETIC:
        total = total + getattr(kernel.work, name) * getattr(gpu.latency, name)
    return total + kernel.work.mma_warp * tensor_latency(gpu, kernel.work)


def comp_latency(gpu: Gpu, kernel: Kernel) -> Array:
    """Return Λ_comp, the mean over a warp's computational instructions."""
    return safe_divide(comp_latencies(gpu, kernel), kernel.comp_insts)


def comp_busy(gpu: Gpu, kernel: Kernel) -> Array:
    """Return α_comp λ_comp, the busy cycles of the busiest computational pipe for one warp.

    The issue slots of these instructions and the load/store units are included.
    """
    busy = jnp.maximum(kernel.comp_insts / gpu.issue_limit, kernel.shared_insts * gpu.lsu_cycles)
    for name in COMPUTE:
        busy = jnp.maximum(busy, getattr(kernel.work, name) * getattr(gpu.cpi, name))
    return jnp.maximum(busy, tensor_cycles(gpu, kernel.work))


def two_pipes(gpu: Gpu, kernel: Kernel) -> TwoPipes:
    """Return the notation's symbols for a kernel on a GPU. **Shapes:** all broadcast."""
    fields: dict[str, Any] = {
        "comp_insts": kernel.comp_insts,
        "comp_cpi": safe_divide(comp_busy(gpu, kernel), kernel.comp_insts),
        "mem_insts": kernel.mem_insts,
        "mem_cpi": access_cpi(gpu, kernel),
        "mem_latency": access_latency(gpu, kernel),
    }
    return TwoPipes(**fields)
