"""The properties of a GPU that times of matrix products depend on, from its file."""

from collections.abc import Iterable, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from dse.errors import DseError
from dse.hardware.gpus import GpuFile
from dse.hardware.tensor import heat
from dse.models.matrix.problem import OPERANDS, SCALE_DEPTH, Product
from dse.types import ABSENT, Gpu

RATES = ("mma_fp16", "mma_fp8", "mma_int8", "mma_tf32", "fp32")
CHANNEL = 25.5  # B per ns: 80 channels of 64 bits, HBM2e
HBM = (60, 70, 80, 90, 100, 103)  # compute capabilities with stacked memory; others have GDDR
CDNA = (0x908, 0x90A, 0x942, 0x950)  # AMD's targets with stacked memory, with waves of 64 lanes on 16
TO_SHARED = (0x950,)  # AMD's targets with direct 16-byte loads to shared memory
SHARED_OPERANDS = (90, 100, 103)  # operands in shared memory: wgmma and its successor
TENSOR_MEMORY = (100, 103)  # of these, with separate memory for sums
HALVED = (80, 90, 100, 103)  # L2 of two halves: each also keeps what its SMs read (A100 whitepaper)
SHARED_ROWS = 64  # minimum of a tile for operands in shared memory
ASYNCHRONOUS = 4.0  # B of the narrowest asynchronous copy
REGISTER_FP8 = (89, 120, 121)  # fp8 operands in registers; others convert them to fp16
LINE = 128.0  # B; also the bandwidth per cycle of NVIDIA's shared memory
NEVER = 1e-6 * ABSENT


class Machine(eqx.Module):
    """The GPU's input of `dse.models.matrix.time`: arrays of one shape, per SM and cycle by default."""

    sms: Float[Array, "*#batch"]
    clock: Float[Array, "*#batch"]  # Hz
    dram_bandwidth: Float[Array, "*#batch"]  # B/s
    dram_latency: Float[Array, "*#batch"]  # cycles
    channel: Float[Array, "*#batch"]  # B per ns of one of DRAM's channels
    gddr: Float[Array, "*#batch"]  # 1, or 0 for stacked memory with its many more banks
    l2_bytes: Float[Array, "*#batch"]
    l2_bandwidth: Float[Array, "*#batch"]  # B per cycle and SM
    l2_latency: Float[Array, "*#batch"]
    shared_bytes: Float[Array, "*#batch"]  # of an SM
    shared_reserved: Float[Array, "*#batch"]  # per block, by the driver
    registers: Float[Array, "*#batch"]
    warps: Float[Array, "*#batch"]
    blocks: Float[Array, "*#batch"]
    lanes: Float[Array, "*#batch"]  # of a warp
    slot: Float[Array, "*#batch"]  # scheduler cycles per warp instruction
    registers_a_thread: Float[Array, "*#batch"]
    shared_bandwidth: Float[Array, "*#batch"]
    amd: Float[Array, "*#batch"]  # 1 if code reads, then multiplies: little overlap in a warp
    held_copies: Float[Array, "*#batch"]  # 1 if copies to shared memory go through registers
    kept_bytes: Float[Array, "*#batch"]  # of the last cache before DRAM
    halved: Float[Array, "*#batch"]  # 1 if an L2 of two halves keeps some data twice
    dies: Float[Array, "*#batch"]  # each with an L2; blocks are assigned round-robin
    fabric: Float[Array, "*#batch"]  # B per cycle of the cache shared by dies; infinite for one die
    smallest: Float[Array, "*#batch"]  # minimum columns of a matrix instruction
    mma_warp: Float[Array, "*#batch"]  # cycles of 16 × 8 × 16 halves in registers
    shared_operands: Float[Array, "*#batch"]  # 1 if operands of large tiles are in shared memory
    tensor_memory: Float[Array, "*#batch"]  # 1 if sums of large tiles are in tensor memory
    register_fp8: Float[Array, "*#batch"]  # 1 if small tiles of fp8 are not converted to fp16
    convert: Float[Array, "*#batch"]  # cycles of a warp's conversion from an integer
    sustained: Float[Array, "*#batch"]  # cycles per tensor cycle under power throttling
    heat: Float[Array, "*#batch"]  # more time of halves that always keep tensor cores busy, by power
    single: Float[Array, "*#batch"]  # 1 if matrix cores support single precision
    mma: dict[str, Float[Array, "*#batch"]]  # cycles of a multiply-add

    @staticmethod
    def of(files: Sequence[GpuFile]) -> "Machine":
        """Stack GPUs, single precision. **Shapes:** [gpus].

        **Raises:** DseError for a GPU without tensor or matrix cores. Unsupported types run as fp16; tf32 on
        AMD as fp32, as in Triton.
        """
        for file in files:
            if float(file.gpu.cpi.mma_fp16) >= NEVER:
                raise DseError(
                    f"gpu: found {file.name}, expected one with tensor or matrix cores: with cpi.mma_fp16 in "
                    "its file"
                )
        gpus = [file.gpu for file in files]
        limits = [gpu.limits for gpu in gpus]
        capability = np.array([int(gpu.compute_capability) for gpu in gpus])
        gfx = np.array([int(gpu.gfx) for gpu in gpus])

        def column(values: Iterable) -> Array:
            return jnp.asarray(np.array([float(value) for value in values], np.float32))

        def rate(gpu, name: str) -> float:
            own = float(getattr(gpu.cpi, name))
            single = name == "mma_tf32" and int(gpu.gfx)
            return own if own < NEVER else scalar(gpu) if single else float(gpu.cpi.mma_fp16)

        def scalar(gpu) -> float:
            lanes = float(gpu.cpi.fp32) / float(gpu.limits.warp_size)
            return min(float(gpu.cpi.mma_fp32), lanes) if int(gpu.gfx) else lanes

        return Machine(
            sms=column([gpu.sm_count for gpu in gpus]),
            clock=column([gpu.clock for gpu in gpus]),
            dram_bandwidth=column([gpu.dram_bandwidth for gpu in gpus]),
            dram_latency=column([gpu.latency.dram for gpu in gpus]),
            gddr=column(~np.isin(capability, HBM) & ~np.isin(gfx, CDNA)),
            channel=column([_channel(gpu) for gpu in gpus]),
            l2_bytes=column([gpu.l2_bytes for gpu in gpus]),
            l2_bandwidth=column([32.0 / float(gpu.cpi.l2) for gpu in gpus]),
            l2_latency=column([gpu.latency.l2 for gpu in gpus]),
            shared_bytes=column([sm.shared_bytes_per_sm for sm in limits]),
            shared_reserved=column([sm.shared_bytes_reserved for sm in limits]),
            registers=column([sm.registers_per_sm for sm in limits]),
            warps=column([sm.warps_per_sm for sm in limits]),
            blocks=column([sm.blocks_per_sm for sm in limits]),
            lanes=column([sm.warp_size for sm in limits]),
            slot=column(np.where(np.isin(gfx, CDNA), 4.0, 1.0)),
            registers_a_thread=column([sm.registers_per_thread for sm in limits]),
            amd=column(gfx > 0),
            held_copies=column((gfx > 0) & ~np.isin(gfx, TO_SHARED)),
            shared_bandwidth=column([LINE / float(gpu.cpi.shared) if int(gpu.gfx) else LINE for gpu in gpus]),
            kept_bytes=column([max(float(gpu.memory_cache_bytes), float(gpu.l2_bytes)) for gpu in gpus]),
            halved=column(np.isin(capability, HALVED)),
            dies=column([gpu.dies for gpu in gpus]),
            fabric=column([_fabric(gpu) for gpu in gpus]),
            smallest=column(np.where(gfx > 0, 16.0, 8.0)),
            mma_warp=column([rate(gpu, "mma_warp") * (int(gpu.gfx) == 0) for gpu in gpus]),
            shared_operands=column(np.isin(capability, SHARED_OPERANDS)),
            tensor_memory=column(np.isin(capability, TENSOR_MEMORY)),
            register_fp8=column(np.isin(capability, REGISTER_FP8) | (gfx > 0)),
            convert=column([gpu.cpi.sfu for gpu in gpus]),
            sustained=column(
                [float(gpu.clock) / (float(gpu.matrix_clock) or float(gpu.clock)) for gpu in gpus]
            ),
            heat=column([heat(gpu, "mma_fp16") for gpu in gpus]),
            single=column([float(gpu.cpi.mma_fp32) < NEVER and int(gpu.gfx) > 0 for gpu in gpus]),
            mma={name: column([rate(gpu, name) for gpu in gpus]) for name in RATES if name != "fp32"}
            | {"fp32": column([scalar(gpu) for gpu in gpus])},
        )


def _channel(gpu: Gpu) -> float:
    """Return bytes per ns of a channel of DRAM; of the A100's if their number is not known."""
    channels = float(gpu.dram_channels)
    return 1e-9 * float(gpu.dram_bandwidth) / channels if channels else CHANNEL


def _fabric(gpu: Gpu) -> float:
    """Return bytes per cycle of the cache between several L2s and DRAM; more than needed without one."""
    known = float(gpu.memory_cache_bandwidth) / float(gpu.clock)
    return known if known and float(gpu.dies) > 1 else NEVER


def buffer_bytes(
    tile: tuple[Any, ...],
    a: Any,
    b: Any,
    converts: Any,
    from_shared: Any,
    waits: tuple[Any, Any] = (0, 0),
    direct: Any = 0,
) -> Any:
    """Return the shared memory of a block for `stages` of a tile; `a` and `b` are bytes of an element.

    Operands in registers need one buffer less than stages, as the last one is in registers. If tensor cores
    read shared memory, converted weights have one buffer less, and one of two bytes per element. An operand
    that the loop waits for (`waits`) has one buffer, and so has a single stage. AMD's direct loads to shared
    memory (`direct`) have one per stage, with 16 bytes of padding after 1,024.
    For NumPy and JAX arrays. **Source:** code compiled by Triton 3.9.
    """
    rows, columns, depth, stages = tile
    ahead, weights = stages - 1 + from_shared + direct, stages - 1 + from_shared * (1 - converts) + direct
    ahead = 1 + (at_least_one(ahead) - 1) * (1 - waits[0])
    weights = 1 + (at_least_one(weights) - 1) * (1 - waits[1])
    padded = 1 + direct / 64
    return padded * depth * (rows * a * ahead + columns * (b * weights + 2 * from_shared * converts))


def at_least_one(number: Any) -> Any:
    """Return the maximum of a number and 1, for NumPy and JAX arrays."""
    return (number + 1 + abs(number - 1)) / 2


def possible(
    file: GpuFile, products: Sequence[Product], configurations: Int[np.ndarray, "configurations parameters"]
) -> Bool[np.ndarray, "products configurations"]:
    """Return whether the buffers of a configuration fit in the shared memory of a block.

    Tiles deeper than a block of scales are reduced to it, as in vLLM.
    """
    rows, columns, depth, stages = (configurations[None, :, place] for place in (0, 1, 2, 5))
    from_shared = (int(file.gpu.compute_capability) in SHARED_OPERANDS) * (rows >= SHARED_ROWS)
    asked = [
        (product.operands, tuple(copy < ASYNCHRONOUS for copy in product.copy_bytes), product.shuffled)
        for product in products
    ]
    kinds = list(dict.fromkeys(asked))

    def column(values: Iterable) -> np.ndarray:
        return np.array([[float(value)] for value in values])

    operands = [OPERANDS[name] for name, _, _ in kinds]
    scaled = column(kind.scaled_by_block for kind in operands)
    buffers = buffer_bytes(
        (rows, columns, np.where(scaled > 0, np.minimum(depth, SCALE_DEPTH), depth), stages),
        column(kind.activation_bytes for kind in operands),
        column(OPERANDS[name].weight_bytes * (not shuffled) for name, _, shuffled in kinds),
        column(kind.converts for kind in operands),
        from_shared * column(kind.rate != "fp32" for kind in operands),
        (column(waits[0] for _, waits, _ in kinds), column(waits[1] for _, waits, _ in kinds)),
        int(file.gpu.gfx) in TO_SHARED,
    )
    fits = buffers <= int(file.gpu.limits.shared_bytes_per_block)
    return fits[[kinds.index(operands) for operands in asked]]
