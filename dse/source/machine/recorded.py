"""Records of executed blocks, for all machines: their phases, counters and addresses."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, get_args, runtime_checkable

import numpy as np

from dse.hardware.coalescing import SECTOR
from dse.source.machine.launch import LaunchArguments
from dse.source.machine.thread_set import Lanes

Result = TypeVar("Result")

# The pipes that execute instructions.
Pipe = Literal[
    "fp32", "fp32x2", "fp16", "fp64", "int32", "imul32", "sfu", "tensor", "uniform", "shared", "global",
    "local", "constant", "texture", "barrier", "control", "other",
]  # fmt: skip
PIPES: tuple[Pipe, ...] = get_args(Pipe)
# The counters of a memory instruction, in order: warps that execute it with any thread; sectors of global and
# local memory; passes through the banks of shared memory, or lines of the others; threads.
MEMORY_COUNTS = ("requests", "sectors", "passes", "threads")
ONCE = range(1)  # the trips of what is in no skipped loop


@dataclass(eq=False)
class Stream:
    """Addresses of one execution of a memory instruction, or of repeated ones.

    A skipped loop has trips before and after the executed one, number 0; addresses advance by `stride` bytes
    from trip to trip.
    """

    step: int
    phase: np.ndarray  # [blocks], see Recorded.phases
    lanes: Lanes  # of a tensor's box: places in it instead of threads
    base: np.ndarray  # [1 or blocks, 1 or threads] bytes
    offset: int
    size: int = 4  # bytes per address
    trips: range = ONCE
    stride: float = 0
    issuer: int = -1  # of a box, the issuing warp

    @property
    def repeats(self) -> int:
        """The number of executions that it represents."""
        return len(self.trips)

    @property
    def reach(self) -> tuple[int, int]:
        """The shortest and the longest distance of an execution's addresses from `base`: bytes."""
        if self.trips == ONCE:
            return self.offset, self.offset
        first, last = distance(np.array([self.trips[0], self.trips[-1]]), self.stride).tolist()
        return self.offset + min(first, last), self.offset + max(first, last)

    def offsets(self, most: int | None = None) -> np.ndarray:
        """Return the distances of each execution's addresses from `base`: [repeats or `most`] bytes."""
        return self.offset + distance(np.array(self.trips[:most]), self.stride)


def distance(trips: np.ndarray, stride: float) -> np.ndarray:
    """Return the distance in bytes of addresses after this many trips.

    An estimated stride is a float: then the distance is rounded to sectors, so that many are equal.
    """
    if isinstance(stride, int):
        return trips * stride
    return np.rint(trips * stride / SECTOR).astype(np.int64) * SECTOR


@dataclass
class PhaseSpan:
    """The phase of some blocks between two barriers; -1 is the start or the end of the kernel."""

    opened: int  # address of the barrier
    closed: int = -1


class Estimated(NamedTuple):
    """Trips of a loop that were not executed, with accesses that depend on data."""

    trips: int
    spread: float  # of sectors and passes of executed trips: (largest - smallest) / mean; NaN if unknown


@runtime_checkable
class Recorded(Protocol):
    """Counters and addresses of the blocks of a launch; see `dse.source.nvidia.machine.state.Machine`."""

    launch: LaunchArguments
    program: Any  # steps, and their basic blocks
    bound: Any  # the rows of the counters
    shape: tuple[int, int]  # blocks, threads
    together: int  # adjacent sectors that the L1 fetches at once

    @property
    def phases(self) -> Sequence[Any]:
        """The phases between two barriers."""
        ...

    @property
    def phase_counts(self) -> Sequence[np.ndarray | None]:
        """The counters of each phase."""
        ...

    @property
    def streams(self) -> Sequence[Any]:
        """The addresses of each execution of an instruction that accesses global memory."""
        ...


def once_each(function: Callable[[np.ndarray], Result]) -> Callable[[np.ndarray], Result]:
    """Return a function of counters that computes once what equal phases, which share theirs, have."""
    known: dict[int, Result] = {}

    def of(counts: np.ndarray) -> Result:
        if id(counts) not in known:
            known[id(counts)] = function(counts)
        return known[id(counts)]

    return of


def total_counts(machine: Recorded) -> np.ndarray:
    """Sum the counters of all phases: [rows, blocks]."""
    return np.asarray(sum(counts for counts in machine.phase_counts if counts is not None))


def counts_of_request(machine: Recorded, step: int, counts: np.ndarray) -> list[float]:
    """Return the counters of an average request of an instruction, from all; zeros if it has none."""
    row = machine.bound.memory_rows.get(step)
    if row is None or not counts[row]:
        return [0.0] * len(MEMORY_COUNTS)
    return (counts[row : row + len(MEMORY_COUNTS)] / counts[row]).tolist()


_OF_STORES = 64  # DRAM takes 8 to 16 times as long for a sector as all L1s, and its bytes are results, too


def cost_of_accesses(machine: Recorded) -> np.ndarray:
    """Sum the passes of each block, and its sectors in several ways: [ways, blocks].

    Once all alike; once with stores weighed, which reach DRAM where loads mostly hit a cache, but very few of
    them are not worth more blocks; and once for each instruction, with its own ones twice, since blocks that
    read as much may read it from other arrays.
    """
    steps, rows = machine.program.steps, machine.bound.memory_rows
    at = np.array([*rows.values()], int)
    moves = np.array([steps[step].pipe == "global" for step in rows], bool)
    stores = moves & np.array([steps[step].stores for step in rows], bool)
    ways = np.stack([np.ones(len(at)), 1.0 + _OF_STORES * stores, *1.0 + np.eye(len(at))[moves]])
    of_phase = once_each(
        lambda counts: np.stack([counts[at + MEMORY_COUNTS.index(name)] for name in ("sectors", "passes")])
    )
    sums = sum(of_phase(counts) for counts in machine.phase_counts if counts is not None)
    sectors, passes = np.asarray(sums).reshape(2, len(at), machine.shape[0])
    return np.vstack([passes.sum(axis=0), ways @ sectors])
