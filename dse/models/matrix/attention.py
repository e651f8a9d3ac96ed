"""Closed-form time of forward attention: blocks of queries that iterate over tiles of keys.

A pass multiplies queries by a tile of keys, computes the softmax (an exponential on the special function
units and a few instructions per score), and multiplies by a tile of values. The times of products and softmax
add up if each warp alternates between them (FlashAttention 2, Triton), and overlap well if warp groups
alternate (FlashAttention 3). Causal: a block stops at its diagonal, and SMs finish at different times.
`visited`: number of keys per block of queries under a mask. Grouped heads share keys: with `packed`, rows of
a block are queries of all heads of a group, as in decoding. Each page of keys costs a look-up.

Sources: Dao 2023 (FlashAttention 2: work of a block, 73 % of an A100, 35 % of an H100); Shah et al. 2024
(FlashAttention 3: alternating softmax and products; Fig. 5, with FlashAttention 2 and Triton on an H100).
The instructions per score are not published: SLOTS and the exponents of overlap were chosen to match those
figures, and so was that Hopper, with its short products, hides nothing of an alternating softmax.
SETUP, FIRST and STORED were fitted to candidates of Inductor's flex attention on an A100
(AlnisM/autoheuristic-datasets).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from dse.errors import DseError
from dse.hardware.memory import written
from dse.models.matrix.case import BACK_TO_BACK, Timing
from dse.models.matrix.configuration import Configuration
from dse.models.matrix.constants import Constants
from dse.models.matrix.machine import RATES, SHARED_OPERANDS, SHARED_ROWS, Machine, at_least_one
from dse.models.matrix.problem import OPERANDS
from dse.models.matrix.time import FULL_RATE, overlap
from dse.types import Gpu

KINDS = ("bf16", "fp16", "tf32", "fp32")
SM_OVERLAP = 4.5  # exponent of overlap of an SM's pipes
BY_TURNS = 2  # exponent of overlap of products and softmax between warp groups
BESIDE = 1.1  # the same if each warp alternates, between blocks; a single block has no overlap
UNEVEN = 2.0 / 3.0  # of a mean block: spread of SM end times if blocks have 0 to twice the mean keys
SLOTS = 5.0  # issue slots per score without its exponential, which uses another pipe
LANES, SCHEDULERS, LINE, COPY = 32.0, 4.0, 128.0, 16.0
SETUP = 2.7  # other work of a block before its loop, in addresses of copies
FIRST, STORED = 0.5, 0.12  # shares: of first copies, hidden by other blocks; of a store, delaying others
STARVED = 1.5  # DRAM's loss with few bytes in flight per block, relative to those of a pass


@dataclass(frozen=True)
class Attention:
    """One launch: batch × heads × queries × head_dim over keys, results of the operands' type."""

    batch: int
    heads: int
    queries: int
    keys: int
    head_dim: int
    key_heads: int | None = None  # None: one per head
    operands: str = "bf16"
    causal: bool = False
    visited: int | None = None
    page: int | None = None
    packed: bool = False

    def __post_init__(self) -> None:
        for name in ("batch", "heads", "queries", "keys", "head_dim"):
            if getattr(self, name) < 1:
                raise DseError(f"attention: {name}: found {getattr(self, name)!r}, expected at least 1")
        if self.heads % self.groups:
            raise DseError(f"attention: key_heads: found {self.groups}, expected a divisor of {self.heads}")
        if self.operands not in KINDS:
            raise DseError(f"attention: operands: found {self.operands!r}, expected {', '.join(KINDS)}")

    @property
    def groups(self) -> int:
        """Number of key heads."""
        return self.key_heads or self.heads


class AttentionCase(eqx.Module):
    """Launches of attention as arrays. **Shapes:** [attentions, 1]."""

    blocks: Float[Array, "*#batch"]  # separate heads and sequences
    rows: Float[Array, "*#batch"]  # queries of each
    keys: Float[Array, "*#batch"]
    met: Float[Array, "*#batch"]  # most keys per block of queries
    past: Float[Array, "*#batch"]  # keys before the first query
    causal: Float[Array, "*#batch"]
    pages: Float[Array, "*#batch"]  # look-ups per key
    depth: Float[Array, "*#batch"]
    size: Float[Array, "*#batch"]  # bytes of an element
    shared_keys: Float[Array, "*#batch"]  # bytes of distinct keys and values
    runs_at: dict[str, Float[Array, "*#batch"]]

    @staticmethod
    def of(attentions: Sequence[Attention]) -> "AttentionCase":
        """Convert launches of attention to arrays."""
        kinds = [OPERANDS[attention.operands] for attention in attentions]
        packs = [attention.heads // attention.groups if attention.packed else 1 for attention in attentions]

        def column(values: Sequence) -> Array:
            return jnp.asarray(np.array([float(value) for value in values], np.float32)[:, None])

        return AttentionCase(
            blocks=column([o.batch * o.heads / pack for o, pack in zip(attentions, packs, strict=True)]),
            rows=column([o.queries * pack for o, pack in zip(attentions, packs, strict=True)]),
            keys=column([attention.keys for attention in attentions]),
            met=column(
                [min(attention.visited or attention.keys, attention.keys) for attention in attentions]
            ),
            past=column([max(attention.keys - attention.queries, 0) for attention in attentions]),
            causal=column([attention.causal for attention in attentions]),
            pages=column([1.0 / attention.page if attention.page else 0.0 for attention in attentions]),
            depth=column([attention.head_dim for attention in attentions]),
            size=column([kind.activation_bytes for kind in kinds]),
            shared_keys=column(
                [
                    2.0
                    * attention.batch
                    * attention.groups
                    * attention.keys
                    * attention.head_dim
                    * kind.activation_bytes
                    for attention, kind in zip(attentions, kinds, strict=True)
                ]
            ),
            runs_at={name: column([kind.rate == name for kind in kinds]) for name in RATES},
        )


def buffer_bytes(tile: tuple[Any, ...], depth: Any, size: Any, from_shared: Any, exchanged: Any) -> Any:
    """Return the shared memory of a block: queries, tiles of keys and values, and scores that warps exchange.

    These are scores of four bytes, and where `exchanged` is 1 also those of two: warps divide scores by rows,
    and results by columns if a row of these is longer than a column, so that each needs all scores. Operands
    that tensor cores read from shared memory need an additional buffer until they are multiplied.
    For NumPy and JAX arrays. **Source:** code compiled by Triton 3.9 (layout of warps: AccelerateMatmul).
    """
    rows, columns, stages = tile
    buffers = at_least_one(stages - 1 + from_shared)
    scores = rows * columns * (2.0 * (size - 2.0) + exchanged * (4.0 - size))
    return (rows * depth + 2.0 * buffers * columns * depth) * size + scores


def possible(
    gpu: Gpu, depth: Any, size: Any, configurations: Int[np.ndarray, "configurations parameters"]
) -> Bool[np.ndarray, " configurations"]:
    """Return whether the buffers of each configuration fit; `depth` and `size` are scalars or per row."""
    rows, columns, stages = configurations[:, [0, 1, 5]].T
    from_shared = (int(gpu.compute_capability) in SHARED_OPERANDS) * (rows >= SHARED_ROWS)
    exchanged = (rows < depth) * (1 - from_shared)
    asked = buffer_bytes((rows, columns, stages), depth, size, from_shared, exchanged)
    return asked <= float(gpu.limits.shared_bytes_per_block)


def seconds(
    machine: Machine,
    case: AttentionCase,
    tile: Configuration,
    constants: Constants,
    timing: Timing = BACK_TO_BACK,
    by_turns: bool = False,
    from_registers: bool = False,
) -> Float[Array, "*#batch"]:
    """Predict the time of launches in s.

    A `tile` has rows of queries and columns of keys. `by_turns`: as in FlashAttention 3. `from_registers`: as
    in FlashAttention 2, on every GPU, with queries read from shared memory in each pass.

    **Shapes:** broadcast; attentions × configurations.
    """
    k, bm, bn, d, size = constants, tile.rows, tile.columns, case.depth, case.size
    hopper = machine.shared_operands > 0
    from_shared = hopper & (bm >= SHARED_ROWS) & (case.runs_at["fp32"] == 0.0) & (not from_registers)
    rate = reduce(jnp.add, (case.runs_at[name] * machine.mma[name] for name in RATES))
    by_warp = jnp.where(case.runs_at["fp32"] > 0.0, 0.0, machine.mma_warp)
    instruction = size / 2.0 / 2048.0  # of a multiply-add
    between = (1.0 / jnp.minimum(k.mma, 1.0) - 1.0) * FULL_RATE
    out_of_registers = jnp.maximum(rate, by_warp * instruction) + between * instruction
    products = 2.0 * bm * bn * d * jnp.where(from_shared, rate / jnp.minimum(k.wgmma, 1.0), out_of_registers)
    exponentials, others = machine.convert, SLOTS / SCHEDULERS
    together = jnp.maximum(exponentials, others)
    score = together if by_turns else jnp.where(hopper, exponentials + others, together)
    softmax = bm * bn / LANES * score
    by_warps = jnp.clip(bm / 16.0, 1.0, tile.warps)
    readers = jnp.where(from_shared, jnp.maximum(bm / SHARED_ROWS, 1.0) * k.wgmma_reads, by_warps)
    queries = bm * d * jnp.where(from_shared, k.wgmma_reads, float(from_registers))
    shared = ((readers + 1.0) * 2.0 * bn * d + queries) * size / LINE / k.shared

    tiles = jnp.ceil(case.rows / bm)
    blocks = case.blocks * tiles
    diagonal = case.past + bm * (tiles + 1.0) / 2.0 + bn / 2.0  # keys of the mean block, in whole tiles
    met = jnp.where(case.causal > 0.0, jnp.minimum(diagonal, case.met), case.met)
    passes = jnp.maximum(met / bn, 1.0)
    exchanged = (bm < d) & ~from_shared & (not from_registers)
    flags = (jnp.where(flag, 1.0, 0.0) for flag in (from_shared, exchanged))
    kept = buffer_bytes((bm, bn, tile.stages), d, size, *flags) + machine.shared_reserved
    threads = LANES * tile.warps
    wanted = bm * (d + bn) / threads + k.registers
    most = jnp.minimum(machine.registers_a_thread, machine.registers / threads)
    spilling = 1.0 + k.spill * jnp.maximum(wanted - most, 0.0) / most
    resident = machine.registers / (jnp.minimum(wanted, most) * threads)
    resident = jnp.minimum(machine.shared_bytes / kept, resident)
    resident = jnp.maximum(jnp.floor(jnp.minimum(resident, machine.warps / tile.warps)), 1.0)
    share = blocks / machine.sms
    on_sm = jnp.ceil(share)
    uneven = (case.causal > 0.0) & (tiles > 1.0)
    on_sm = jnp.where(uneven, jnp.maximum(share, 1.0) + UNEVEN * jnp.minimum(resident, share), on_sm)

    fed = jnp.where(hopper, overlap(SM_OVERLAP, products, shared), products)
    in_turn = jnp.where(hopper & (jnp.minimum(resident, on_sm) >= 2.0), BESIDE, 1.0)
    busy = overlap(BY_TURNS if by_turns else in_turn, fed, softmax)
    busy = jnp.maximum(busy, shared) * spilling
    results = case.blocks * case.rows * d * size
    read = case.shared_keys * case.met / case.keys
    cold = jnp.maximum(jnp.where(read + results > machine.l2_bytes, 1.0, 0.0), timing.flushed)
    latency = k.latency * (machine.dram_latency * cold + machine.l2_latency * (1.0 - cold))
    first = k.lookups * machine.l2_latency + latency
    looked_up = case.pages * bn * machine.l2_latency
    drained = k.barrier * jnp.where(from_shared, 2.0 * k.wgmma_barrier, 1.0)  # waits for both products
    alone = (busy if by_turns else (fed + softmax) * spilling) + drained + looked_up
    waves = jnp.maximum(on_sm / resident, 1.0)
    store = k.store * (bm * d / 16.0 + 300.0)
    setup = k.setup * ((bm + 2.0 * bn) * d * size / COPY / threads + SETUP) * tile.warps / SCHEDULERS
    waiting = waves * (passes * alone + FIRST * first + setup + store)
    from_l2 = on_sm * (passes * 2.0 * bn * d * size + bm * d * size) / (machine.l2_bandwidth * k.l2)
    cycles = overlap(SM_OVERLAP, waiting, on_sm * (passes * busy + setup + STORED * store), from_l2)
    moved = read * cold + written(read, results, timing.flushed * k.dirty * machine.l2_bytes)
    dram = moved / (machine.dram_bandwidth * jnp.minimum(k.dram, 1.0))
    dram = dram * (1.0 + STARVED * jnp.maximum(1.0 - blocks / machine.sms, 0.0))
    sm = cycles / machine.clock
    return k.launch + timing.events * k.events + overlap(k.overlap, sm, dram)
