"""The time of one product of matrices by Triton, closed form.

A block of the grid is a tile of the result. It loops over the depth: copies into shared memory run `stages`
ahead, tensor cores multiply. Blocks lie on SMs in waves; a tile over rows belongs to one expert and may be
padded.

- An SM is as slow as its busiest pipe (tensor cores, shared memory, issue, its share of L2) over all blocks
  that it gets, or as its waves of blocks that wait for copies one after the other.
- DRAM is as slow as its bytes, which waves that read the same again raise where L2 does not keep them. Too
  few copies in flight starve it (Little's law), too many crowd it, and short runs of a row cost GDDR its
  pages.
- SMs and DRAM overlap, but not wholly; a launch and its first copies come before.

What is fitted is in `dse.models.matrix.constants`.
Sources: Triton's matrix multiplication tutorial (grouped order) and its layout of warps (AccelerateMatmul),
MIT; vLLM's fused_moe kernel (Apache-2.0); Little 1961. Hopper converts fp8 that comes out of registers, and
slowly: NVIDIA/cutlass issue 1986, triton-lang/triton pull request 4563. Tensor memory: NVIDIA, PTX ISA,
tcgen05 (64 rows lie in half of its lanes), and what Triton 3.9 compiles for capability 10.0.
"""

from collections.abc import Sequence
from functools import reduce

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dse.models.matrix.configuration import Configuration
from dse.models.matrix.constants import Constants
from dse.models.matrix.machine import RATES, SHARED_ROWS, Machine, buffer_bytes
from dse.models.matrix.problem import (
    OPERANDS,
    SCALE_DEPTH,
    Product,
    active_experts,
    launched_row_tiles,
    row_tiles,
)

LANES = 32
REGISTERS_A_THREAD = 255.0
SUMS_APART = 1.5  # registers of a sum that is added up apart, beside its own
LINE = 128.0  # B; shared memory moves as many a cycle
PIPES = 6  # exponent: pipes of one block that overlap nearly wholly
TENSOR_ROWS = 128.0  # of tensor memory: as many rows are multiplied at a time, fewer take as long
TENSOR_COLUMNS = 512.0  # of it, a block's sums take a power of two
STORING = 22.0  # registers beside sums that leave tensor memory
RUN = 1024.0  # B of a row asked for at a time, to which losses of pages are relative


class Case(eqx.Module):
    """Products as arrays. **Shapes:** [products, 1], but for tiles: [products, configurations]."""

    rows: Float[Array, "*#batch"]
    read_rows: Float[Array, "*#batch"]  # distinct rows of activations
    columns: Float[Array, "*#batch"]
    depth: Float[Array, "*#batch"]
    active: Float[Array, "*#batch"]  # experts
    row_tiles: Float[Array, "*#batch"]
    launched: Float[Array, "*#batch"]  # row tiles of the grid
    activation_bytes: Float[Array, "*#batch"]
    weight_bytes: Float[Array, "*#batch"]
    runs_at: dict[str, Float[Array, "*#batch"]]  # 1 for the tensor rate that it runs at, else 0
    converts: Float[Array, "*#batch"]
    scaled: Float[Array, "*#batch"]
    apart: Float[Array, "*#batch"]

    @staticmethod
    def of(products: Sequence[Product], heights: np.ndarray) -> "Case":
        """Products as arrays; `heights` is BLOCK_SIZE_M of each configuration."""
        distinct, place = np.unique(heights, return_inverse=True)
        distinct = distinct.tolist()
        kinds = [OPERANDS[one.operands] for one in products]

        def column(values: Sequence) -> Array:
            return jnp.asarray(np.array([float(value) for value in values])[:, None], jnp.float32)

        return Case(
            rows=column([one.rows for one in products]),
            read_rows=column([one.tokens if one.shared_rows else one.rows for one in products]),
            columns=column([one.columns for one in products]),
            depth=column([one.depth for one in products]),
            active=column(list(active_experts(products))),
            row_tiles=jnp.asarray(row_tiles(products, distinct)[:, place], jnp.float32),
            launched=jnp.asarray(launched_row_tiles(products, distinct)[:, place], jnp.float32),
            activation_bytes=column([kind.activation_bytes for kind in kinds]),
            weight_bytes=column([kind.weight_bytes for kind in kinds]),
            runs_at={name: column([kind.rate == name for kind in kinds]) for name in RATES},
            converts=column([kind.converts for kind in kinds]),
            scaled=column([kind.scaled_by_block for kind in kinds]),
            apart=column([kind.sums_apart for kind in kinds]),
        )


def seconds(
    machine: Machine, case: Case, tile: Configuration, constants: Constants
) -> Float[Array, "*#batch"]:
    """Predict the time of a launch.

    **Shapes:** broadcast; GPUs × products × configurations in a dense grid.
    **Units:** s.
    **Edges:** what does not fit on an SM is timed as if one block did: `machine.possible` tells.
    """
    k = constants
    bm, bn, stages, warps = tile.rows, tile.columns, tile.stages, tile.warps
    bk = jnp.where(case.scaled > 0.0, jnp.minimum(tile.depth, SCALE_DEPTH), tile.depth)
    a, b = case.activation_bytes, case.weight_bytes
    from_shared = (machine.shared_operands > 0) & (bm >= SHARED_ROWS)
    as_fp16 = jnp.where(from_shared, 0.0, case.runs_at["mma_fp8"] * (1.0 - machine.register_fp8))
    threads = LANES * warps
    warp_rows, warp_columns = warp_layout(bm, bn, warps)

    # Blocks on an SM
    tile_bytes = (bm * a + bn * b) * bk
    shared = buffer_bytes((bm, bn, bk, stages), a, b, case.converts, jnp.where(from_shared, 1.0, 0.0))
    shared = shared + machine.shared_reserved
    operands = (bm / warp_rows * a + jnp.maximum(bn / warp_columns, 8.0) * jnp.maximum(a, b)) * bk / LINE
    copies = tile_bytes / 16.0 / threads  # of a thread, in a pass
    in_tensor_memory = from_shared & (machine.tensor_memory > 0)
    sums, others = bm * bn / threads, k.registers + k.address_registers * copies
    wanted = others + sums * (1.0 + SUMS_APART * case.apart)
    wanted = wanted + jnp.where(from_shared, 0.0, k.held_operands * operands)
    late = in_tensor_memory & (case.apart == 0.0)  # sums come to registers when the loop is done
    wanted = jnp.where(late, jnp.maximum(others, sums + STORING), wanted)
    most = jnp.minimum(REGISTERS_A_THREAD, machine.registers / threads)
    spilled = jnp.maximum(wanted - most, 0.0) / most
    slots = jnp.minimum(machine.warps / warps, machine.blocks)
    columns_kept = TENSOR_COLUMNS / (bn * jnp.maximum(bm / TENSOR_ROWS, 1.0))
    slots = jnp.where(in_tensor_memory, jnp.minimum(slots, columns_kept), slots)
    by_registers = machine.registers / (jnp.minimum(wanted, most) * threads)
    resident = jnp.floor(jnp.minimum(jnp.minimum(machine.shared_bytes / shared, by_registers), slots))
    resident = jnp.maximum(resident, 1.0)

    # The grid
    column_tiles = jnp.ceil(case.columns / bn)
    blocks = case.row_tiles * column_tiles
    on_sm = jnp.ceil(blocks / machine.sms)  # of the busiest one
    at_once = jnp.minimum(resident, on_sm)
    passes = jnp.ceil(case.depth / bk)
    real = case.rows / (case.row_tiles * bm)  # share of rows that is no padding, nor read

    # A pass of one block, cycles of its SM
    products = bm * jnp.maximum(bn, 8.0) * bk
    doubled = jnp.maximum(1.0, 8.0 * warp_columns / bn)  # warps that share columns do the same
    rate = reduce(jnp.add, (case.runs_at[name] * machine.mma[name] for name in RATES))
    fed = products / 2048.0 * machine.mma_warp * jnp.maximum(jnp.maximum(a, b) / 2.0, as_fp16)
    at_a_time = jnp.where(in_tensor_memory, TENSOR_ROWS, SHARED_ROWS)
    from_there = products * jnp.maximum(at_a_time / bm, 1.0) * rate / k.wgmma
    mma = jnp.where(from_shared, from_there, jnp.maximum(products * rate, fed) / k.mma) * doubled
    groups = jnp.where(in_tensor_memory, 1.0, jnp.maximum(warps * 16.0 / bm, 1.0))  # that read a row
    reads = jnp.where(
        from_shared,
        k.wgmma_reads * (bm * a * groups + bn * b * jnp.maximum(bm / at_a_time, 1.0)),
        bm * a * warp_columns + bn * b * warp_rows,
    )
    shared_cycles = (reads * bk + tile_bytes) / LINE / k.shared
    by_warp = bk * a / 32.0 * (bm / warp_rows / 16.0) * (jnp.maximum(bn / warp_columns, 8.0) / 8.0)
    by_warps = (bm * warp_columns + bn * warp_rows) * bk  # elements, each as often as warps need it
    converting = 2.0 * case.converts * bn * bk * jnp.where(from_shared, 1.0, warp_rows)
    converting = (converting + k.fp8_slots * as_fp16 * by_warps) / LANES / 4.0
    summing = case.apart * bm * bn * k.sums_slots / LANES / 4.0
    instructions = k.loop_slots + k.copy_slots * copies
    instructions = instructions + jnp.where(from_shared, bk / 4.0, 1.5 * by_warp)
    issue = instructions * warps / 4.0 + converting + summing
    spilling = 1.0 + k.spill * spilled
    work = _overlap(PIPES, mma, shared_cycles, issue) * spilling

    # An SM
    weights = case.active * case.columns * case.depth * b
    activations = case.read_rows * case.depth * a
    cold = _beyond((weights + activations) / (machine.l2_bytes * k.resident), k.resident_edge)
    latency = k.latency * (machine.dram_latency * cold + machine.l2_latency * (1.0 - cold))
    barrier = k.barrier * jnp.where(from_shared, k.wgmma_barrier, 1.0)
    ahead = stages - 2.0 + k.late_copy
    serial = summing * spilling + jnp.where(from_shared, converting, 0.0)  # tensor cores wait meanwhile
    chain = work + barrier + serial + k.scales * case.scaled
    alone = _overlap(PIPES, chain, (chain + latency) / ahead)
    first = k.lookups * machine.l2_latency * 3.0 + latency + k.fill * (stages - 1.0) * tile_bytes / 64.0
    store = k.store * (bm * bn / 16.0 + 300.0)
    waiting = jnp.ceil(on_sm / resident) * (passes * alone + first + store)
    busy = on_sm * (passes * work + 0.3 * store)
    copied = (bm * a * real + bn * b) * bk
    short = k.short_rows * cold * LINE / (bk * b)  # only misses: hits are as fast in short rows
    from_l2 = on_sm * passes * copied * (1.0 + short) / (machine.l2_bandwidth * k.l2)
    sm = _overlap(k.sm_overlap, waiting, busy, from_l2) / machine.clock

    # DRAM: blocks run `group` rows of tiles at a time, columns after columns
    kept = machine.l2_bytes * k.l2_share
    sms = jnp.minimum(machine.sms, blocks)
    running = jnp.minimum(blocks, machine.sms * resident)
    abreast = jnp.minimum(jnp.maximum(tile.group, running / column_tiles), case.row_tiles)
    rounds = jnp.maximum(column_tiles * abreast / running, 1.0)  # that read the same activations
    an_expert = case.row_tiles / case.active
    streamed = running * bn * case.depth * b / jnp.maximum(jnp.minimum(an_expert, abreast), 1.0)
    again = (case.rows * case.depth * a * rounds - activations) * cold
    again = again * _beyond((streamed + abreast * bm * case.depth * a) / kept, k.l2_edge)
    apart = (
        jnp.maximum(an_expert - 1.0, 0.0) / tile.group * jnp.minimum(1.0, tile.group * column_tiles / running)
    )
    one_expert = case.columns * case.depth * b + tile.group * bm * case.depth * a
    reread = weights * apart * _beyond(one_expert / kept, k.l2_edge)
    moved = (weights + activations) * cold + again + reread + case.rows * case.columns * 2.0
    needed = (
        machine.dram_bandwidth / machine.clock / machine.sms * machine.dram_latency
    )  # in flight, of an SM
    flight = sms / machine.sms * at_once * ahead * copied / needed
    run = RUN / (bk * b * jnp.minimum(stages - 1.0, 2.0))
    losses = k.starved / flight + k.crowded * flight**k.crowding + k.page * machine.gddr * run**k.run
    dram = moved / (machine.dram_bandwidth * k.dram) * (1.0 + losses)

    without_rows = jnp.maximum(case.launched - case.row_tiles, 0.0) * column_tiles
    idle = without_rows * k.idle_block / (machine.sms * resident)
    return k.launch + k.ramp * first / machine.clock + _overlap(k.overlap, sm, dram) + idle


def warp_layout(bm: Array, bn: Array, warps: Array) -> tuple[Array, Array]:
    """Warps over the rows and over the columns of a tile, as Triton lays them out for mma.sync."""
    rows = columns = jnp.ones_like(bm * bn * warps)
    for _ in range(3):  # up to eight warps
        more = rows * columns < warps
        down = (bm / rows >= bn / columns) & (rows < bm / 16.0)
        rows, columns = (
            jnp.where(more & down, rows * 2.0, rows),
            jnp.where(more & ~down, columns * 2.0, columns),
        )
    return rows, columns


def _overlap(exponent: Array | int, *times: Array) -> Array:
    """Join times that overlap: their largest where the exponent is large, their sum where it is 1."""
    longest = times[0]
    for one in times[1:]:
        longest = jnp.maximum(longest, one)
    return longest * sum((one / longest) ** exponent for one in times) ** (1.0 / exponent)


def _beyond(ratio: Array, edge: Array) -> Array:
    """1 where a working set exceeds what is kept, 0 where it fits; `edge` is how gradually."""
    return jax.nn.sigmoid(jnp.log(ratio) / edge)
