"""The data types of models: Gpu, Kernel, the Resources of a block, Launch and Prediction.

All fields broadcast over any leading shape. A dense grid has GPUs on axis 0, kernels on 1,
launches on 2 (or launches on 1 if there is one kernel).
"""

from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int

if TYPE_CHECKING:

    class Quantity:
        """A field that accepts numbers and arrays and holds an array."""

        def __get__(self, instance: object, owner: object = None) -> Array: ...
        def __set__(self, instance: object, value: ArrayLike) -> None: ...

    Count = Quantity
    Sums = Array
else:
    Sums = Array | np.ndarray | np.floating  # of fields; NumPy in, NumPy out
    Quantity = Float[Array, "*#batch"]
    Count = Int[Array, "*#batch"]


def _as_float(x: Any) -> Any:
    """Convert to a float array: floats keep their precision, other numbers get JAX's default."""
    floats = isinstance(x, jax.Array | np.ndarray | np.generic) and jnp.issubdtype(x.dtype, jnp.floating)
    return _as(x, jax.dtypes.canonicalize_dtype(x.dtype if floats else float))


def _as(x: Any, dtype: Any) -> Any:
    if isinstance(x, int | float | np.ndarray | np.generic):
        x = np.asarray(x, dtype)  # JAX would compile a function for each shape
    if isinstance(x, jax.Array) and x.dtype == dtype and not x.weak_type:
        return x  # as `asarray` would, which takes its time
    return jnp.asarray(x, dtype)


def quantity(unit: str, **default: Any) -> Any:
    """Declare a float array field with a unit."""
    return eqx.field(converter=_as_float, metadata={"unit": unit}, **default)


def count(unit: str, **default: Any) -> Any:
    """Declare a 32-bit integer array field: occupancy is computed exactly, in integers."""
    return eqx.field(converter=lambda x: _as(x, np.int32), metadata={"unit": unit}, **default)


def several(unit: str, **default: Any) -> Any:
    """Declare a field of several arrays with the same unit."""
    return eqx.field(metadata={"unit": unit}, **default)


class _Quantities(eqx.Module):
    """Base class of types whose fields broadcast against one another."""

    def __check_init__(self) -> None:
        leaves = [(name, leaf) for name, value in vars(self).items() for leaf in jax.tree.leaves(value)]
        shapes = [(name, leaf.shape) for name, leaf in leaves if hasattr(leaf, "shape")]
        try:
            np.broadcast_shapes(*(shape for _, shape in shapes))
        except ValueError:
            clash = ", ".join(dict.fromkeys(f"{name} {shape}" for name, shape in shapes if shape))
            raise ValueError(f"{type(self).__name__}: fields do not broadcast: {clash}") from None


class PerClass(_Quantities):
    """One number for each pipe of an SM. The units of work are the same everywhere:

    fp32, fp64, int32, imul32, sfu, barrier: one warp instruction (int32 covers adds, logic and
    compares; imul32 multiplies; sfu transcendentals and conversions); shared: one pass of a
    warp access through the banks (shuffles too); l1: one 128-byte pass through the L1;
    l2 and dram: one 32-byte sector.

    mma_*: one multiply-add of a matrix product, by operands: fp16 (or bf16) accumulated in
    fp32, fp16 accumulated in fp16, tf32, fp32, fp8, int8, fp64. All share the tensor pipe.
    mma_warp: one warp instruction that multiplies 16 x 16 by 16 x 8 halves from registers, or as
    many bytes of another type. It uses the tensor pipe too, limited by register bandwidth.
    """

    fp32: Quantity = quantity("1")
    fp64: Quantity = quantity("1")
    int32: Quantity = quantity("1")
    imul32: Quantity = quantity("1")
    sfu: Quantity = quantity("1")
    shared: Quantity = quantity("1")
    l1: Quantity = quantity("1")
    l2: Quantity = quantity("1")
    dram: Quantity = quantity("1")
    barrier: Quantity = quantity("1")
    mma_fp16: Quantity = quantity("1", default=0.0)
    mma_fp16_fp16: Quantity = quantity("1", default=0.0)
    mma_tf32: Quantity = quantity("1", default=0.0)
    mma_fp32: Quantity = quantity("1", default=0.0)
    mma_fp8: Quantity = quantity("1", default=0.0)
    mma_fp8_fp16: Quantity = quantity("1", default=0.0)
    mma_fp4: Quantity = quantity("1", default=0.0)
    mma_int8: Quantity = quantity("1", default=0.0)
    mma_fp64: Quantity = quantity("1", default=0.0)
    mma_warp: Quantity = quantity("1", default=0.0)


CLASSES = tuple(PerClass.__dataclass_fields__)
ARITHMETIC = ("fp32", "fp64", "int32", "imul32", "sfu")
COMPUTE = (*ARITHMETIC, "shared")  # the compute subsystem of two-subsystem models
MEMORY = ("l1", "l2", "dram")  # their memory subsystem
MMA = tuple(name for name in CLASSES if name.startswith("mma_") and name != "mma_warp")
TENSOR = (*MMA, "mma_warp")
ABSENT = 1e30  # λ of a pipe that a GPU lacks


class Limits(_Quantities):
    """The resources of one SM (CU), and their allocation granularity."""

    warp_size: Count = count("threads")
    threads_per_block: Count = count("threads")
    threads_per_sm: Count = count("threads")
    warps_per_sm: Count = count("warps")
    blocks_per_sm: Count = count("blocks")
    one_warp_blocks_per_sm: Count = count("blocks")  # AMD: one-wave groups need no barrier slot
    registers_per_sm: Count = count("registers")
    registers_per_block: Count = count("registers")
    registers_per_thread: Count = count("registers")
    register_unit: Count = count("registers")  # of a warp, or of a block if allocated by block
    registers_by_block: Count = count("1")  # 1: allocated by block (compute capability 1.x), 0: by warp
    warp_unit: Count = count("warps")  # warps of a block are rounded up to this to count its registers
    sub_partitions: Count = count("1")
    shared_bytes_per_sm: Count = count("B")
    shared_bytes_per_block: Count = count("B")
    shared_bytes_reserved: Count = count("B")  # by the driver, of each block
    shared_unit_bytes: Count = count("B")


class Gpu(_Quantities):
    """One GPU: counts, clocks, bandwidths, λ and Λ of each instruction class."""

    sm_count: Quantity = quantity("1")
    clock: Quantity = quantity("Hz")
    dram_bandwidth: Quantity = quantity("B/s")  # theoretical, of data; cpi.dram has the achieved one
    l1_bytes: Quantity = quantity("B")  # data cache of one SM, without shared memory
    l2_bytes: Quantity = quantity("B")
    issue_limit: Quantity = quantity("1")  # IL, warp instructions per cycle and SM
    lsu_cycles: Quantity = quantity("cycles")  # of one warp memory instruction, in the load/store units
    l1_with_shared: Quantity = quantity("1")  # 1: L1 and shared memory are one array; 0: separate
    cpi: PerClass = several("cycles")  # λ of one SM, per unit of work
    latency: PerClass = several("cycles")  # Λ
    issue_cycles: Quantity = quantity("cycles")  # Hong & Kim: of one warp instruction
    departure_delay_coal_cycles: Quantity = quantity("cycles")
    departure_delay_uncoal_cycles: Quantity = quantity("cycles")
    limits: Limits = several("1")
    compute_capability: Count = count("1", default=0)  # 80 for 8.0; 0 for a GPU without one
    gfx: Count = count("1", default=0)  # AMD: the compiler's target, 0x90a for gfx90a; 0 for others
    dram_channels: Quantity = quantity("1", default=0.0)  # that turn to rows of their own; 0: not known
    memory_cache_bytes: Quantity = quantity("B", default=0.0)  # beyond the L2: AMD's Infinity Cache
    memory_cache_bandwidth: Quantity = quantity("B/s", default=0.0)  # theoretical; 0: not known
    dies: Quantity = quantity("1", default=1.0)  # compute dies, each with a private part of l2_bytes
    matrix_clock: Quantity = quantity("Hz", default=0.0)  # sustained by dense products; 0: as `clock`
    launch_overhead: Quantity = quantity("s", default=0.0)  # of each launch, besides its blocks
    dirty_bytes: Quantity = quantity("B", default=0.0)  # of L2, written before each launch by a flush
    # Compiler behaviour, for descriptions:
    # Most registers of a thread if the source does not state the block size.
    compiler_registers: Quantity = quantity("registers", default=255.0)
    guard_branches: Quantity = quantity("1", default=0.0)  # 1: a branch for each guarded load; 0: predicates
    # Passes of shared loads vectorized to 16 bytes but aligned to 4, relative to scalar loads.
    shared_unaligned: Quantity = quantity("1", default=1.0)


class Phase(_Quantities):
    """The average work of one warp between two barriers, in one pass.

    A warp alone takes Σ `waits` Λ + `slots`: the latencies it waits for one after another, and the cycles in
    which it issues or is held up by its own use of a pipe.
    """

    work: PerClass  # units of work for each pipe
    async_work: PerClass | None  # the part of `work` in asynchronous copies; None: no copies
    waits: PerClass  # results waited for, by the pipe or memory that produces them
    async_waits: PerClass | None  # waits for asynchronous copies, hidden by the block's other work
    passes: Quantity = quantity("1")  # executions of the phase
    # issue slots: all instructions, and the cycles in which they still read registers; or those of the
    # commonest kind (AMD)
    insts: Quantity = quantity("1")
    memory_insts: Quantity = quantity("1")  # instructions that use the load/store units
    slots: Quantity = quantity("cycles")
    # Further cycles of a block whose warps go in step: what they wait for one another at its pipes.
    async_slots: Quantity = quantity("cycles", default=0.0)


class Kernel(_Quantities):
    """The average work of one warp from start to end."""

    work: PerClass  # units of work for each pipe
    shared_insts: Quantity = quantity("1")  # warp instructions on shared memory
    load_insts: Quantity = quantity("1")  # warp instructions that load from global memory
    store_insts: Quantity = quantity("1")
    uncoal_insts: Quantity = quantity("1")  # uncoalesced loads and stores
    transactions_per_uncoal: Quantity = quantity("1")  # sectors of one uncoalesced access
    sectors: Quantity = quantity("1")  # 32-byte sectors of all global accesses, before any cache
    bytes_per_access: Quantity = quantity("B")  # requested by one global warp access, on average
    ilp: Quantity = quantity("1")  # instructions over the longest dependence chain
    mlp: Quantity = quantity("1")  # loads in flight at the first wait
    other_insts: Quantity = quantity("1", default=0.0)  # take an issue slot and no pipe: branches
    dram_stores: Quantity = quantity("1", default=0.0)  # of work.dram, sectors that are stored
    dram_runs: Quantity = quantity("1", default=0.0)  # of adjacent sectors from DRAM; 0: long ones
    phases: tuple[Phase, ...] = several("1", default=())  # in order; empty if unknown

    @property
    def mem_insts(self) -> Sums:
        """α_mem, global loads and stores of a warp."""
        return self.load_insts + self.store_insts

    @property
    def comp_insts(self) -> Sums:
        """α_comp, all warp instructions but global accesses and barriers.

        One if only matrix products are known: one instruction on shared memory does many multiply-adds.
        """
        others = self.shared_insts + self.other_insts
        insts = sum((getattr(self.work, name) for name in ARITHMETIC), others) + self.work.mma_warp
        products = reduce(add, (getattr(self.work, name) for name in MMA))
        alone = (insts == 0.0) & (products > 0.0)
        return insts + alone.astype(insts.dtype)  # stays NumPy: JAX may narrow it to 32 bits

    @property
    def insts(self) -> Sums:
        """All warp instructions issued for one warp."""
        return self.comp_insts + self.mem_insts + self.work.barrier


class Resources(_Quantities):
    """The resources that a launch requests."""

    threads: Count = count("threads")  # of a block
    blocks: Count = count("blocks")  # of the grid
    registers: Count = count("registers")  # of a thread
    shared_bytes: Count = count("B")  # of a block
    static_shared_bytes: Count = count("B", default=0)  # the part declared in the kernel


class Launch(_Quantities):
    """One launch as it is placed on the GPU."""

    threads_per_block: Quantity = quantity("threads")
    warps_per_block: Quantity = quantity("warps")
    blocks: Quantity = quantity("blocks")
    resident_blocks: Quantity = quantity("blocks")  # on the busiest SM at once
    active_sms: Quantity = quantity("1")
    waves: Quantity = quantity("1")  # #Rep: how often the busiest SM fills its resident blocks

    @property
    def warps_per_sm(self) -> Array:
        """N or ω, warps resident on one SM."""
        return self.warps_per_block * self.resident_blocks


class Prediction(_Quantities):
    """The cycles that a model predicts for a launch; `terms` add up to `cycles`."""

    cycles: Quantity = quantity("cycles")
    seconds: Quantity = quantity("s")
    terms: dict[str, Array] = several("cycles")
    details: dict[str, Array] = several("1")  # intermediates named in the paper (MWP, CWP, ridge)

    @staticmethod
    def of(
        clock: Array, details: dict[str, Array] | None = None, times: Array | float = 1.0, /, **terms: Array
    ) -> "Prediction":
        """Predict cycles as `times` the sum of `terms`.

        Pass factors common to all terms in `times`: the sum is then multiplied once, and directly to seconds
        if only those are used.
        """
        values = jnp.broadcast_arrays(*terms.values())
        total = sum(values[1:], values[0])
        return Prediction(
            cycles=total * times,
            seconds=total * (times / clock),
            terms={name: value * times for name, value in zip(terms, values, strict=True)},
            details=details or {},
        )

    @staticmethod
    def largest(
        clock: Array, times: Array, details: dict[str, Array] | None = None, /, **bounds: Array
    ) -> "Prediction":
        """Predict cycles as `times` the largest of `bounds`, attributed to the first that reaches it.

        Pass factors common to all bounds in `times`: in a grid, bounds that depend only on kernel and GPU
        are smaller arrays, compared once and not for each launch.
        """
        largest = reduce(jnp.maximum, sorted(bounds.values(), key=jnp.size))
        cycles = largest * times
        terms, taken = {}, jnp.zeros(cycles.shape, bool)
        for name, value in bounds.items():
            binds = (value == largest) & ~taken
            terms[name] = jnp.where(binds, cycles, jnp.zeros_like(cycles))
            taken = taken | binds
        seconds = largest * (times / clock)
        return Prediction(cycles=cycles, seconds=seconds, terms=terms, details=details or {})

    @property
    def bottleneck(self) -> Int[Array, "*#batch"]:
        """Index of the largest of `terms`; the first of equals."""
        # Pairwise: stacking would make XLA compute each term in a loop of its own.
        largest, *others = self.terms.values()
        index = jnp.zeros(jnp.shape(largest), jnp.int32)
        for i, term in enumerate(others, 1):
            index = jnp.where(term > largest, jnp.int32(i), index)
            largest = jnp.maximum(largest, term)
        return index
