"""Closed-form time of a matrix product by Triton.

A block computes a tile of the result in a loop over the depth: copies into shared memory run `stages` ahead
of the tensor cores. Blocks run on SMs in waves; the rows of a tile belong to one expert and may be padded.

- An SM takes as long as its busiest pipe (tensor cores, shared memory, issue, its share of L2) over all its
blocks, or as its waves of blocks that wait for copies in sequence.
- DRAM takes the time of its bytes, which increase with rereads by waves that miss in L2. Too few copies in
flight leave it idle (Little's law), too many cause contention, and short runs of a row cause page misses.
- SMs and DRAM overlap, but not fully; launch overhead and the first copies are added.

Fitted constants are in `dse.models.matrix.constants`.
Sources: Triton's matrix multiplication tutorial (grouped order) and its layout of warps (AccelerateMatmul),
MIT; vLLM's fused_moe kernel (Apache-2.0); Little 1961. Slow conversion of fp8 from registers on Hopper:
NVIDIA/cutlass issue 1986, triton-lang/triton pull request 4563. Spread of a tile over threads: Triton's
Coalesce pass (MIT). Rates of copies below 16 bytes and of short rows in L2, and FMA_WARP: times of PyTorch
Inductor's candidates on an A100 (AlnisM/autoheuristic-datasets). Tensor memory: NVIDIA, PTX ISA, tcgen05 (64
rows take half of its lanes), and code compiled by Triton 3.9 for capability 10.0. Code of narrow copies:
SGLang's kernel, compiled by it. For capability 9.0, 192 bytes of a thread take 8,360 instructions, of which
5,443 are addresses and 64-bit remainders before the loop, and 740 registers. For 8.0, 24 copies of two bytes
take 1,008, 679 and 120; three wide copies of the same tile take 45 registers. In PyTorch's template, with
constant sizes, copies along the depth are offsets of one address: 16 of them take 8 registers more than two
wide ones. Flush of L2 between launches: Triton's do_bench (MIT). AMD's registers: least squares over
250 tiles in bf16 and fp8, compiled by it for gfx942, 11 % off at the mean; waits for copies: the same code.
"""

from functools import reduce

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from dse.hardware.coalescing import L2_PORT
from dse.hardware.memory import written
from dse.models.matrix.case import BACK_TO_BACK, Case, Timing
from dse.models.matrix.configuration import Configuration
from dse.models.matrix.constants import Constants
from dse.models.matrix.machine import ASYNCHRONOUS, LINE, RATES, SHARED_ROWS, Machine, buffer_bytes
from dse.models.matrix.problem import SCALE_DEPTH

LANES = 32.0  # of NVIDIA's warps, whose thread layout without tensor cores is known
SCHEDULERS = 4.0  # of an SM, each with a tensor core
CODE = 208.0  # B per synchronous copy: 13 instructions for its address, mask, load, store and spills
CODE_CACHE = 2.0**16  # B of an SM's instruction cache
CODE_EDGE = 0.2
FULL_RATE = 2.0  # cycles of an SM per instruction of a warp, 8 of a scheduler's tensor core
CONFLICTS = 8.0  # accesses to shared memory by lanes whose columns of the weights are not adjacent
SUMS_APART = 1.5  # additional registers of a sum added outside the tensor cores
HELD = 128.0  # most B of depth of operands in registers at a time
FMA_WARP = 2.2  # exponent of the overlap of a warp's own FMAs and reads of shared memory
PIPES = 6  # exponent: pipes of one block overlap almost fully
TENSOR_ROWS = 128.0  # of tensor memory: rows multiplied at a time, fewer take as long
TENSOR_COLUMNS = 512.0  # of tensor memory; a block's sums take a power of two
BEFORE = 2.15  # code of each before the loop, relative: a 64-bit remainder
WIDEST = 16.0  # B of an asynchronous copy: a narrower one occupies shared memory as long
CHAIN = 4.5  # cycles per instruction there: branches of remainders serialise them
SETUP = 7.0  # other work of a block before its loop, in addresses of copies
STORING = 22.0  # registers besides sums read from tensor memory
FETCHED = 64.0  # B of DRAM that L2 fetches at least, and sends in the time of as many
AMD_OWN, AMD_SUM, AMD_APART = 28.0, 0.8, 1.2  # registers: of addresses, per sum, and per sum added apart
AMD_OPERAND, AMD_COPIED = 0.3, 0.08  # per byte of operands, and per byte copied
EMPTIED = 256e6  # B written between launches to flush the operands from L2


class _Block(eqx.Module):
    """A block's copies and products of a tile, per pass over the depth."""

    depth: Array  # of a pass
    threads: Array
    from_shared: Array  # whether tensor cores read both operands from shared memory
    tensor_memory: Array  # whether its sums are in tensor memory
    as_fp16: Array  # 1 where fp8 is made fp16 in registers
    warp_rows: Array
    warp_columns: Array
    tile_bytes: Array  # of operands in shared memory, per pass
    a_twice: Array  # 1 if copies are narrower than 16 bytes: through L1, at half the rate
    b_twice: Array
    copies: Array  # per thread and pass
    scattered: Array  # of these, narrow ones with separate addresses: of rows or columns, wrapped at the edge
    stepping: Array  # of these, narrow ones along the depth: at constant distances
    code: Array  # bytes of the loop for narrow copies
    waits: Array  # whether a pass waits for its own loads: one stage, or synchronous copies


class _Grid(eqx.Module):
    """The blocks of a grid on SMs."""

    column_tiles: Array
    blocks: Array
    resident: Array  # most per SM
    on_sm: Array  # total of the busiest SM
    at_once: Array  # of these, concurrent
    passes: Array
    spilled: Array  # registers needed beyond those available, relative


class _Pass(eqx.Module):
    """A pass of a block, in cycles of an SM."""

    busy: Array  # of the busiest pipe, if other blocks fill its gaps
    alone: Array  # per pass of a single block whose copies are done
    copied: Array  # bytes from L2
    from_l2: Array  # the same, with the loss of short runs of a row


def seconds(
    machine: Machine, case: Case, tile: Configuration, constants: Constants, timing: Timing = BACK_TO_BACK
) -> Float[Array, "*#batch"]:
    """Predict the time of a launch.

    **Shapes:** broadcast; GPUs × products × configurations in a dense grid.
    **Units:** s.
    **Edges:** a block that exceeds an SM is timed as if it fitted: see `machine.possible`.
    """
    k = constants
    block = _block(machine, case, tile)
    grid = _grid(machine, case, tile, block, k)
    operands = case.weights + case.activations + case.beside
    resident = jnp.where(machine.halved > 0.0, k.resident_halved, k.resident)
    cold = _beyond(operands / (machine.kept_bytes * resident), k.resident_edge)
    cold = jnp.maximum(cold, timing.flushed)
    main_pass = _pass(machine, case, tile, block, grid, cold, k)
    first, sm = _sm(machine, case, tile, block, grid, main_pass, cold, k)
    dram = _dram(machine, case, tile, block, grid, main_pass, cold, timing, k)
    sm = _at_its_clock(machine, case, timing, grid, sm, overlap(k.overlap, sm, dram))
    without_rows = jnp.maximum(case.launched - case.row_tiles, 0.0) * grid.column_tiles
    idle = without_rows * k.idle_block / (machine.sms * grid.resident)
    launch = k.launch + timing.events * k.events + k.ramp * first / machine.clock
    fabric = _fabric(machine, case, tile, grid, main_pass, k)
    return launch + overlap(k.overlap, sm, dram, fabric) + idle


def _at_its_clock(machine: Machine, case: Case, timing: Timing, grid: _Grid, sm: Array, time: Array) -> Array:
    """Return the seconds of SMs with the clock corrected: busy tensor cores of all SMs lower it.

    Constants are fitted to back-to-back launches that fill the GPU. Few blocks leave SMs idle, and during a
    flush of L2 between two launches tensor cores pause.
    """
    tensor = (1.0 - case.runs_at["fp32"]) * (1.0 - machine.amd) * _arithmetic(machine, case)
    filled = tensor * machine.sms / jnp.minimum(grid.blocks, machine.sms)  # as if all SMs were as busy
    pause = timing.flushed * EMPTIED / machine.dram_bandwidth
    time = jnp.maximum(time, filled)
    colder = (1.0 + machine.heat * tensor / (time + pause)) / (1.0 + machine.heat * filled / time)
    return jnp.maximum(sm * colder, filled)


def _arithmetic(machine: Machine, case: Case) -> Array:
    """Return the seconds of multiply-adds at peak rate."""
    return case.rows * case.columns * case.depth * _rate(machine, case) / machine.sms / machine.clock


def roofline(machine: Machine, case: Case, timing: Timing = BACK_TO_BACK) -> Float[Array, "*#batch"]:
    """Return a lower bound of the time in s: arithmetic at peak rate, or bytes at DRAM bandwidth.

    Operands that L2 may hold from the previous launch are free, except after a flush.
    """
    operands = case.weights + case.activations
    results = case.rows * case.columns * case.result_bytes
    memory = (operands * timing.flushed + results) / machine.dram_bandwidth
    return jnp.maximum(_arithmetic(machine, case), memory)


def _rate(machine: Machine, case: Case) -> Array:
    """Return the cycles of a multiply-add on an SM."""
    return reduce(jnp.add, (case.runs_at[name] * machine.mma[name] for name in RATES))


def _block(machine: Machine, case: Case, tile: Configuration) -> _Block:
    """Return Triton's code for a tile: its layout of warps, and the widest copies that strides allow."""
    bm, bn, threads = tile.rows, tile.columns, machine.lanes * tile.warps
    bk = jnp.where(case.scaled > 0.0, jnp.minimum(tile.depth, SCALE_DEPTH), tile.depth)
    from_shared = (machine.shared_operands > 0) & (bm >= SHARED_ROWS) & (case.runs_at["fp32"] == 0.0)
    warp_rows, warp_columns = warp_layout(bm, bn, tile.warps)
    a_bytes, b_bytes = bm * bk * case.activation_bytes, bn * bk * case.weight_bytes
    a_wide, b_wide = (
        jnp.minimum(copy, jnp.maximum(size / threads, 1.0))  # a tile is spread over all threads
        for copy, size in ((case.activation_copy, a_bytes), (case.weight_copy, b_bytes))
    )
    a_copies, b_copies = a_bytes / a_wide / threads, b_bytes / b_wide / threads
    a_narrow = jnp.where(a_wide < ASYNCHRONOUS, a_copies, 0.0)
    b_narrow = jnp.where(b_wide < ASYNCHRONOUS, b_copies, 0.0)
    scattered = a_narrow * case.activation_by_depth + b_narrow * case.weight_by_depth
    a_twice, b_twice = (
        jnp.where((wide < WIDEST) & (machine.amd == 0.0), 1.0, 0.0) for wide in (a_wide, b_wide)
    )
    several = jnp.where(case.row_tiles > case.active, 1.0, 0.0)  # else L1 has what the SM's blocks share
    return _Block(
        depth=bk,
        threads=threads,
        from_shared=from_shared,
        tensor_memory=from_shared & (machine.tensor_memory > 0),
        as_fp16=jnp.where(from_shared, 0.0, case.runs_at["mma_fp8"] * (1.0 - machine.register_fp8)),
        warp_rows=warp_rows,
        warp_columns=warp_columns,
        tile_bytes=a_bytes + b_bytes * case.in_shared,
        a_twice=a_twice * several,
        b_twice=b_twice,
        copies=a_copies + b_copies,
        scattered=scattered,
        stepping=a_narrow + b_narrow - scattered,
        code=CODE * (a_narrow + b_narrow),
        waits=(tile.stages < 2.0) | (a_narrow + b_narrow > 0.0),
    )


def _grid(machine: Machine, case: Case, tile: Configuration, block: _Block, k: Constants) -> _Grid:
    """Return blocks per SM, by shared memory, registers, warps and tensor memory; and of the busiest SM."""
    bm, bn, threads = tile.rows, tile.columns, block.threads
    a, b = case.activation_bytes, case.weight_bytes
    buffers = (bm, bn, block.depth, tile.stages)
    waits = [jnp.where(copy < ASYNCHRONOUS, 1.0, 0.0) for copy in (case.activation_copy, case.weight_copy)]
    from_shared = jnp.where(block.from_shared, 1.0, 0.0)
    direct = machine.amd * (1.0 - machine.held_copies)
    in_shared = b * case.in_shared
    shared = buffer_bytes(buffers, a, in_shared, case.converts, from_shared, (waits[0], waits[1]), direct)
    shared = shared + machine.shared_reserved
    columns = jnp.maximum(bn / block.warp_columns, machine.smallest)
    held = jnp.minimum(block.depth, HELD / jnp.maximum(a, b))  # limit of the compiler's load-ahead
    operands = (bm / block.warp_rows * a + columns * jnp.maximum(a, b)) * held / LINE
    own = block.copies - block.stepping
    addresses = k.address_registers * own + k.narrow_registers * block.stepping
    sums, others = bm * bn / threads, k.registers + addresses
    wanted = others + sums * (1.0 + SUMS_APART * case.apart)
    wanted = wanted + jnp.where(block.from_shared, 0.0, k.held_operands * operands)
    late = block.tensor_memory & (case.apart == 0.0)  # sums are read after the loop
    wanted = jnp.where(late, jnp.maximum(others, sums + STORING), wanted)
    wanted = jnp.where(machine.amd > 0.0, _amd_registers(machine, case, tile, block, k), wanted)
    most = jnp.minimum(machine.registers_a_thread, machine.registers / threads)
    most = jnp.minimum(most, machine.registers_a_thread / jnp.maximum(tile.waves, 1.0))
    by_registers = machine.registers / (jnp.minimum(wanted, most) * threads)
    on_scheduler = jnp.floor(by_registers * tile.warps / SCHEDULERS)  # AMD's have registers of their own
    on_scheduler = jnp.where(tile.waves > 0.0, jnp.minimum(on_scheduler, tile.waves), on_scheduler)
    by_registers = jnp.where(machine.amd > 0.0, on_scheduler * SCHEDULERS / tile.warps, by_registers)
    slots = jnp.minimum(machine.warps / tile.warps, machine.blocks)
    columns_kept = TENSOR_COLUMNS / (bn * jnp.maximum(bm / TENSOR_ROWS, 1.0))
    slots = jnp.where(block.tensor_memory, jnp.minimum(slots, columns_kept), slots)
    resident = jnp.floor(jnp.minimum(jnp.minimum(machine.shared_bytes / shared, by_registers), slots))
    resident = jnp.maximum(resident, 1.0)
    column_tiles = jnp.ceil(case.columns / bn)
    blocks = case.row_tiles * column_tiles
    on_sm = jnp.ceil(blocks / machine.sms)
    return _Grid(
        column_tiles=column_tiles,
        blocks=blocks,
        resident=resident,
        on_sm=on_sm,
        at_once=jnp.minimum(resident, on_sm),
        passes=jnp.ceil(case.depth / block.depth),
        spilled=jnp.maximum(wanted - most, 0.0) / most,
    )


def _amd_registers(machine: Machine, case: Case, tile: Configuration, block: _Block, k: Constants) -> Array:
    """Return the registers of a thread in code of AMD's backend, which reads a pass's operands at once."""
    a, b = case.activation_bytes, case.weight_bytes
    rows = jnp.maximum(tile.rows / block.warp_rows, machine.smallest)
    columns = jnp.maximum(tile.columns / block.warp_columns, machine.smallest)
    operands = AMD_OPERAND * (rows * a + columns * jnp.maximum(a, b)) * block.depth / machine.lanes
    copies = AMD_COPIED * block.tile_bytes / block.threads
    narrow = k.address_registers * block.scattered + k.narrow_registers * block.stepping
    sums = tile.rows * tile.columns / block.threads * (AMD_SUM + case.apart * AMD_APART)
    return AMD_OWN + sums + operands + copies + narrow


def _multiply(
    machine: Machine, case: Case, tile: Configuration, block: _Block, k: Constants
) -> tuple[Array, Array]:
    """Return cycles of the tensor cores (or of FMA, for single precision), and bytes that they read from
    shared memory, per unit of depth."""
    bm, bn, a, b = tile.rows, tile.columns, case.activation_bytes, case.weight_bytes
    smallest = jnp.maximum(tile.instruction, machine.smallest)
    products = jnp.maximum(bm, tile.instruction) * jnp.maximum(bn, smallest)
    rate = _rate(machine, case) * machine.sustained
    rate = rate * jnp.where(tile.instruction > 16.0, 1.0 + k.large_instruction, 1.0)
    doubled = jnp.maximum(1.0, smallest * block.warp_columns / bn)  # warps that share columns repeat work
    instructions = products / 2048.0 * jnp.maximum(jnp.maximum(a, b) / 2.0, block.as_fp16)  # of a warp
    between = jnp.where(machine.amd > 0.0, products * rate, FULL_RATE * instructions)
    at_a_time = jnp.where(block.tensor_memory, TENSOR_ROWS, SHARED_ROWS)
    from_there = products * jnp.maximum(at_a_time / bm, 1.0) * rate / jnp.minimum(k.wgmma, 1.0)
    from_registers = jnp.maximum(products * rate, machine.mma_warp * instructions)
    from_registers = from_registers + (1.0 / jnp.minimum(k.mma, 1.0) - 1.0) * between
    mma = jnp.where(block.from_shared, from_there, from_registers) * doubled
    groups = jnp.where(block.tensor_memory, 1.0, jnp.maximum(tile.warps * 16.0 / bm, 1.0))  # per row
    reads = jnp.where(
        block.from_shared,
        k.wgmma_reads * (bm * a * groups + bn * b * jnp.maximum(bm / at_a_time, 1.0)),
        bm * a * block.warp_columns + bn * b * block.warp_rows * case.in_shared,
    )
    scalar = case.runs_at["fp32"] > machine.single
    thread_rows, thread_columns = thread_layout(bm, bn, tile.warps)
    conflicts = jnp.where(case.weight_by_depth > 0.0, CONFLICTS, 0.5)  # of lanes on distant columns
    by_lanes = LINE * tile.warps * (0.5 * thread_rows + conflicts * thread_columns)
    return (
        jnp.where(scalar, products * rate / jnp.minimum(k.fma, 1.0), mma),
        jnp.where(scalar, by_lanes, reads),
    )


def _pass(
    machine: Machine,
    case: Case,
    tile: Configuration,
    block: _Block,
    grid: _Grid,
    cold: Array,
    k: Constants,
) -> _Pass:
    """Return a pass of the loop: busy cycles of its pipes, serial cycles, and bytes of copies."""
    bm, bn, warps, bk = tile.rows, tile.columns, tile.warps, block.depth
    a, b = case.activation_bytes, case.weight_bytes
    multiply, reads = _multiply(machine, case, tile, block, k)
    mma = multiply * bk
    reads = reads * jnp.where(tile.pack == 1.0, 1.0 + k.short_reads, 1.0)
    asynchronous = (block.copies - block.scattered - block.stepping) * (1.0 - machine.amd)
    as_wide = WIDEST * asynchronous * block.threads
    shared = (reads * bk + jnp.maximum(block.tile_bytes, as_wide)) / machine.shared_bandwidth / k.shared
    by_warp = bk * a / 32.0 * (bm / block.warp_rows / 16.0)
    by_warp = by_warp * (jnp.maximum(bn / block.warp_columns, machine.smallest) / machine.smallest)
    by_warps = (bm * block.warp_columns + bn * block.warp_rows) * bk  # elements, repeated for each user warp
    converting = k.convert * machine.convert * case.converts * bn * bk
    converting = converting * jnp.where(block.from_shared, 1.0, block.warp_rows)
    converting = (converting + k.fp8_slots * block.as_fp16 * by_warps / SCHEDULERS) / machine.lanes
    summing = case.apart * bm * bn * k.sums_slots * machine.slot / machine.lanes / 4.0
    instructions = k.loop_slots + k.copy_slots * (block.copies + (k.narrow - 1.0) * block.scattered)
    instructions = instructions + jnp.where(block.from_shared, bk / 4.0, 1.5 * by_warp)
    fma = case.runs_at["fp32"] * (1.0 - machine.single) * bm * bn * bk / block.threads
    issue = (instructions + fma) * machine.slot * warps / 4.0 + converting + summing
    spilling = 1.0 + k.spill * grid.spilled
    few = _busiest_scheduler(machine, grid.at_once, warps) * SCHEDULERS / (grid.at_once * warps)
    lone = jnp.maximum(SCHEDULERS / warps, 1.0)
    together = _interleaved(machine, case, grid.at_once * warps / SCHEDULERS, k)
    busy = overlap(together, mma * few, shared, issue * few) * spilling
    by_itself = jnp.where(block.waits, 1.0, _interleaved(machine, case, warps / SCHEDULERS, k))
    alone = overlap(by_itself, mma * lone, shared, issue * lone) * spilling
    barrier = k.barrier * jnp.where(block.from_shared, k.wgmma_barrier, 1.0)
    steps = jnp.where(block.from_shared, 0.0, k.step * bk * jnp.maximum(a, b) / 32.0)
    serial = summing * spilling + jnp.where(block.from_shared, converting, 0.0)  # tensor cores wait
    real = case.rows / (case.row_tiles * bm)  # share of rows without (unread) padding
    a_copied, b_copied = bm * a * real * bk, bn * b * bk
    a_run = jnp.where(case.activation_by_depth > 0.0, bk, bm) * a
    b_run = jnp.where(case.weight_by_depth > 0.0, bk, bn) * b
    copied = a_copied + b_copied
    first = (case.weights + case.activations) / (grid.blocks * grid.passes * copied)  # share of first reads
    short = k.short_rows * cold * jnp.minimum(first, 1.0) * LINE  # misses: hits are as fast in short rows
    a_read, b_read = (
        size * (jnp.maximum(1.0, FETCHED / run) + twice + short / run)
        for size, run, twice in ((a_copied, a_run, block.a_twice), (b_copied, b_run, block.b_twice))
    )
    return _Pass(
        busy=busy,
        alone=alone + barrier + steps + serial + k.scales * case.scaled,
        copied=copied,
        from_l2=a_read + b_read,
    )


def _busiest_scheduler(machine: Machine, blocks: Array, warps: Array) -> Array:
    """Return the warps of the busiest scheduler: on NVIDIA, pairs of blocks of two warps share theirs."""
    even = jnp.maximum(blocks * warps / SCHEDULERS, 1.0)
    pairs = 2.0 * jnp.floor(blocks / 4.0) + jnp.minimum(blocks % 4.0, 2.0)
    return jnp.where((warps == 2.0) & (machine.amd == 0.0), pairs, even)


def _interleaved(machine: Machine, case: Case, warps: Array, k: Constants) -> Array:
    """Return the exponent of overlap of a scheduler's pipes: within a warp, code or asynchrony decides."""
    scalar = jnp.clip(FMA_WARP * warps, FMA_WARP, PIPES)
    nvidia = jnp.where(case.runs_at["fp32"] > machine.single, scalar, PIPES)
    return jnp.where(machine.amd > 0.0, jnp.clip(k.interleave * warps, 1.0, PIPES), nvidia)


def _ahead(tile: Configuration, block: _Block) -> Array:
    """Return the passes between a copy's issue and its use; for a pass that waits, one without overlap."""
    return jnp.where(block.waits, 1.0, jnp.maximum(tile.stages, 2.0) - 1.0)


def _sm(
    machine: Machine,
    case: Case,
    tile: Configuration,
    block: _Block,
    grid: _Grid,
    main_pass: _Pass,
    cold: Array,
    k: Constants,
) -> tuple[Array, Array]:
    """Return the cycles until a block's first copies arrive, and the seconds of the busiest SM."""
    uncached = _beyond(((1.0 + BEFORE) * block.code + 1.0) / CODE_CACHE, CODE_EDGE)
    fetched = block.code / LINE * machine.l2_latency * uncached  # line by line, without prefetching
    latency = k.latency * (machine.dram_latency * cold + machine.l2_latency * (1.0 - cold))
    ahead = _ahead(tile, block)
    l2 = machine.l2_bandwidth * k.l2 * machine.sms / jnp.minimum(grid.blocks, machine.sms)
    copying = main_pass.from_l2 / jnp.minimum(l2, jnp.maximum(L2_PORT, machine.l2_bandwidth))
    early = jnp.where(ahead > 1.0, jnp.maximum(k.early, case.converts), 0.0)
    # AMD's code stores a copy to shared memory before the last products of the pass that issued it.
    within = jnp.where((machine.amd > 0.0) & ~block.waits, k.early, 1.0 + early)
    waited = overlap(PIPES, main_pass.alone * within, fetched) + latency
    alone = jnp.where(block.waits, waited, overlap(PIPES, main_pass.alone, waited / ahead))
    buffers = jnp.maximum(tile.stages - 1.0, 1.0)
    setup = k.setup * (block.copies - block.stepping + SETUP)
    first = k.lookups * machine.l2_latency * 3.0 + latency + k.fill * buffers * block.tile_bytes / 64.0
    by_warp = jnp.where(block.scattered > 0.0, CHAIN, 1.0)
    first = first + overlap(PIPES, BEFORE * fetched, setup * jnp.maximum(tile.warps / SCHEDULERS, by_warp))
    store = k.store * (tile.rows * tile.columns / 16.0 + 300.0)
    waiting = jnp.ceil(grid.on_sm / grid.resident) * (grid.passes * alone + first + store)
    busy = grid.on_sm * (grid.passes * main_pass.busy + setup * tile.warps / SCHEDULERS + 0.3 * store)
    from_l2 = grid.on_sm * grid.passes * copying
    beside = jnp.where(grid.at_once > 1.0, busy, 0.0)  # a single block works while it waits
    return first, overlap(k.sm_overlap, waiting, beside, from_l2) / machine.clock


def _dram(
    machine: Machine,
    case: Case,
    tile: Configuration,
    block: _Block,
    grid: _Grid,
    main_pass: _Pass,
    cold: Array,
    timing: Timing,
    k: Constants,
) -> Array:
    """Return the seconds of DRAM. Blocks run in groups of `group` rows of tiles, column by column."""
    bm, bn, a, b = tile.rows, tile.columns, case.activation_bytes, case.weight_bytes
    kept = machine.kept_bytes * k.l2_share
    running = jnp.minimum(grid.blocks, machine.sms * grid.resident)
    abreast = jnp.minimum(jnp.maximum(tile.group, running / grid.column_tiles), case.row_tiles)
    rounds = jnp.maximum(grid.column_tiles * abreast / running, 1.0)  # that reread the activations
    an_expert = case.row_tiles / case.active
    streamed = running * bn * case.depth * b / jnp.maximum(jnp.minimum(an_expert, abreast), 1.0)
    again = (case.rows * case.depth * a * rounds - case.activations) * cold
    again = again * _beyond((streamed + abreast * bm * case.depth * a) / kept, k.l2_edge)
    in_turn = jnp.minimum(1.0, tile.group * grid.column_tiles / running)
    apart = jnp.maximum(an_expert - 1.0, 0.0) / tile.group * in_turn
    one_expert = case.columns * case.depth * b + tile.group * bm * case.depth * a
    reread = case.weights * apart * _beyond(one_expert / kept, k.l2_edge)
    once = (case.weights + case.activations) * cold + again + reread
    waves = jnp.maximum(grid.on_sm / grid.resident, 1.0)
    panels = streamed + abreast * bm * case.depth * a  # read by running blocks
    apart_by = k.drift * (1.01 - 1.0 / waves)  # distance of blocks as a share of their depth
    lost = jnp.exp(-kept / (apart_by * panels))  # distances between their reads are exponential
    copied = grid.blocks * grid.passes * main_pass.copied
    moved = once + jnp.maximum(copied - once, 0.0) * lost
    needed = machine.dram_bandwidth / machine.clock / machine.sms * machine.dram_latency  # bytes in flight
    sms = jnp.minimum(machine.sms, grid.blocks)
    flight = sms / machine.sms * grid.at_once * _ahead(tile, block) * main_pass.copied / needed
    page = k.turn * machine.channel  # B that it could transfer in the time of a turn to another row
    deep = block.depth * jnp.minimum(jnp.maximum(tile.stages - 1.0, 1.0), 2.0)
    whole = deep >= case.depth  # rows side by side are read as one
    a_deep, b_deep = (jnp.where(whole, side * case.depth, deep) for side in (bm, bn))
    a_run = jnp.maximum(a * jnp.where(case.activation_by_depth > 0.0, a_deep, bm), FETCHED)
    b_run = jnp.maximum(b * jnp.where(case.weight_by_depth > 0.0, b_deep, bn), FETCHED)
    pages = case.weights * overlap(k.run, page / b_run, jnp.ones_like(b_run))
    pages = pages + case.activations * overlap(k.run, page / a_run, jnp.ones_like(a_run))
    pages = pages / (case.weights + case.activations) - 1.0
    full = jnp.maximum(grid.blocks / (machine.sms * grid.resident), 1.0)  # waves of as many blocks as fit
    starved = k.starved / flight * jnp.ceil(full) / full  # fewer blocks of a last wave copy less at a time
    losses = starved + k.crowded * flight**k.crowding + pages
    results = case.rows * case.columns * case.result_bytes  # no block waits for them
    results = written(moved, results, timing.flushed * k.dirty * machine.l2_bytes)
    return (moved * (1.0 + losses) + results) / (machine.dram_bandwidth * jnp.minimum(k.dram, 1.0))


def _fabric(
    machine: Machine, case: Case, tile: Configuration, grid: _Grid, main_pass: _Pass, k: Constants
) -> Array:
    """Return the seconds of the cache shared by dies: a die requests data of its concurrent blocks once.

    Blocks are assigned to dies round-robin, in the order of `_dram`: of G rows of tiles one of D dies has
    every gcd(G, D)th, and of columns each, or every D/gcd(G, D)th.
    """
    running = jnp.maximum(jnp.minimum(grid.blocks, machine.sms * grid.resident), machine.dies)
    group = jnp.minimum(tile.group, case.row_tiles)
    shared = jnp.minimum(machine.dies, 2.0 ** jnp.floor(jnp.log2(group)))
    abreast = jnp.maximum(running / (group * grid.column_tiles), 1.0)  # groups
    rows = jnp.minimum(group / shared * abreast, running / machine.dies)
    columns = running / machine.dies / rows
    bm, bn = tile.rows, tile.columns
    panels = rows * bm * case.activation_bytes + columns * bn * case.weight_bytes
    per_die = running / machine.dies * (bm * case.activation_bytes + bn * case.weight_bytes)
    moved = grid.blocks * grid.passes * main_pass.copied * panels / per_die
    return moved / (machine.fabric * k.fabric) / machine.clock


def thread_layout(bm: Array, bn: Array, warps: Array) -> tuple[Array, Array]:
    """Return rows and columns of a tile per thread without tensor cores, in Triton's layout."""
    sums = bm * bn / (LANES * warps)
    square = jnp.where(sums >= 16.0, 4.0, jnp.where(sums >= 4.0, 2.0, 1.0))
    lanes = jnp.clip(bn / square, 1.0, LANES)  # of a warp along columns
    warp_columns = jnp.clip(bn / (square * lanes), 1.0, warps)
    rows = bm / (LANES / lanes * warps / warp_columns)
    return jnp.maximum(rows, square), jnp.maximum(bn / (lanes * warp_columns), square)


def warp_layout(bm: Array, bn: Array, warps: Array) -> tuple[Array, Array]:
    """Return the warps along the rows and columns of a tile, in Triton's layout for mma.sync."""
    rows = columns = jnp.ones_like(bm * bn * warps)
    for _ in range(4):  # up to 16 warps
        more = rows * columns < warps
        down = (bm / rows >= bn / columns) & (rows < bm / 16.0)
        rows, columns = (
            jnp.where(more & down, rows * 2.0, rows),
            jnp.where(more & ~down, columns * 2.0, columns),
        )
    return rows, columns


def overlap(exponent: Array | float, *times: Array) -> Array:
    """Combine overlapping times: their maximum for a large exponent, their sum for 1."""
    longest = times[0]
    for time in times[1:]:
        longest = jnp.maximum(longest, time)
    return longest * sum((time / longest) ** exponent for time in times) ** (1.0 / exponent)


def _beyond(ratio: Array, edge: Array | float) -> Array:
    """Return 1 if a working set exceeds the cache, 0 if it fits; `edge` is the width of the transition."""
    return jax.nn.sigmoid(jnp.log(ratio) / edge)
