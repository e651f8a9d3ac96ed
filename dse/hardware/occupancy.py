"""Occupancy: the blocks of a launch resident on one SM, and the resource that limits them.

An SM allocates warp slots, block slots, registers and shared memory in units. One formula serves
every GPU. Compute capability 1.x allocates registers to a whole block; later ones and AMD to a
warp, from the register file of one sub-partition (SIMD).

Source: the rules of the CUDA programming guide and of cuda_occupancy.h (CUDA 13.0), checked by
`scripts/validate/check_occupancy.py`; for AMD the allocation rules of LLVM's AMDGPU back end.
Known differences: compute capability 2.0 allocates registers in units of 128 instead of 64 if a thread
uses 21, 22, 29, 30, 37, 38, 45 or 46 of them, which is not modelled; partitioned global caching
(5.2 and 6.1, off by default) is assumed to be off. The limit of 48 KiB of static shared memory is a rule
of CUDA's compilers, not of cuda_occupancy.h (CUDA programming guide, technical specifications).
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
MOST_STATIC = 48 * 1024  # B of shared memory that a CUDA kernel may declare; a launch may add more
LIMITERS = (*BINDING, *IMPOSSIBLE, *LACKS.values())  # a limiter code is an index into this


@jax.jit  # compiled as a whole even if the caller is not
def resident_blocks(
    limits: Limits, resources: Resources
) -> tuple[Int[Array, "*#batch"], Int[Array, "*#batch"]]:
    """The blocks that fit on one SM, and the code of the limiter.

    The limiter is the first of warps, blocks, registers and shared memory that one more block would
    exceed; for a launch that cannot run, the first reason.

    **Shapes:** all fields broadcast; both results have the common shape.
    **Edges:** 0 blocks for a launch that cannot run. Exact for limits below 2^21.
    """
    threads, registers, shared_bytes = resources.threads, resources.registers, resources.shared_bytes
    warps = _warps_per_block(limits, resources)

    # Registers are allocated to a block or to a warp: `holders` of them share one register file.
    by_block = limits.registers_by_block != 0
    rounded_warps = _round_up(warps, limits.warp_unit)
    allocated = _round_up(
        jnp.where(by_block, rounded_warps, 1) * (limits.warp_size * registers), limits.register_unit
    )
    file = jnp.where(by_block, limits.registers_per_sm, limits.registers_per_sm // limits.sub_partitions)
    holders = _quotient(file, jnp.maximum(allocated, 1))
    register_warps = holders * jnp.where(by_block, warps, limits.sub_partitions)
    # The check of one block counts warps rounded up to `warp_unit`, as if on all sub-partitions.
    block_registers = allocated * jnp.where(by_block, 1, rounded_warps)

    shared = _round_up(shared_bytes + limits.shared_bytes_reserved, limits.shared_unit_bytes)
    warp_slots = jnp.minimum(limits.warps_per_sm, limits.threads_per_sm // limits.warp_size)
    block_slots = jnp.where(warps == 1, limits.one_warp_blocks_per_sm, limits.blocks_per_sm)

    # ⌊min(x, y) / w⌋ = min(⌊x / w⌋, ⌊y / w⌋) saves a division.
    blocks = _quotient(jnp.minimum(warp_slots, register_warps), warps)
    blocks = jnp.minimum(blocks, block_slots)
    blocks = jnp.minimum(blocks, _quotient(limits.shared_bytes_per_sm, jnp.maximum(shared, 1)))

    one_more = blocks + 1
    code = _first_true(
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
    """Place the launch on the GPU; return it and the code of its limiter.

    With the kernel's `work`, matrix products that the GPU lacks are a limiter too. So is, on GPUs with a
    compute capability, more static shared memory than their compilers accept.

    Blocks are distributed evenly: the busiest SM gets ⌈blocks / SMs⌉, and fills its resident blocks
    `waves` times, a fraction since the last may be partial. "grid" limits a launch whose busiest SM
    gets fewer blocks than would fit.

    **Shapes:** all fields broadcast; [G, 1] GPUs and [1, L] resources give [G, L].
    **Units:** floats of the dtype of `gpu.clock`.
    **Edges:** a launch that cannot run gets at least one resident block on one SM, so that no model
    divides by zero; only its limiter shows it (`possible`).
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
    """The registers allocated to a block: per warp in units, with warps rounded up to all sub-partitions.

    **Shapes:** all fields broadcast.
    """
    warps, by_block = _warps_per_block(limits, resources), limits.registers_by_block != 0
    warps = _round_up(_round_up(warps, limits.warp_unit), jnp.where(by_block, 1, limits.sub_partitions))
    registers = jnp.where(by_block, warps, 1) * (limits.warp_size * resources.registers)
    return _round_up(registers, limits.register_unit) * jnp.where(by_block, 1, warps)


def most_registers(limits: Limits, resources: Resources) -> Int[Array, "*batch"]:
    """The most registers of a thread with which a block can run; 0 if it cannot run at all.

    The registers in `resources` are ignored.

    **Shapes:** limits scalars, not under jit; resources [*batch] or scalars.
    """
    threads, blocks, shared_bytes = jnp.broadcast_arrays(
        resources.threads, resources.blocks, resources.shared_bytes
    )
    registers = jnp.arange(1, int(limits.registers_per_thread) + 1).reshape(-1, *[1] * threads.ndim)
    trials = Resources(threads[None], blocks[None], registers, shared_bytes[None])
    return jnp.sum(possible(resident_blocks(limits, trials)[1]), axis=0)


def occupancy(limits: Limits, launch: Launch) -> Float[Array, "*#batch"]:
    """The warps resident on the busiest SM over its maximum."""
    return launch.warps_per_sm / limits.warps_per_sm.astype(launch.warps_per_block.dtype)


def possible(code: Int[Array, "*#batch"]) -> Bool[Array, "*#batch"]:
    """Whether a launch with this limiter can run."""
    return code < len(BINDING)


def _warps_per_block(limits: Limits, resources: Resources) -> Whole:
    return _quotient(jnp.maximum(resources.threads, 1) - 1, limits.warp_size) + 1


def _first_true(conditions: dict[str, Any], otherwise: str) -> Array:
    """Limiter code of the first true condition."""
    code = jnp.int32(LIMITERS.index(otherwise))
    for name, holds in reversed(conditions.items()):
        code = jnp.where(holds, LIMITERS.index(name), code)
    return code


def _quotient(a: Whole, b: Whole) -> Whole:
    """⌊a / b⌋, exact for |a| < 2^21 and b > 0.

    CPUs lack vector instructions for integer division, and scalar ones take ten times as long as
    everything else here. In float32, a + 1/2 is at least half a unit from any multiple of b, so
    neither rounding nor multiplication by a reciprocal moves it across one.
    """
    return jnp.floor((a.astype(jnp.float32) + 0.5) / b.astype(jnp.float32)).astype(jnp.int32)


def _large_quotient(a: Whole, b: Whole) -> Whole:
    """⌊a / b⌋, exact for 0 <= a < 2^31 and 0 < b < 2^20.

    The first quotient is off by at most a / b · 2^-21 and one, so its remainder is below 2^21.
    """
    guess = _quotient(a, b)
    return guess + _quotient(a - guess * b, b)


def _round_up(a: Whole, unit: Whole) -> Whole:
    return _quotient(a + (unit - 1), unit) * unit
