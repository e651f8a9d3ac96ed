"""The time of attention, forward, closed form: blocks of queries that run over the keys, tile by tile.

A pass multiplies queries by a tile of keys, takes the softmax (an exponential of the special function units
and a few instructions a score), and multiplies by a tile of values. Products and softmax add up where each
warp does both in turn (FlashAttention 2, Triton), and overlap well where warp groups take turns
(FlashAttention 3). Causal: a block stops at its diagonal. `visited`: keys that blocks of queries meet, the
same for all, where a mask leaves out the others. Grouped heads share keys: `packed` rows of a block are
queries of all heads of a group, as in decoding. Pages of keys cost a look-up each.

Sources: Dao 2023 (FlashAttention 2: what a block does, 73 % of an A100, 35 % of an H100); Shah et al. 2024
(FlashAttention 3: softmax and products by turns, 75 % of an H100). What a score's instructions take is not
published: SLOTS and the exponent of overlap were chosen with those figures at hand. SETUP, FIRST and STORED
were fitted to candidates of Inductor's flex attention on an A100 (AlnisM/autoheuristic-datasets).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dse.errors import DseError
from dse.models.matrix.case import BACK_TO_BACK, Timing
from dse.models.matrix.configuration import Configuration
from dse.models.matrix.constants import Constants
from dse.models.matrix.machine import RATES, SHARED_ROWS, Machine
from dse.models.matrix.problem import OPERANDS
from dse.models.matrix.time import overlap

KINDS = ("bf16", "fp16", "tf32", "fp32")
BY_TURNS = 2  # exponent of overlap of products and softmax; in turn nothing overlaps
SLOTS = 5.0  # issue slots of a score; its exponential takes another pipe meanwhile
LANES, SCHEDULERS, LINE, COPY = 32.0, 4.0, 128.0, 16.0
SETUP = 2.7  # copies whose addresses take as long as all else that a block does before its loop
FIRST, STORED = 0.5, 0.12  # of first copies, which blocks beside hide; of a store, which others wait for
STARVED = 1.5  # DRAM's loss where a block has few bytes in flight, relative to one pass's


@dataclass(frozen=True)
class Attention:
    """One launch: batch × heads × queries × head_dim over keys, results as wide as operands."""

    batch: int
    heads: int
    queries: int
    keys: int
    head_dim: int
    key_heads: int | None = None  # all heads have their own
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
        """Heads of keys."""
        return self.key_heads or self.heads


class AttentionCase(eqx.Module):
    """Attentions as arrays. **Shapes:** [attentions, 1]."""

    blocks: Float[Array, "*#batch"]  # heads and sequences that are apart
    rows: Float[Array, "*#batch"]  # queries of each
    keys: Float[Array, "*#batch"]
    met: Float[Array, "*#batch"]  # keys that a block of queries may meet
    past: Float[Array, "*#batch"]  # keys before the first query
    causal: Float[Array, "*#batch"]
    pages: Float[Array, "*#batch"]  # look-ups for each key
    depth: Float[Array, "*#batch"]
    size: Float[Array, "*#batch"]  # bytes of an element
    shared_keys: Float[Array, "*#batch"]  # bytes of distinct keys and values
    runs_at: dict[str, Float[Array, "*#batch"]]

    @staticmethod
    def of(attentions: Sequence[Attention]) -> "AttentionCase":
        """Attentions as arrays."""
        kinds = [OPERANDS[attention.operands] for attention in attentions]
        packs = [attention.heads // attention.groups if attention.packed else 1 for attention in attentions]

        def column(values: Sequence) -> Array:
            return jnp.asarray(np.array([float(value) for value in values])[:, None], jnp.float32)

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


def buffer_bytes(tile: tuple[Any, ...], depth: Any, size: Any) -> Any:
    """Shared memory of a block: queries, `buffers` tiles of keys and of values, and scores of four bytes.

    16-bit scores stay in registers. Works on NumPy's and JAX's arrays.
    """
    rows, columns, buffers = tile
    return (rows * depth + 2.0 * buffers * columns * depth) * size + rows * columns * 2.0 * (size - 2.0)


def seconds(
    machine: Machine,
    case: AttentionCase,
    tile: Configuration,
    constants: Constants,
    timing: Timing = BACK_TO_BACK,
    by_turns: bool = False,
) -> Float[Array, "*#batch"]:
    """Predict the time of a launch, in s.

    `tile` has rows of queries and columns of keys. **Shapes:** broadcast; attentions × configurations.
    """
    k, bm, bn, d, size = constants, tile.rows, tile.columns, case.depth, case.size
    from_shared = (machine.shared_operands > 0) & (bm >= SHARED_ROWS) & (case.runs_at["fp32"] == 0.0)
    rate = reduce(jnp.add, (case.runs_at[name] * machine.mma[name] for name in RATES))
    fed = machine.mma_warp / 2048.0 * size / 2.0
    out_of_registers = jnp.maximum(rate, jnp.where(case.runs_at["fp32"] > 0.0, 0.0, fed)) / jnp.minimum(
        k.mma, 1.0
    )
    products = 2.0 * bm * bn * d * jnp.where(from_shared, rate / jnp.minimum(k.wgmma, 1.0), out_of_registers)
    softmax = bm * bn / LANES * jnp.maximum(machine.convert, SLOTS / SCHEDULERS)
    by_warps = jnp.clip(bm / 16.0, 1.0, tile.warps)
    readers = jnp.where(from_shared, jnp.maximum(bm / SHARED_ROWS, 1.0) * k.wgmma_reads, by_warps)
    shared = (readers + 1.0) * 2.0 * bn * d * size / LINE / k.shared

    tiles = jnp.ceil(case.rows / bm)
    blocks = case.blocks * tiles
    diagonal = case.past + bm * (tiles + 1.0) / 2.0 + bn / 2.0  # keys of the average block, whole tiles
    met = jnp.where(case.causal > 0.0, jnp.minimum(diagonal, case.met), case.met)
    passes = jnp.maximum(met / bn, 1.0)
    buffers = jnp.maximum(tile.stages - 1.0, 1.0)
    kept = buffer_bytes((bm, bn, buffers), d, size) + machine.shared_reserved
    threads = LANES * tile.warps
    wanted = bm * (d + bn) / threads + k.registers
    most = jnp.minimum(machine.registers_a_thread, machine.registers / threads)
    spilling = 1.0 + k.spill * jnp.maximum(wanted - most, 0.0) / most
    resident = machine.registers / (jnp.minimum(wanted, most) * threads)
    resident = jnp.minimum(machine.shared_bytes / kept, resident)
    resident = jnp.maximum(jnp.floor(jnp.minimum(resident, machine.warps / tile.warps)), 1.0)
    on_sm = jnp.ceil(blocks / machine.sms)

    busy = overlap(BY_TURNS if by_turns else 1, products, softmax)
    busy = jnp.maximum(busy, shared) * spilling
    results = case.blocks * case.rows * d * size
    read = case.shared_keys * case.met / case.keys
    cold = jnp.maximum(jnp.where(read + results > machine.l2_bytes, 1.0, 0.0), timing.flushed)
    latency = k.latency * (machine.dram_latency * cold + machine.l2_latency * (1.0 - cold))
    first = k.lookups * machine.l2_latency + latency
    looked_up = case.pages * bn * machine.l2_latency
    drained = k.barrier * jnp.where(from_shared, 2.0 * k.wgmma_barrier, 1.0)  # both products are waited for
    alone = (busy if by_turns else (products + softmax) * spilling) + drained + looked_up
    waves = jnp.maximum(on_sm / resident, 1.0)
    store = k.store * (bm * d / 16.0 + 300.0)
    setup = k.setup * ((bm + 2.0 * bn) * d * size / COPY / threads + SETUP) * tile.warps / SCHEDULERS
    waiting = waves * (passes * alone + FIRST * first + setup + store)
    from_l2 = on_sm * (passes * 2.0 * bn * d * size + bm * d * size) / (machine.l2_bandwidth * k.l2)
    cycles = overlap(k.sm_overlap, waiting, on_sm * (passes * busy + setup + STORED * store), from_l2)
    moved = (read + results) * cold + results
    dram = moved / (machine.dram_bandwidth * jnp.minimum(k.dram, 1.0))
    dram = dram * (1.0 + STARVED * jnp.maximum(1.0 - blocks / machine.sms, 0.0))
    sm = cycles / machine.clock
    return k.launch + timing.events * k.events + overlap(k.overlap, sm, dram)
