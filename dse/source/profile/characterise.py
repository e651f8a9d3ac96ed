"""Count the work of a launch's average block, phase by phase between its barriers.

Sampled blocks are weighted by the number of blocks that each represents.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dse.source.caches.cache_model import Traffic
from dse.source.machine.blocks import Sample
from dse.source.machine.launch import Dimensions
from dse.source.machine.products import Mma
from dse.source.machine.recorded import MEMORY_COUNTS, PIPES, Estimated, PhaseSpan, Recorded
from dse.source.machine.thread_set import WARP
from dse.source.profile.single_warp import Walk

Barriers = tuple[int, int]  # addresses of the barriers before and after a phase
_PASS = 128  # bytes of shared memory
# Accesses to shared memory by instructions that move data between global and shared memory.
_OTHER_END = {"copy": "shared store", "box load": "shared store", "box store": "shared load"}
# Kinds of accesses; an atomic counts as a store if it has no result, else as a load.
ACCESSES = ("global load", "global store", "shared load", "shared store", "local load", "local store")


@dataclass(frozen=True)
class AccessCounts:
    """The accesses of one kind that an average block makes in one pass of a phase."""

    requests: float = 0.0  # warp instructions with at least one thread
    sectors: float = 0.0  # of 32 bytes, summed over requests; global and local
    passes: float = 0.0  # shared: through the banks; global, local: lines of 128 bytes
    bytes: float = 0.0  # requested by threads


@dataclass(frozen=True)
class PhaseCounts:
    """The counts of an average block between two barriers, in one pass."""

    opened: int  # address of the barrier, -1: start of the kernel
    closed: int  # -1: its end
    passes: float  # of an average block
    insts: Mapping[str, float]  # warp instructions by pipe
    active: float  # mean share of active lanes, over instructions
    fp32_ops: float  # adds, multiplies, multiply-adds, of threads whose predicate holds
    fp32_ops_unsure: float  # those under predicates that depend on computed data; not in fp32_ops
    accesses: Mapping[str, AccessCounts]  # by ACCESSES
    new_sectors: Mapping[str, float]  # "load", "store": of global memory, first touched by the block
    traffic: Traffic | None  # between the caches; None without caches
    walk: Walk | None  # one warp alone, one pass; None if latencies are unknown
    in_step: Walk | None = None  # a warp among the others of its block; None: as if alone
    # Asynchronous copies, which are also loads of global memory; their passes are those of shared memory.
    copies: AccessCounts = AccessCounts()
    # Products of matrices: work by dse.types.TENSOR, and "shared": passes of operands in shared memory.
    tensor: Mapping[str, float] = field(default_factory=dict)
    reading: float = 0.0  # issue slots in which instructions still read registers


class Tally:
    """Sums over all passes of an average block through a phase; `one_pass` returns PhaseCounts."""

    def __init__(self) -> None:
        self.insts: dict[str, float] = dict.fromkeys(PIPES, 0.0)
        self.lanes = self.fp32_ops = self.fp32_ops_unsure = self.reading = 0.0
        self.accesses = {kind: np.zeros(4) for kind in ACCESSES}  # requests, sectors, passes, bytes
        self.copies = np.zeros(4)
        self.tensor: dict[str, float] = {}

    def add_product(self, product: Mma, warps: float) -> None:
        """Add the work of a product of matrices."""
        for name, amount in (
            (product.kind, product.multiply_adds),
            ("mma_warp", product.from_registers),
            ("shared", product.shared_bytes / _PASS),
        ):
            if total := warps * product.blocks * amount:
                self.tensor[name] = self.tensor.get(name, 0.0) + total

    def one_pass(
        self,
        key: Barriers,
        passes: float,
        warp_size: int,
        path: Walk | None,
        traffic: Traffic | None,
        new_sectors: Mapping[str, float],
        in_step: Walk | None = None,
    ) -> PhaseCounts:
        """Return the counts of one pass of `passes`; `key` has the barriers before and after."""
        if round(passes) > 0 and abs(passes - round(passes)) < 1e-9:  # up to rounding of weights
            passes = float(round(passes))
        passes = max(passes, 1e-300)
        total = sum(self.insts.values())
        return PhaseCounts(
            opened=key[0],
            closed=key[1],
            passes=passes,
            insts={pipe: count / passes for pipe, count in self.insts.items() if count},
            reading=self.reading / passes,
            active=self.lanes / (warp_size * total) if total else 0.0,
            fp32_ops=self.fp32_ops / passes,
            fp32_ops_unsure=self.fp32_ops_unsure / passes,
            accesses={
                kind: AccessCounts(*(numbers / passes).tolist())
                for kind, numbers in self.accesses.items()
                if numbers[0]
            },
            copies=AccessCounts(*(self.copies / passes).tolist()),
            tensor={name: work / passes for name, work in self.tensor.items()},
            new_sectors={way: sectors / passes for way, sectors in new_sectors.items()},
            walk=None if path is None else path * (1 / path.passes),
            in_step=None if in_step is None else in_step * (1 / in_step.passes),
            traffic=None if traffic is None else traffic * (1 / passes),
        )


@dataclass(frozen=True)
class UnknownDecision:
    """A decision that depends on unstated data."""

    address: int
    instruction: str
    line: int | None
    what: str  # "branch", "address", "guard" or "barrier"
    depends_on: tuple[str, ...]
    matters: bool = True  # whether an access, a product, a barrier, a loop or the end depends on it
    never: bool = False  # whether it is on an access that is not executed at all


@dataclass(frozen=True)
class Characterisation:
    """The counts of one launch of one kernel."""

    kernel: str
    arch: int
    grid: Dimensions
    block: Dimensions
    sampled: int  # blocks that were executed
    phases: tuple[PhaseCounts, ...]
    executed: Mapping[int, float]  # address of an instruction → warps that issue it, over the grid
    spread: float  # relative standard error of counts, from sampling blocks
    unknown: tuple[UnknownDecision, ...]
    estimated: Mapping[int, Estimated]  # loops with sectors and passes from some trips, by address
    warp_size: int = WARP
    unseen: int = 0  # blocks without a proof of how much they execute
    doubtful: bool = False  # whether the census does not explain that either
    zeros: tuple[tuple[str, str, str], ...] = ()  # arrays that decide on work: name, type, how they count

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return int(np.prod(self.grid))

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return -(-int(np.prod(self.block)) // self.warp_size)

    def total(self, kind: str, field: str) -> float:
        """Sum a field of one kind of access over all phases of an average block.

        For example `total("shared load", "passes")`.
        """
        return sum(
            phase.passes * getattr(phase.accesses[kind], field)
            for phase in self.phases
            if kind in phase.accesses
        )

    def insts(self, *pipes: str) -> float:
        """Return the warp instructions of an average block; all of them if no pipe is named."""
        counted = pipes or PIPES
        return sum(phase.passes * phase.insts.get(pipe, 0.0) for phase in self.phases for pipe in counted)

    @property
    def fp32_ops(self) -> float:
        """Single-precision operations of the grid, for finite data in the normal range.

        Half of those whose predicates depend on computed data, since an `if` compiled to predicates has each
        predicate and its opposite.
        """
        return self.blocks * sum(
            phase.passes * (phase.fp32_ops + phase.fp32_ops_unsure / 2) for phase in self.phases
        )


def average_block(
    machine: Recorded,
    sample: Sample,
    counts: Iterable[np.ndarray | None],
    walks: Mapping[Barriers, Walk],
    traffic: Mapping[Barriers, Traffic],
    touches: Mapping[tuple[Barriers, str], float] | None = None,
    usually: Mapping[int, bool] | None = None,
    warp_size: int = WARP,
    in_step: Mapping[Barriers, Walk] | None = None,
    **known: Any,
) -> Characterisation:
    """Average the counts of a sample's blocks.

    `counts` are the counters of each phase, the last row its passes. By the barriers around a phase: the walk
    of one warp, alone and `in_step`, the traffic of caches, and the sectors that are touched first (default:
    none). `usually` says which unknown guards mostly hold, and `known` are other fields of a
    Characterisation.
    """
    launch, program, weights = machine.launch, machine.program, sample_weights(machine, sample)
    sums = by_phase(machine.phases, counts)
    of_grid = np.sum(list(sums.values()), axis=0) @ weights * launch.blocks
    phases = []
    for key, numbers in sums.items():
        mean = numbers @ weights
        touched = {way: (touches or {}).get((key, way), 0.0) for way in ("load", "store")}
        phases.append(
            _phase(machine, mean, usually or {}).one_pass(
                key,
                float(mean[-1]),
                warp_size,
                walks.get(key),
                traffic.get(key),
                touched,
                (in_step or {}).get(key),
            )
        )
    return Characterisation(
        kernel=program.kernel,
        arch=program.arch,
        grid=launch.grid,
        block=launch.block,
        sampled=len(sample.blocks),
        phases=tuple(phases),
        executed={
            step.address: float(of_grid[2 * block.index]) for block in program.blocks for step in block.steps
        },
        spread=sample.spread,
        unseen=sample.unseen,
        doubtful=sample.doubtful,
        warp_size=warp_size,
        **known,
    )


def sample_weights(machine: Recorded, sample: Sample) -> np.ndarray:
    """Return the share of the grid that each block of a sample represents."""
    return np.array(sample.weights) / machine.launch.blocks


def by_phase(spans: Sequence[PhaseSpan], counts: Iterable[np.ndarray | None]) -> dict[Barriers, np.ndarray]:
    """Sum the counters [rows, blocks] of phases between the same two barriers."""
    sums: dict[Barriers, np.ndarray] = {}
    for span, counters in zip(spans, counts, strict=True):
        if counters is not None:
            key = (span.opened, span.closed)
            sums[key] = sums[key] + counters if key in sums else counters
    return sums


def access_kind(step: Any) -> str:
    """Return the kind of an instruction's access, one of ACCESSES."""
    stores = step.stores or (step.atomic and not step.writes)
    return f"{step.pipe} {'store' if stores else 'load'}"


def _phase(machine: Recorded, counts: np.ndarray, usually: Mapping[int, bool]) -> Tally:
    """Sum a phase over all passes of the average block, from its counters."""
    ready, tally = machine.bound, Tally()
    for block in machine.program.blocks:
        warps, threads = counts[2 * block.index : 2 * block.index + 2].tolist()
        if not warps:
            continue
        for step in block.steps:
            tally.insts[step.pipe] += warps
            tally.lanes += threads
            tally.reading += warps * step.reading
            operations = step.fp32_ops
            if operations and step.guard_known:
                row = ready.guard_rows.get(step.index)
                tally.fp32_ops += operations * (threads if row is None else float(counts[row]))
            elif operations and step.index in usually:
                tally.fp32_ops += operations * threads * usually[step.index]
            elif operations:
                tally.fp32_ops_unsure += operations * threads
            if step.product is not None:
                row = ready.product_rows.get(step.index)
                tally.add_product(step.product, warps if row is None else float(counts[row]))
            if step.memory:
                row = ready.memory_rows[step.index]
                requests, sectors, through, active = counts[row : row + len(MEMORY_COUNTS)]
                if step.has("BYPASS"):  # such a copy counts in the L1 only as a store to shared memory
                    through = 0.0
                tally.accesses[access_kind(step)] += (requests, sectors, through, active * step.bytes)
                if step.kind in _OTHER_END:
                    loaded = sectors
                    requests, sectors, through, active = counts[row + len(MEMORY_COUNTS) :][
                        : len(MEMORY_COUNTS)
                    ]
                    tally.accesses[_OTHER_END[step.kind]] += (requests, sectors, through, active * step.bytes)
                    if step.kind in ("copy", "box load"):
                        tally.copies += (requests, loaded, through, active * step.bytes)
    return tally


def first_touched(machine: Recorded, weights: np.ndarray) -> dict[tuple[Barriers, str], float]:
    """Count the sectors of global memory that an average block touches first, by phase and direction."""
    from dse.source.caches.first_touches import by_array, first_touches  # imports Numba

    ways = [access_kind(step).rsplit(" ", 1)[1] for step in machine.program.steps]
    touches: dict[tuple[Barriers, str], float] = {}
    for way in ("load", "store"):
        streams = [stream for stream in machine.streams if ways[stream.step] == way]
        touched = np.zeros((len(machine.phases), machine.shape[0]))
        for own in by_array(streams).values():
            touched += first_touches(machine, own)
        for phase, counts in zip(machine.phases, touched, strict=True):
            if counts.any():
                key = ((phase.opened, phase.closed), way)
                touches[key] = touches.get(key, 0.0) + float(counts @ weights)
    return touches
