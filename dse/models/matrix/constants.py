"""Constants of Triton's products of matrices that no data sheet states: defaults and fitted values.

A constant is its default times exp(spread x): x is fitted, with a standard normal prior.
constants.toml has fitted values; `scripts/studies/evaluate_moe.py DIR --write` writes it.
"""

import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

SPREAD = 0.16  # rms of log(time / prediction) over six tables and GPUs left out: 0.11 to 0.22
FILE = Path(__file__).with_name("constants.toml")  # of NVIDIA's
AMD_FILE = Path(__file__).with_name("constants_amd.toml")


@dataclass(frozen=True)
class ConstantPrior:
    """One constant before any data."""

    default: float
    spread: float  # of its logarithm
    unit: str


def constant(default: float, spread: float, unit: str = "1"):
    """Declare a constant."""
    return eqx.field(metadata={"about": ConstantPrior(default, spread, unit)})


class Constants(eqx.Module):
    """The constants of `dse.models.matrix.time`, in the order in which they are used there."""

    # Registers of a thread, and what lack of them costs
    registers: Float[Array, ""] = constant(40, 0.3)  # beside sums, operands and addresses
    address_registers: Float[Array, ""] = constant(2.5, 0.3)  # for each 16-byte copy
    narrow_registers: Float[Array, ""] = constant(0.8, 0.4)  # for one below 4 bytes, an offset of another
    held_operands: Float[Array, ""] = constant(0.5, 0.4)  # share of a tile's operands in registers at a time
    spill: Float[Array, ""] = constant(5, 0.7)  # slowdown of a register file asked for twice
    # One SM
    mma: Float[Array, ""] = constant(0.9, 0.1)  # share of the tensor rate, operands out of registers
    fma: Float[Array, ""] = constant(0.93, 0.1)  # share of the rate of multiply-adds of single precision
    wgmma: Float[Array, ""] = constant(0.8, 0.15)  # the same, operands out of shared memory
    shared: Float[Array, ""] = constant(0.9, 0.2)  # share of the bandwidth of shared memory
    wgmma_reads: Float[Array, ""] = constant(0.6, 0.3)  # share of wgmma's reads of it that others feel
    copy_slots: Float[Array, ""] = constant(4, 0.5, "issue slots")  # of a copy, of 16 bytes if it can be
    narrow: Float[Array, ""] = constant(1.5, 0.4)  # the same of one that is not asynchronous, relative
    loop_slots: Float[Array, ""] = constant(30, 0.5, "issue slots")  # of a pass of the loop
    setup: Float[Array, ""] = constant(18, 0.3, "issue slots")  # of a block, for the address of each copy
    sums_slots: Float[Array, ""] = constant(2.5, 0.3, "issue slots")  # to scale and add a sum of a pass
    fp8_slots: Float[Array, ""] = constant(2, 0.5, "issue slots")  # to make an element fp16, two at a time
    convert: Float[Array, ""] = constant(1, 0.3)  # conversions of an int8 weight to fp16 or bf16
    scales: Float[Array, ""] = constant(100, 0.5, "cycles")  # of a pass that loads scales, alone
    barrier: Float[Array, ""] = constant(80, 0.5, "cycles")  # of a pass of the loop, alone
    step: Float[Array, ""] = constant(10, 0.7, "cycles")  # of 32 bytes of depth read, then multiplied, alone
    wgmma_barrier: Float[Array, ""] = constant(1, 0.4)  # the same with wgmma, relative
    store: Float[Array, ""] = constant(1, 0.6)  # of a tile's result, relative to 32 B a cycle
    l2: Float[Array, ""] = constant(1, 0.3)  # share of the bandwidth of L2
    short_rows: Float[Array, ""] = constant(0.3, 0.6)  # of L2: rows of one 128-byte line that DRAM must bring
    sm_overlap: Float[Array, ""] = constant(5, 0.15)  # exponent: how well an SM's pipes overlap
    # Latency
    latency: Float[Array, ""] = constant(1, 0.3)  # of memory, relative to an idle one's
    early: Float[Array, ""] = constant(0.4, 0.3)  # of a pass: so much before its end are copies needed
    lookups: Float[Array, ""] = constant(2, 0.4)  # three of L2's latencies, before a block's first copy
    fill: Float[Array, ""] = constant(0.5, 0.5)  # of a block's first copies, relative to 64 B a cycle
    # DRAM and L2
    dram: Float[Array, ""] = constant(0.93, 0.03)  # share of the bandwidth that long streams reach
    starved: Float[Array, ""] = constant(0.5, 0.5)  # loss by latency over copies in flight
    crowded: Float[Array, ""] = constant(0.005, 0.7)  # loss by copies in flight over latency
    crowding: Float[Array, ""] = constant(1, 0.3)  # its exponent
    page: Float[Array, ""] = constant(0.0333, 0.7)  # loss of GDDR where 1 KiB of a row is asked for at a time
    stacked_page: Float[Array, ""] = constant(0.0067, 0.7)  # the same of stacked memory
    run: Float[Array, ""] = constant(0.7, 0.3)  # exponent of 1 KiB over what is
    l2_share: Float[Array, ""] = constant(0.6, 0.3)  # share of L2 that keeps what one kernel reads again
    l2_edge: Float[Array, ""] = constant(0.2, 0.4)  # how gradually it stops to, in its logarithm
    drift: Float[Array, ""] = constant(0.07, 0.5)  # share of their depth that blocks of a wave are apart
    resident: Float[Array, ""] = constant(1.1, 0.1)  # share of L2 that keeps weights from launch to launch
    resident_edge: Float[Array, ""] = constant(0.04, 0.4)
    interleave: Float[Array, ""] = constant(1, 0.5)  # AMD: exponent of pipes that overlap, for each wave
    large_instruction: Float[Array, ""] = constant(0.03, 0.5)  # AMD: more time of 32 × 32 than of 16 × 16
    short_reads: Float[Array, ""] = constant(0.15, 0.5)  # AMD: the same of reads of 8 bytes of shared memory
    fabric: Float[Array, ""] = constant(0.6, 0.3)  # share of the bandwidth of a cache that dies share
    overlap: Float[Array, ""] = constant(4, 0.15)  # exponent: how well SMs and DRAM overlap
    # A launch
    launch: Float[Array, ""] = constant(1.5e-6, 0.4, "s")
    events: Float[Array, ""] = constant(3.5e-6, 0.4, "s")  # a launch begun and ended between two events
    ramp: Float[Array, ""] = constant(1, 0.4)  # of the first blocks' first copies, relative
    small: Float[Array, ""] = constant(2e-6, 0.4, "s")  # a short launch of a layer beside its products
    stream: Float[Array, ""] = constant(0.8, 0.15)  # share of DRAM's bandwidth that these reach
    idle_block: Float[Array, ""] = constant(0.5e-6, 0.7, "s")  # a block without rows

    @staticmethod
    def at(x: Float[Array, " constants"]) -> "Constants":
        """Constants at standard-normal coordinates."""
        return Constants(
            *(about.default * jnp.exp(about.spread * x[i]) for i, about in enumerate(ABOUT.values()))
        )


ABOUT: dict[str, ConstantPrior] = {field.name: field.metadata["about"] for field in fields(Constants)}


def coordinates(constants: Constants) -> Float[np.ndarray, " constants"]:
    """Standard-normal coordinates of constants, as `Constants.at` takes them."""
    values = ((float(getattr(constants, name)), about) for name, about in ABOUT.items())
    return np.array([np.log(value / about.default) / about.spread for value, about in values])


def default() -> Constants:
    """The constants before any data."""
    return Constants.at(jnp.zeros(len(ABOUT), jnp.float32))


@cache
def fitted(amd: bool = False) -> Constants:
    """The constants that come with the package, of NVIDIA's GPUs or of AMD's; defaults where not fitted."""
    table = tomllib.loads((AMD_FILE if amd else FILE).read_text(encoding="utf-8"))["constants"]
    values = [table[name]["value"] if name in table else about.default for name, about in ABOUT.items()]
    return Constants(*(jnp.asarray(value, jnp.float32) for value in values))


def of_gpus(amd: Sequence[bool]) -> Constants:
    """The constants of each of several GPUs. **Shapes:** [gpus, 1, 1], or none where all have the same."""
    if len(set(amd)) < 2:
        return fitted(any(amd))
    return jax.tree.map(lambda *values: jnp.stack(values)[:, None, None], *map(fitted, amd))


def text(x: np.ndarray, spread: np.ndarray, source: str) -> str:
    """Write fitted constants as the file has them; `spread` is that of x over fits that leave a GPU out."""
    lines = [
        "# Written by scripts/studies/evaluate_moe.py --write: its module constants.py says what each is.",
        "# spread: of the logarithm, over fits that leave an architecture out.",
        f"source = {json.dumps(source)}",
        "",
        "[constants]",
    ]
    for place, (name, about) in enumerate(ABOUT.items()):
        value, of_value = about.default * np.exp(about.spread * x[place]), about.spread * spread[place]
        lines.append(f'{name} = {{ value = {value:.5g}, unit = "{about.unit}", spread = {of_value:.2g} }}')
    return "\n".join(lines) + "\n"
