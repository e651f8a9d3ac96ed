"""Zhang & Owens' rule for a kernel that both computes and accesses memory, from curves of pure kernels.

`alu` and `mem` are measured throughputs of kernels that do one of the two only, at the same resident warps:
the rule needs measurements, so it is no model of the registry.

Source: Zhang & Owens, HPCA 2011, second hand: a public implementation that follows Volkov's account. How the
paper gets the curves of a kernel's own pipes was not established.
"""

import jax.numpy as jnp
from jaxtyping import Array

from dse.hardware.memory import safe_divide


def overlapped(alu: Array, mem: Array, intensity: Array) -> Array:
    """Return the computations a cycle where both overlap; `intensity` is computations for each access."""
    throughput = intensity * mem
    return jnp.minimum(alu, throughput)


def one_by_one(alu: Array, mem: Array, intensity: Array) -> Array:
    """Return the computations a cycle where nothing overlaps: the times of both add up."""
    throughput = intensity * mem
    return safe_divide(alu * throughput, alu + throughput)
