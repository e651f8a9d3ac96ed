"""Constants of Triton's matrix products that are in no data sheet: defaults and fitted values.

A constant is its default times exp(spread x), where x is fitted with a standard normal prior.
`scripts/studies/evaluate_moe.py DIR --write` writes the fitted values to constants.toml.
"""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

SPREAD = 0.16  # rms of log(time / prediction) on six tables of held-out GPUs: 0.11 to 0.22
FILE = Path(__file__).with_name("constants.toml")  # of NVIDIA's
AMD_FILE = Path(__file__).with_name("constants_amd.toml")


@dataclass(frozen=True)
class ConstantPrior:
    """The prior of a constant."""

    default: float
    spread: float  # of its logarithm
    unit: str


def constant(default: float, spread: float, unit: str = "1"):
    """Declare a constant."""
    return eqx.field(metadata={"about": ConstantPrior(default, spread, unit)})


class Constants(eqx.Module):
    """The constants of `dse.models.matrix.time`, in order of use."""

    # Registers of a thread, and the cost of spills
    registers: Float[Array, ""] = constant(40, 0.3)  # without sums, operands and addresses
    address_registers: Float[Array, ""] = constant(2.5, 0.3)  # per 16-byte copy
    narrow_registers: Float[Array, ""] = constant(0.8, 0.4)  # per copy below 4 bytes at an offset of another
    held_operands: Float[Array, ""] = constant(0.5, 0.4)  # share of a tile's operands in registers at a time
    spill: Float[Array, ""] = constant(5, 0.7)  # slowdown if twice the register file is needed
    # One SM
    mma: Float[Array, ""] = constant(0.9, 0.1)  # share of the tensor rate, operands in registers
    fma: Float[Array, ""] = constant(0.93, 0.1)  # share of the rate of single-precision multiply-adds
    wgmma: Float[Array, ""] = constant(0.8, 0.15)  # share of the tensor rate, operands in shared memory
    shared: Float[Array, ""] = constant(0.9, 0.2)  # share of the bandwidth of shared memory
    wgmma_reads: Float[Array, ""] = constant(0.6, 0.3)  # share of wgmma's reads that delay others
    copy_slots: Float[Array, ""] = constant(4, 0.5, "issue slots")  # per copy, of 16 bytes if possible
    narrow: Float[Array, ""] = constant(1.5, 0.4)  # the same of a synchronous copy, relative
    loop_slots: Float[Array, ""] = constant(30, 0.5, "issue slots")  # per pass of the loop
    setup: Float[Array, ""] = constant(18, 0.3, "issue slots")  # per block and address of a copy
    sums_slots: Float[Array, ""] = constant(2.5, 0.3, "issue slots")  # to scale and add the sums of a pass
    fp8_slots: Float[Array, ""] = constant(2, 0.5, "issue slots")  # to convert an element to fp16, in pairs
    convert: Float[Array, ""] = constant(1, 0.3)  # conversions of an int8 weight to fp16 or bf16
    scales: Float[Array, ""] = constant(100, 0.5, "cycles")  # per pass that loads scales, single block
    barrier: Float[Array, ""] = constant(80, 0.5, "cycles")  # per pass of the loop, single block
    step: Float[Array, ""] = constant(10, 0.7, "cycles")  # to read, then multiply 32 bytes of depth, alone
    wgmma_barrier: Float[Array, ""] = constant(1, 0.4)  # the same with wgmma, relative
    store: Float[Array, ""] = constant(1, 0.6)  # of a tile's result, relative to 32 B a cycle
    l2: Float[Array, ""] = constant(1, 0.3)  # share of the bandwidth of L2
    short_rows: Float[Array, ""] = constant(0.3, 0.6)  # L2's loss in misses of rows of one 128-byte line
    sm_overlap: Float[Array, ""] = constant(5, 0.15)  # exponent of the overlap of an SM's pipes
    # Latency
    latency: Float[Array, ""] = constant(1, 0.3)  # of memory, relative to idle memory
    early: Float[Array, ""] = constant(0.4, 0.3)  # share of a pass: copies are needed so long before its end
    lookups: Float[Array, ""] = constant(2, 0.4)  # in three L2 latencies, before a block's first copy
    fill: Float[Array, ""] = constant(0.5, 0.5)  # of a block's first copies, relative to 64 B a cycle
    # DRAM and L2
    dram: Float[Array, ""] = constant(0.93, 0.03)  # share of the bandwidth reached by long streams
    starved: Float[Array, ""] = constant(0.5, 0.5)  # loss by latency over copies in flight
    crowded: Float[Array, ""] = constant(0.005, 0.7)  # loss by copies in flight over latency
    crowding: Float[Array, ""] = constant(1, 0.3)  # its exponent
    turn: Float[Array, ""] = constant(4, 0.3, "ns")  # of a channel to another row, beside its other banks
    run: Float[Array, ""] = constant(2, 0.3)  # exponent of the overlap of this and the transfer
    dirty: Float[Array, ""] = constant(0.85, 0.1)  # share of L2 written by a flush, not yet in DRAM
    l2_share: Float[Array, ""] = constant(0.6, 0.3)  # share of L2 that keeps data for reuse within a kernel
    l2_edge: Float[Array, ""] = constant(0.2, 0.4)  # width of the transition, in its logarithm
    drift: Float[Array, ""] = constant(0.07, 0.5)  # distance of blocks of a wave, as a share of their depth
    resident: Float[Array, ""] = constant(1.1, 0.1)  # share of L2 that keeps weights from launch to launch
    resident_halved: Float[Array, ""] = constant(0.75, 0.1)  # the same of an L2 of two halves
    resident_edge: Float[Array, ""] = constant(0.04, 0.4)
    interleave: Float[Array, ""] = constant(1, 0.5)  # AMD: exponent of the overlap of pipes, per wave
    large_instruction: Float[Array, ""] = constant(0.03, 0.5)  # AMD: additional time of 32 × 32 over 16 × 16
    short_reads: Float[Array, ""] = constant(0.15, 0.5)  # AMD: the same of 8-byte reads of shared memory
    fabric: Float[Array, ""] = constant(0.6, 0.3)  # share of the bandwidth of a cache shared by dies
    overlap: Float[Array, ""] = constant(4, 0.15)  # exponent of the overlap of SMs and DRAM
    # A launch
    launch: Float[Array, ""] = constant(1.5e-6, 0.4, "s")
    events: Float[Array, ""] = constant(3.5e-6, 0.4, "s")  # overhead of a launch between two events
    ramp: Float[Array, ""] = constant(1, 0.4)  # of the first blocks' first copies, relative
    small: Float[Array, ""] = constant(4200, 0.4, "cycles")  # a short launch of a layer, besides its products
    stream: Float[Array, ""] = constant(0.5, 0.3)  # share of the bandwidths of L2 and DRAM reached by these
    idle_block: Float[Array, ""] = constant(0.5e-6, 0.7, "s")  # a block without rows

    @staticmethod
    def at(x: Float[Array, " constants"]) -> "Constants":
        """Return the constants at standard-normal coordinates."""
        return Constants(
            *(about.default * jnp.exp(about.spread * x[i]) for i, about in enumerate(ABOUT.values()))
        )


ABOUT: dict[str, ConstantPrior] = {field.name: field.metadata["about"] for field in fields(Constants)}


def default() -> Constants:
    """Return the default constants."""
    return Constants.at(jnp.zeros(len(ABOUT), jnp.float32))


@cache
def fitted(amd: bool = False) -> Constants:
    """Return the package's constants for NVIDIA's or AMD's GPUs; defaults for those not fitted."""
    table = tomllib.loads((AMD_FILE if amd else FILE).read_text(encoding="utf-8"))["constants"]
    values = [table[name]["value"] if name in table else about.default for name, about in ABOUT.items()]
    return Constants(*(jnp.asarray(value, jnp.float32) for value in values))


def of_gpus(amd: Sequence[bool]) -> Constants:
    """Return the constants of each GPU. **Shapes:** [gpus, 1, 1], or scalars if all have the same."""
    if len(set(amd)) < 2:
        return fitted(any(amd))
    return jax.tree.map(lambda *values: jnp.stack(values)[:, None, None], *map(fitted, amd))
