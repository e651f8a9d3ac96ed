"""What a product of matrices needs to know of a GPU, from its file."""

from collections.abc import Iterable, Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from dse.errors import DseError
from dse.gpus import GpuFile
from dse.matrix.problem import OPERANDS, Product
from dse.types import ABSENT

RATES = ("mma_fp16", "mma_fp8", "mma_int8")
HBM = (60, 70, 80, 90, 100, 103)  # compute capabilities of chips with stacked memory; others have GDDR
SHARED_OPERANDS = (90, 100, 103)  # those that multiply out of shared memory: wgmma and its successor
BUFFERS_OF_SHARED = 90  # from here on Triton keeps as many buffers as stages, before one less
NEVER = 1e-6 * ABSENT


class Machine(eqx.Module):
    """The GPU's side of `dse.matrix.time`: arrays of one shape, per SM and cycle where not said."""

    sms: Float[Array, "*#batch"]
    clock: Float[Array, "*#batch"]  # Hz
    dram_bandwidth: Float[Array, "*#batch"]  # B/s
    dram_latency: Float[Array, "*#batch"]  # cycles
    gddr: Float[Array, "*#batch"]  # 1, or 0.2 of stacked memory with its many more banks
    l2_bytes: Float[Array, "*#batch"]
    l2_bandwidth: Float[Array, "*#batch"]  # B a cycle and SM
    l2_latency: Float[Array, "*#batch"]
    shared_bytes: Float[Array, "*#batch"]  # of an SM
    shared_reserved: Float[Array, "*#batch"]  # of a block, by the driver
    registers: Float[Array, "*#batch"]
    warps: Float[Array, "*#batch"]
    blocks: Float[Array, "*#batch"]
    mma_warp: Float[Array, "*#batch"]  # cycles of 16 × 8 × 16 halves out of registers
    shared_operands: Float[Array, "*#batch"]  # 1 where large tiles are multiplied out of shared memory
    mma: dict[str, Float[Array, "*#batch"]]  # cycles of a multiply-add

    @staticmethod
    def of(files: Sequence[GpuFile]) -> "Machine":
        """Stack GPUs, single precision. **Shapes:** [gpus].

        **Raises:** DseError for a GPU without tensor cores. Kinds that it lacks run at the rate of fp16.
        """
        for file in files:
            if float(file.gpu.cpi.mma_fp16) >= NEVER:
                raise DseError(f"gpu: found {file.name}, expected one whose file has cpi.mma_fp16")
        gpus = [file.gpu for file in files]
        limits = [gpu.limits for gpu in gpus]
        capability = np.array([int(gpu.compute_capability) for gpu in gpus])

        def column(values: Iterable) -> Array:
            return jnp.asarray(np.array([float(value) for value in values]), jnp.float32)

        def rate(gpu, name: str) -> float:
            own = float(getattr(gpu.cpi, name))
            return own if own < NEVER else float(gpu.cpi.mma_fp16)

        return Machine(
            sms=column([gpu.sm_count for gpu in gpus]),
            clock=column([gpu.clock for gpu in gpus]),
            dram_bandwidth=column([gpu.dram_bandwidth for gpu in gpus]),
            dram_latency=column([gpu.latency.dram for gpu in gpus]),
            gddr=column(np.where(np.isin(capability, HBM), 0.2, 1.0)),
            l2_bytes=column([gpu.l2_bytes for gpu in gpus]),
            l2_bandwidth=column([32.0 / float(gpu.cpi.l2) for gpu in gpus]),
            l2_latency=column([gpu.latency.l2 for gpu in gpus]),
            shared_bytes=column([one.shared_bytes_per_sm for one in limits]),
            shared_reserved=column([one.shared_bytes_reserved for one in limits]),
            registers=column([one.registers_per_sm for one in limits]),
            warps=column([one.warps_per_sm for one in limits]),
            blocks=column([one.blocks_per_sm for one in limits]),
            mma_warp=column([rate(gpu, "mma_warp") for gpu in gpus]),
            shared_operands=column(np.isin(capability, SHARED_OPERANDS)),
            mma={name: column([rate(gpu, name) for gpu in gpus]) for name in RATES},
        )


def possible(
    file: GpuFile, products: Sequence[Product], configurations: Int[np.ndarray, "configurations 6"]
) -> Bool[np.ndarray, "products configurations"]:
    """Whether the buffers of a configuration fit in the shared memory of a block."""
    rows, columns, depth, stages = (configurations[:, place] for place in (0, 1, 2, 5))
    buffers = stages if int(file.gpu.compute_capability) >= BUFFERS_OF_SHARED else stages - 1
    kinds = [OPERANDS[one.operands] for one in products]
    row_bytes = np.array([[kind.activation_bytes] for kind in kinds])
    column_bytes = np.array([[kind.weight_bytes] for kind in kinds])
    asked = (rows * row_bytes + columns * column_bytes) * depth * buffers
    return asked <= int(file.gpu.limits.shared_bytes_per_block)
