"""Kothapalli et al.: the cycles of one thread, times the threads that an SM runs in sequence.

A program is a sequence of kernels (BSP), a thread computes and accesses memory (PRAM), and accesses queue at
a bank or share a transaction (QRQW). Computation and memory of a thread overlap either fully (MAX) or not at
all (SUM). Defaults are the paper's constants, for a GeForce GTX 280.

Source: Kothapalli et al., HiPC 2009. Numbers K are its equations, in order.
"""

from collections.abc import Callable, Sequence
from functools import reduce

import jax.numpy as jnp
from jaxtyping import Array

from dse.hardware.memory import access_latency
from dse.hardware.tensor import tensor_cycles
from dse.models.about import About
from dse.types import ARITHMETIC, Gpu, Kernel, Launch, Prediction

# Cycles of one thread
INT_ADD, INT_MULTIPLY = 4.0, 16.0
GLOBAL_ACCESS = 500.0  # mean of 400 to 600
SERVED = 16.0  # threads of a coalesced transaction: half a warp

CORES = 8.0  # N_C, of an SM
DEPTH = 4.0  # D, stages of a core's pipeline

ABOUT = About(
    source="Kothapalli et al., HiPC 2009",
    equations={
        "K1": "T(P) = Σ T(K_k)",
        "K3": "C(K) = N_B N_w N_t C_T / (N_C D)",
        "K4": "T(K) = C(K) / R",
    },
    inputs=(
        "λ of each arithmetic pipe, of tensor cores and of a pass through shared memory, as cycles of a "
        "thread",
        "latency of memory, by the share that each level serves",
        "counts of instructions; global accesses, and how many of them do not coalesce",
        "blocks of an SM and warps of a block",
        "sub-partitions of an SM: each runs a warp at a time, as an SM of the paper does (N_C D = 32)",
    ),
    ignores=(
        "latency of computation, instruction-level and memory-level parallelism",
        "occupancy: all warps of an SM run one after another, resident or not",
        "throughput of memory",
        "barriers (4 cycles each: the paper leaves them out)",
        "issue limit and schedulers",
    ),
    use_when="",  # of a variant
    aspects=frozenset({"Λ_mem"}),
    monotone=True,
)


def coalesced_access(threads: Array | float = SERVED, access: Array | float = GLOBAL_ACCESS) -> Array | float:
    """Return the cycles of one thread's access to global memory: (500 + k) / k if a transaction serves k.

    A transaction for a single thread takes `access`.
    """
    return (access + threads) / threads


def kernel_cycles(
    of_thread: Array | float,
    blocks: Array | float,
    warps: Array | float,
    threads: Array | float = 32.0,
    cores: Array | float = CORES,
    depth: Array | float = DEPTH,
) -> Array | float:
    """Return C(K), the cycles of an SM for this number of blocks and warps per block (Eq. K3).

    `of_thread` is C_T, the maximum cycles over the kernel's threads (Eq. K2).
    """
    return blocks * warps * threads * of_thread / (cores * depth)


def program(
    gpu: Gpu, kernels: Sequence[tuple[Kernel, Launch]], model: Callable[..., Prediction]
) -> Prediction:
    """Predict a program of kernels that run in sequence (Eq. K1); `model` is a variant's `predict`."""
    predictions = [model(gpu, kernel, launch) for kernel, launch in kernels]
    names = dict.fromkeys(name for prediction in predictions for name in prediction.terms)
    terms = {name: reduce(jnp.add, (prediction.terms[name] for prediction in predictions)) for name in names}
    return Prediction.of(gpu.clock, **terms)


def of_thread(gpu: Gpu, kernel: Kernel) -> tuple[Array, Array]:
    """Return N_comp and N_mem, cycles of one thread for computation and memory.

    The paper's costs are λ of its GPU. An SM with p sub-partitions runs p warps at a time, each p times as
    long per instruction. A transaction serves one thread per cycle: on that GPU, a quarter of the cycles
    that a warp takes in the load/store units.
    """
    partitions = gpu.limits.sub_partitions.astype(gpu.clock.dtype)
    busy = [getattr(kernel.work, name) * getattr(gpu.cpi, name) for name in ARITHMETIC]
    comp = reduce(jnp.add, busy, kernel.other_insts / gpu.issue_limit) + tensor_cycles(gpu, kernel.work)
    latency = access_latency(gpu, kernel)
    turn = gpu.lsu_cycles * partitions / DEPTH
    coal = (kernel.mem_insts - kernel.uncoal_insts) * (latency / SERVED + turn)
    mem = coal + kernel.uncoal_insts * latency + partitions * kernel.work.shared * gpu.cpi.shared
    return partitions * comp, mem


def times(gpu: Gpu, launch: Launch) -> Array:
    """Return N_B N_w N_t / (N_C D), the number of threads that each lane and stage runs in sequence."""
    return launch.warps_per_sm * launch.waves / gpu.limits.sub_partitions.astype(gpu.clock.dtype)
