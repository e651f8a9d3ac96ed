"""The instruction dependence graph of an average warp, for a kernel known by its counts only.

A warp goes through equal phases. A phase loads, waits for its loads, computes, and stores. With barriers the
loads go to shared memory, and the block meets before and after their use. The counts give the number of
phases: a warp waits for memory load_insts / mlp times, and of two barriers one precedes the use of a tile and
one follows it.

A phase may have thousands of instructions, so one instruction of the graph represents a run of equal ones. It
keeps its pipe busy as long as they do (λ), and its result is ready when a warp alone on the SM would have the
last of theirs (Λ): of α instructions with parallelism ILP, α / ILP are exposed and the rest overlap. Each
waits for the previous one. So both totals equal those of the counts: Σλ of a subsystem is the time for which
a warp keeps that pipe busy, and a warp alone takes Volkov's Λ_app. A run enters as a whole, so warps that
meet at a pipe wait longer than with single instructions: with runs a quarter as long (`RUNS`), predictions of
the catalogue's kernels are some 5 % lower.

A global access takes two steps: through the load/store units (with the L1, if that is also shared memory),
and to the memory behind. It keeps both busy, and its latency counts once.

Source: Lemeire, Cornelis & Konstantinidis, Sec. 3.1, with the mapper g of Secs. 4.4 and 6.3.
"""

from dataclasses import dataclass
from functools import cache

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from dse.hardware.memory import access_cpi, access_latency, safe_divide, shared_latency
from dse.hardware.tensor import tensor_cycles, tensor_latency
from dse.simulator.case.program import Loop, Program
from dse.types import ARITHMETIC, Gpu, Kernel, Quantity, _Quantities, quantity, several

RUNS = 12  # of computation in a phase, roughly
MOST_BARRIERS = 8  # of a phase; more are merged
UNROLLED = 4  # most phases without a loop: the simulator is slower with loops

COMPUTATION = (*ARITHMETIC, "shared", "tensor")
GLOBAL = ("load passes", "load", "store passes", "store")
SUBSYSTEM_OF = dict(zip(ARITHMETIC, ARITHMETIC, strict=True)) | {  # subsystem of each part of a warp's work
    "shared": "lsu",  # all accesses except copies that fill a tile
    "tile": "lsu",  # stores of loaded values to shared memory
    "load passes": "lsu",
    "load": "memory",
    "store passes": "lsu",
    "store": "memory",
    "barrier": "barrier",
    "tensor": "tensor",
}
PARTS = tuple(SUBSYSTEM_OF)
SUBSYSTEMS = tuple(dict.fromkeys(SUBSYSTEM_OF.values()))
# Without tensor cores the simulator's pipes are all used. Tensor cores share that of double precision, which
# hardly any kernel with products of matrices uses.
PIPES = tuple(name for name in SUBSYSTEMS if name != "tensor")
_PIPE_OF = SUBSYSTEM_OF | {"tensor": "fp64"}


class Warp(_Quantities):
    """The work of an average warp from start to end, by its parts."""

    busy: dict[str, Array] = several("cycles")  # Σλ: busy time of each part's subsystem
    alone: dict[str, Array] = several("cycles")  # ΣΛ: time of each part for a warp alone on the SM
    waits: Quantity = quantity("1")  # for global memory
    barriers: Quantity = quantity("1")
    issue: Quantity = quantity("cycles")  # of all its instructions, 1/IL each


def pipes(warp: Warp) -> tuple[str, ...]:
    """Name the simulator's pipes for a warp. **Shapes:** fields are scalars or [1]."""
    tensor, double = (bool(np.any(np.asarray(warp.busy[name]) > 0)) for name in ("tensor", "fp64"))
    name = "fp64 and tensor" if tensor and double else "tensor" if tensor else "fp64"
    return tuple(name if pipe == "fp64" else pipe for pipe in PIPES)


def warp(gpu: Gpu, kernel: Kernel) -> Warp:
    """Sum up the parts of a kernel's average warp on this GPU.

    **Shapes:** every field broadcasts. **Units:** cycles of `gpu.clock`.
    An access holds the load/store units for its passes through the banks, or for the units' own cycles,
    whichever total is larger for the whole warp. Passes through an L1 separate from shared memory belong to
    the memory behind, whose busiest level counts.
    """
    work, cpi, latency = kernel.work, gpu.cpi, gpu.latency
    waited = 1.0 / kernel.ilp
    busy = {name: getattr(work, name) * getattr(cpi, name) for name in ARITHMETIC}
    alone = {
        name: getattr(work, name) * getattr(latency, name) * waited + busy[name] * (1.0 - waited)
        for name in ARITHMETIC
    }

    banks, l1 = work.shared * cpi.shared, work.l1 * cpi.l1
    together, apart = gpu.l1_with_shared * l1, (1.0 - gpu.l1_with_shared) * l1
    slots = (kernel.shared_insts + kernel.mem_insts) * gpu.lsu_cycles
    by_slots = slots >= banks + together
    shared = jnp.where(by_slots, kernel.shared_insts * gpu.lsu_cycles, banks)
    passes = jnp.where(by_slots, kernel.mem_insts * gpu.lsu_cycles, together)
    memory = jnp.maximum(jnp.maximum(work.l2 * cpi.l2, work.dram * cpi.dram), apart)

    # With barriers, each load is stored to shared memory, as far as there are accesses to it.
    staged = jnp.where(work.barrier > 0.0, jnp.minimum(kernel.load_insts, kernel.shared_insts), 0.0)
    staged = safe_divide(staged, kernel.shared_insts)
    loads = safe_divide(kernel.load_insts, kernel.mem_insts)
    busy |= {
        "shared": shared * (1.0 - staged),
        "tile": shared * staged,
        "load passes": passes * loads,
        "load": memory * loads,
        "store passes": passes * (1.0 - loads),
        "store": memory * (1.0 - loads),
        "barrier": work.barrier * cpi.barrier,
        "tensor": tensor_cycles(gpu, work),
    }

    shared = kernel.shared_insts * shared_latency(gpu, kernel) * waited + banks * (1.0 - waited)
    waits, access = kernel.load_insts / kernel.mlp, access_cpi(gpu, kernel)
    none = 0.0 * memory
    alone |= {
        "shared": shared * (1.0 - staged),
        "tile": shared * staged,
        "load passes": none,
        "load": waits * access_latency(gpu, kernel) + (kernel.load_insts - waits) * access,
        "store passes": none,
        "store": kernel.store_insts * access,
        "barrier": work.barrier * latency.barrier,
        "tensor": work.mma_warp * tensor_latency(gpu, work) * waited + busy["tensor"] * (1.0 - waited),
    }
    return Warp(busy, alone, waits, work.barrier, kernel.insts / gpu.issue_limit)


@dataclass(frozen=True)
class PhaseGraph:
    """The instructions of one phase and their dependences, without their cycles."""

    part: np.ndarray  # [n], index into PARTS
    share: np.ndarray  # [n], of that part's cycles in a phase
    subsystem: np.ndarray  # [n], index into PIPES
    kind: str
    preds: tuple[tuple[int, ...], ...]  # counted from the phase's start; below 0: in the phase before

    def __len__(self) -> int:
        return len(self.part)

    def program(self, throughput_cycles: np.ndarray, latency_cycles: np.ndarray, phases: int) -> Program:
        """Make a program of `phases` phases. **Shapes:** λ and Λ of the instructions, [n]."""
        n = len(self)
        if phases > UNROLLED:
            preds, loops = tuple(tuple(j % n for j in js) for js in self.preds), (Loop(0, n, phases),)
            return Program(self.subsystem, throughput_cycles, latency_cycles, preds, self.kind, loops=loops)
        preds = tuple(tuple(first + j for j in js if first + j >= 0) for first in range(0, phases * n, n)
                      for js in self.preds)  # fmt: skip
        return Program(
            subsystem=np.tile(self.subsystem, phases),
            throughput_cycles=np.tile(throughput_cycles, phases),
            latency_cycles=np.tile(latency_cycles, phases),
            preds=preds,
            kind=self.kind * phases,
        )


@cache
def graph(numbers: tuple[int, ...], barriers: int, dataflow: bool) -> PhaseGraph:
    """Lay out a phase of `numbers[p]` instructions of each part p, at most one for parts that do not compute.

    In program order each waits for the previous one: later instructions are issued after a whole run. In
    dataflow order only a barrier holds a load, and computation waits for its operands.
    """
    number = dict(zip(PARTS, numbers, strict=True))
    rows: list[tuple[str, float]] = []

    def add(*names: str, share: float = 1.0) -> None:
        rows.extend((name, share) for name in names if number[name])

    def compute(share: float) -> None:
        """Add the runs of all pipes, interleaved evenly."""
        runs = [(name, number[name]) for name in COMPUTATION]
        positions = [((i + 0.5) / n, name, share / n) for name, n in runs for i in range(n)]
        rows.extend((name, part) for _, name, part in sorted(positions, key=lambda run: run[0]))

    add("load passes", "load", "tile")
    # A barrier before the use of the loads and one after it, the others in between; without loads, one before
    # each piece of computation.
    pieces = max(barriers - 1, 1) if number["load"] else max(barriers, 1)
    for _ in range(pieces):
        if barriers:
            add("barrier", share=1 / barriers)
        compute(1 / pieces)
    if barriers > pieces:
        add("barrier", share=1 / barriers)
    add("store passes", "store")
    rows = rows or [(PARTS[0], 1.0)]  # a program has at least one instruction

    names = [name for name, _ in rows]
    preds: list[tuple[int, ...]] = [(i - 1,) for i in range(len(rows))]
    if dataflow:
        loads = sum(name in ("load passes", "load") for name in names)
        computation = [i for i in range(loads, len(rows)) if names[i] not in GLOBAL]
        for i in range(loads):
            preds[i] = (i - 1,) if i else ()
        if computation:  # the first waits for the loads, and for the last one of the previous phase
            start, before = computation[0], computation[-1] - len(rows)
            preds[start] = (*preds[start], before) if loads else (before,)
    return PhaseGraph(
        part=np.array([PARTS.index(name) for name in names]),
        share=np.array([share for _, share in rows]),
        subsystem=np.array([PIPES.index(_PIPE_OF[name]) for name in names], np.int32),
        kind="".join("b" if name == "barrier" else "m" if name in GLOBAL else "c" for name in names),
        preds=tuple(preds),
    )


@dataclass(frozen=True)
class PhasePlan:
    """The phases of the warps of N kernels, with their cycles."""

    phases: np.ndarray  # [N], number in a warp
    graphs: list[PhaseGraph]  # of a phase of each kernel
    throughput_cycles: np.ndarray  # [N, PARTS], Σλ of a phase
    latency_cycles: np.ndarray  # ΣΛ

    @property
    def entries(self) -> np.ndarray:
        """The instructions of a phase, [N]."""
        return np.array([len(graph) for graph in self.graphs])

    def program(self, n: int, phases: int) -> Program:
        """Make a program of `phases` phases of kernel n."""
        graph = self.graphs[n]
        throughput_cycles = self.throughput_cycles[n, graph.part] * graph.share
        latency_cycles = self.latency_cycles[n, graph.part] * graph.share
        return graph.program(throughput_cycles, latency_cycles, phases)


def plan(warp: Warp, dataflow: bool = False) -> PhasePlan:
    """Divide warps into phases, and these into runs.

    **Shapes:** fields of `warp` are NumPy arrays [N] of float64. Fractional mean counts become integers of
    waits and barriers, with λ and Λ that keep the totals. Computation is divided into runs that take a warp
    alone about equally long; their number for each pipe is a power of two, so that many kernels share a
    graph.
    """
    waits, barriers = (_whole(np.asarray(x)) for x in (warp.waits, warp.barriers))
    tiles = np.where(waits > 0, np.minimum(waits, np.maximum(barriers // 2, 1)), barriers)
    phases = np.maximum(np.where(barriers > 0, tiles, waits), 1)
    met = np.minimum(-(-barriers // phases), MOST_BARRIERS)

    busy, alone = (np.stack([part[name] for name in PARTS], -1) for part in (warp.busy, warp.alone))
    computes = np.array([name in COMPUTATION for name in PARTS])
    effort = np.where(computes, alone, 0.0)
    total = np.maximum(effort.sum(1, keepdims=True), np.finfo(float).tiny)
    runs = RUNS * effort / total / np.maximum(met - 1, 1)[:, None]
    runs = np.where(computes, 2.0 ** np.rint(np.log2(np.maximum(runs, 1.0))), 1.0) * (busy + alone > 0)
    graphs = [
        graph(tuple(numbers), barriers, dataflow)
        for numbers, barriers in zip(runs.astype(int).tolist(), met.tolist(), strict=True)
    ]
    return PhasePlan(phases, graphs, busy / phases[:, None], alone / phases[:, None])


def _whole(count: np.ndarray) -> np.ndarray:
    """Round to the nearest integer, positive counts to at least 1."""
    return np.where(count > 0, np.maximum(np.rint(count), 1), 0).astype(int)
