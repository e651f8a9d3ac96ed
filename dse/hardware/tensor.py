"""The tensor pipe: what products of matrices take of it."""

from functools import reduce

import jax.numpy as jnp
from jaxtyping import Array

from dse.hardware.memory import safe_divide
from dse.types import MMA, Gpu, PerClass


def tensor_cycles(gpu: Gpu, work: PerClass) -> Array:
    """Return the cycles that work keeps the tensor pipe of an SM busy. **Shapes:** broadcast.

    Multiply-adds of every kind share it. Products out of registers take it as long as it is fed from there,
    where that is longer: on Hopper they reach 62 % of what products out of shared memory do.
    """
    products = reduce(jnp.add, (getattr(work, name) * getattr(gpu.cpi, name) for name in MMA))
    return jnp.maximum(products, work.mma_warp * gpu.cpi.mma_warp)


def tensor_latency(gpu: Gpu, work: PerClass) -> Array:
    """Return Λ of a matrix instruction, cycles: the mean over the multiply-adds of all kinds, 0 of none."""
    kinds = [(getattr(work, name), getattr(gpu.latency, name)) for name in MMA]
    total = reduce(jnp.add, (products for products, _ in kinds))
    return safe_divide(reduce(jnp.add, (products * latency for products, latency in kinds)), total)
