"""Occupancy: how many blocks of a launch one SM holds at a time, and what stops it from holding more.

An SM has slots for warps and for blocks, registers and shared memory, and hands each out in units.
One formula serves every GPU. Compute capability 1.x gives registers to a whole block; later ones
and AMD give them to a warp, out of the register file of one sub-partition (SIMD).

Source: the rules of the CUDA programming guide and of cuda_occupancy.h (CUDA 13.0), against which
`scripts/validate/check_occupancy.py` compares this file; for AMD the allocation rules of LLVM's AMDGPU back
end. Known differences: compute capability 2.0 allots registers in units of 128 and not of 64 when a thread
uses 21, 22, 29, 30, 37, 38, 45 or 46 of them, which is not modelled; partitioned global caching
(5.2 and 6.1, off by default) is taken to be off. That a kernel declares no more than 48 KiB of shared memory
is a rule of CUDA's compilers and not of cuda_occupancy.h (CUDA programming guide, technical specifications).
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from dse.hardware.tensor import LACKS, lacking
from dse.types import Gpu, Launch, Limits, PerClass, Resources

Whole = Int[Array, "*#batch"]

BINDING = ("warps", "blocks", "registers", "shared memory", "grid")
IMPOSSIBLE = (
    "no threads",
    "no blocks",
    "negative registers or shared memory",
    "too many threads in a block",
    "too many registers a thread",
    "too many registers in a block",
    "too much shared memory",
    "too much static shared memory",
)
MOST_STATIC = 48 * 1024  # B of a block that a CUDA kernel may declare; a launch may add more
LIMITERS = (*BINDING, *IMPOSSIBLE, *LACKS.values())  # a limiter code is an index into this


@jax.jit  # as one piece also where all around it runs step by step
def resident_blocks(
    limits: Limits, resources: Resources
) -> tuple[Int[Array, "*#batch"], Int[Array, "*#batch"]]:
    """The blocks that one SM holds if the grid has enough of them, and the code of the limiter.

    The limiter is the first of warps, blocks, registers and shared memory of which one block more
    would take too much; for a launch that cannot run, the first reason why.

    **Shapes:** every field broadcasts; both results have the common shape.
    **Edges:** 0 blocks for a launch that cannot run. Exact while limits are below 2^21.
    """
    threads, registers, shared_bytes = resources.threads, resources.registers, resources.shared_bytes
    warps = _warps_per_block(limits, resources)

    # Either a block or a warp is what registers go to: `holders` of them share one register file.
    by_block = limits.registers_by_block != 0
    counted = _round_up(warps, limits.warp_unit)
    allotted = _round_up(
        jnp.where(by_block, counted, 1) * (limits.warp_size * registers), limits.register_unit
    )
    file = jnp.where(by_block, limits.registers_per_sm, limits.registers_per_sm // limits.sub_partitions)
    holders = _quotient(file, jnp.maximum(allotted, 1))
    register_warps = holders * jnp.where(by_block, warps, limits.sub_partitions)
    # The check of one block counts warps rounded up to `warp_unit`, as if all sub-partitions took part.
    block_registers = allotted * jnp.where(by_block, 1, counted)

    shared = _round_up(shared_bytes + limits.shared_bytes_reserved, limits.shared_unit_bytes)
    warp_slots = jnp.minimum(limits.warps_per_sm, limits.threads_per_sm // limits.warp_size)
    block_slots = jnp.where(warps == 1, limits.one_warp_blocks_per_sm, limits.blocks_per_sm)

    # ⌊min(x, y) / w⌋ = min(⌊x / w⌋, ⌊y / w⌋) saves a division.
    blocks = _quotient(jnp.minimum(warp_slots, register_warps), warps)
    blocks = jnp.minimum(blocks, block_slots)
    blocks = jnp.minimum(blocks, _quotient(limits.shared_bytes_per_sm, jnp.maximum(shared, 1)))

    one_more = blocks + 1
    code = _first_that_holds(
        {
            "no threads": threads < 1,
            "no blocks": resources.blocks < 1,
            "negative registers or shared memory": (registers < 0) | (shared_bytes < 0),
            "too many threads in a block": (threads > limits.threads_per_block) | (warps > warp_slots),
            "too many registers a thread": registers > limits.registers_per_thread,
            "too many registers in a block": (block_registers > limits.registers_per_block)
            | (warps > register_warps),
            "too much shared memory": (shared_bytes > limits.shared_bytes_per_block)
            | (shared > limits.shared_bytes_per_sm),
            "warps": one_more * warps > warp_slots,
            "blocks": one_more > block_slots,
            "registers": one_more * warps > register_warps,
        },
        otherwise="shared memory",
    )
    return jnp.where(possible(code), blocks, 0), code


@jax.jit
def launch(
    gpu: Gpu, resources: Resources, work: PerClass | None = None
) -> tuple[Launch, Int[Array, "*#batch"]]:
    """Lay the launch out on the GPU: the launch, and the code of its limiter.

    With the kernel's `work`, products of matrices that the GPU cannot do are such a limiter too. So is, on
    GPUs with a compute capability, more static shared memory than compilers for them accept.

    Blocks are spread evenly, so the busiest SM gets ⌈blocks / SMs⌉ of them; it fills its resident
    blocks `waves` times, the last time perhaps in part: waves are a fraction. "grid" limits a launch
    whose busiest SM gets fewer blocks than would fit.

    **Shapes:** every field broadcasts; [G, 1] GPUs and [1, L] resources give [G, L].
    **Units:** floats of the dtype of `gpu.clock`.
    **Edges:** a launch that cannot run is laid out with one resident block on one SM or more, so that
    no model divides by zero, and has to be told by its limiter (`possible`).
    """
    fit, code = resident_blocks(gpu.limits, resources)
    blocks = jnp.maximum(resources.blocks, 1)
    busiest = _large_quotient(blocks - 1, gpu.sm_count.astype(jnp.int32)) + 1
    code = jnp.where(possible(code) & (busiest < fit), LIMITERS.index("grid"), code)
    refused = (gpu.compute_capability > 0) & (resources.static_shared_bytes > MOST_STATIC)
    code = jnp.where(refused & possible(code), LIMITERS.index("too much static shared memory"), code)
    for name, lacks in (lacking(gpu, work) if work else {}).items():
        code = jnp.where(lacks & possible(code), LIMITERS.index(LACKS[name]), code)
    resident = jnp.maximum(jnp.minimum(fit, busiest), 1)

    def real(x: Array) -> Array:
        return x.astype(gpu.clock.dtype)

    return Launch(
        threads_per_block=real(jnp.maximum(resources.threads, 1)),
        warps_per_block=real(_warps_per_block(gpu.limits, resources)),
        blocks=real(blocks),
        resident_blocks=real(resident),
        active_sms=jnp.minimum(gpu.sm_count, real(blocks)),
        waves=real(busiest) / real(resident),
    ), code


def block_registers(limits: Limits, resources: Resources) -> Int[Array, "*#batch"]:
    """The registers that a block takes: of each warp in units, for as many warps as all sub-partitions count.

    **Shapes:** every field broadcasts.
    """
    warps, by_block = _warps_per_block(limits, resources), limits.registers_by_block != 0
    shared_out = _round_up(_round_up(warps, limits.warp_unit), jnp.where(by_block, 1, limits.sub_partitions))
    held = limits.warp_size * resources.registers
    by_unit = _round_up(jnp.where(by_block, shared_out, 1) * held, limits.register_unit)
    return by_unit * jnp.where(by_block, 1, shared_out)


def most_registers(limits: Limits, resources: Resources) -> Int[Array, "*batch"]:
    """The most registers of a thread with which a block can still run; 0 if it cannot with any.

    Those that `resources` asks for do not count.

    **Shapes:** limits scalars, not under jit; resources [*batch] or scalars.
    """
    threads, blocks, shared_bytes = jnp.broadcast_arrays(
        resources.threads, resources.blocks, resources.shared_bytes
    )
    tried = jnp.arange(1, int(limits.registers_per_thread) + 1).reshape(-1, *[1] * threads.ndim)
    asked = Resources(threads[None], blocks[None], tried, shared_bytes[None])
    return jnp.sum(possible(resident_blocks(limits, asked)[1]), axis=0)


def occupancy(limits: Limits, launch: Launch) -> Float[Array, "*#batch"]:
    """The warps resident on the busiest SM over the most that it can hold."""
    return launch.warps_per_sm / limits.warps_per_sm.astype(launch.warps_per_block.dtype)


def possible(code: Int[Array, "*#batch"]) -> Bool[Array, "*#batch"]:
    """Whether a launch with this limiter can run."""
    return code < len(BINDING)


def reason(code: int) -> str:
    """Put the limiter into words."""
    return f"limited by {LIMITERS[code]}" if code < len(BINDING) else f"cannot run: {LIMITERS[code]}"


def _warps_per_block(limits: Limits, resources: Resources) -> Whole:
    return _quotient(jnp.maximum(resources.threads, 1) - 1, limits.warp_size) + 1


def _first_that_holds(conditions: dict[str, Any], otherwise: str) -> Array:
    """Limiter code of the first condition that is true."""
    code = jnp.int32(LIMITERS.index(otherwise))
    for name, holds in reversed(conditions.items()):
        code = jnp.where(holds, LIMITERS.index(name), code)
    return code


def _quotient(a: Whole, b: Whole) -> Whole:
    """⌊a / b⌋, exact for |a| < 2^21 and b > 0.

    CPUs have no vector instruction that divides integers, and one at a time such divisions take ten
    times as long as everything else here. In float32, a + 1/2 lies half a unit or more off every
    multiple of b, so that neither rounding nor a reciprocal in place of the division moves it across.
    """
    return jnp.floor((a.astype(jnp.float32) + 0.5) / b.astype(jnp.float32)).astype(jnp.int32)


def _large_quotient(a: Whole, b: Whole) -> Whole:
    """⌊a / b⌋, exact for 0 <= a < 2^31 and 0 < b < 2^20.

    The first quotient is off by at most a / b · 2^-21 and one, so what it leaves of a is below 2^21.
    """
    guess = _quotient(a, b)
    return guess + _quotient(a - guess * b, b)


def _round_up(a: Whole, unit: Whole) -> Whole:
    return _quotient(a + (unit - 1), unit) * unit
