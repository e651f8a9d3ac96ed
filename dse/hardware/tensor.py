"""The tensor pipe: the cost of matrix products, and the kinds that a GPU lacks."""

from functools import reduce

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from dse.hardware.memory import safe_divide
from dse.types import ABSENT, MMA, TENSOR, Gpu, PerClass

HEAT = 0.3  # more time of tensor cores that always work, by power: cuBLAS keeps 0.73 of an A100's peak
# Bits of operands that an SM multiplies in a cycle, from a compute capability on: NVIDIA's papers on each.
FULL = ((70, 8192.0), (80, 16384.0), (86, 8192.0), (90, 32768.0), (100, 65536.0), (120, 8192.0))
BITS = {
    "mma_fp16": 16.0,
    "mma_fp16_fp16": 16.0,
    "mma_tf32": 32.0,
    "mma_fp32": 32.0,
    "mma_fp8": 8.0,
    "mma_fp8_fp16": 8.0,
    "mma_fp4": 4.0,
    "mma_int8": 8.0,
    "mma_fp64": 64.0,
}
NEVER = 1e-6 * ABSENT  # cycles: above any real number, and below ABSENT even after it was scaled
LACKS = {  # limiters for GPUs without them
    "mma_fp16": "no tensor cores for fp16",
    "mma_fp16_fp16": "no tensor cores for fp16 with sums in fp16",
    "mma_tf32": "no tensor cores for tf32",
    "mma_fp32": "no tensor cores for fp32",
    "mma_fp8": "no tensor cores for fp8",
    "mma_fp8_fp16": "no tensor cores for fp8 with sums in fp16 or block scales",
    "mma_fp4": "no tensor cores for fp4",
    "mma_int8": "no tensor cores for int8",
    "mma_fp64": "no tensor cores for fp64",
    "mma_warp": "no tensor cores",
}


def tensor_cycles(gpu: Gpu, work: PerClass) -> Array:
    """Return the cycles that work occupies the tensor pipe of an SM. **Shapes:** broadcast.

    All kinds of multiply-adds share it. Products from registers are also limited by register bandwidth: on
    Hopper they reach 63 % of the throughput of products from shared memory.
    """
    return jnp.maximum(reduce(jnp.add, _products(gpu, work).values()), work.mma_warp * gpu.cpi.mma_warp)


def _products(gpu: Gpu, work: PerClass) -> dict[str, Array]:
    return {name: getattr(work, name) * getattr(gpu.cpi, name) for name in MMA}


def heat(gpu: Gpu, name: str) -> Array:
    """Return by how much power lengthens products that keep tensor cores busy. **Shapes:** broadcast.

    Power lowers the clock of tensor cores at the full rate of their architecture. At half of it, to which
    GeForce is cut for sums in single precision, and L20, L40 and H20 altogether, they keep it: cuBLAS reaches
    0.96 of an L20's peak. It is 0 for AMD's GPUs, which have no compute capability.
    """
    full = reduce(lambda bits, row: jnp.where(gpu.compute_capability >= row[0], row[1], bits), FULL, NEVER)
    share = BITS[name] / getattr(gpu.cpi, name) / full
    return HEAT * jnp.clip(2.0 * share - 1.0, 0.0, 1.0)


def heat_cycles(gpu: Gpu, work: PerClass) -> Array:
    """Return the cycles that power adds to those of `tensor_cycles`. **Shapes:** broadcast."""
    products = _products(gpu, work)
    hot = reduce(jnp.add, (products[name] * heat(gpu, name) for name in MMA))
    return tensor_cycles(gpu, work) * safe_divide(hot, reduce(jnp.add, products.values()))


def tensor_latency(gpu: Gpu, work: PerClass) -> Array:
    """Return Λ of a matrix instruction, cycles: the mean over all multiply-adds, 0 without any."""
    kinds = [(getattr(work, name), getattr(gpu.latency, name)) for name in MMA]
    total = reduce(jnp.add, (products for products, _ in kinds))
    return safe_divide(reduce(jnp.add, (products * latency for products, latency in kinds)), total)


def lacking(gpu: Gpu, work: PerClass) -> dict[str, Array | np.ndarray]:
    """For each of TENSOR, whether a kernel needs products that the GPU lacks. **Shapes:** broadcast."""

    def absent(name: str) -> Array | np.ndarray:
        return (getattr(gpu.cpi, name) >= NEVER) | (getattr(gpu.latency, name) >= NEVER)

    return {name: (getattr(work, name) > 0) & absent(name) for name in TENSOR}
