"""Records of the blocks that were run, whichever machine ran them: their phases, counters and addresses."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, get_args, runtime_checkable

import numpy as np

from dse.hardware.coalescing import SECTOR
from dse.source.machine.launch import LaunchArguments
from dse.source.machine.thread_set import Lanes

# What an instruction goes through.
Pipe = Literal[
    "fp32",
    "fp16",
    "fp64",
    "int32",
    "imul32",
    "sfu",
    "tensor",
    "uniform",
    "shared",
    "global",
    "local",
    "constant",
    "texture",
    "barrier",
    "control",
    "other",
]
PIPES: tuple[Pipe, ...] = get_args(Pipe)
# What is counted of a memory instruction, in this order: warps that execute it with a thread or more; sectors
# of global and local memory; passes through the banks of shared memory, or lines of the others; threads.
MEMORY_COUNTS = ("requests", "sectors", "passes", "threads")


@dataclass(eq=False)
class Stream:
    """Addresses that one execution of a memory instruction asked for, or one that was repeated.

    A loop that is skipped makes trips before and after the one that was executed, which is number 0: in each
    the addresses lie `stride` bytes on.
    """

    step: int
    phase: np.ndarray  # [blocks], see Recorded.phases
    lanes: Lanes  # of a box of a tensor: of the places in it, in place of threads
    base: np.ndarray  # [1 or blocks, 1 or threads] bytes
    offset: int
    size: int = 4  # bytes at each address
    trips: range = range(1)
    stride: float = 0
    issuer: int = -1  # of a box, the warp that asked for it

    @property
    def repeats(self) -> int:
        """The number of executions that it represents."""
        return len(self.trips)

    def offsets(self, most: int | None = None) -> np.ndarray:
        """List how far the addresses of each execution lie from `base`: [repeats] bytes; of the first `most`
        only.
        """
        return self.offset + distance(np.array(self.trips[:most]), self.stride)


def distance(trips: np.ndarray, stride: float) -> np.ndarray:
    """Tell how many bytes addresses move on by in this many trips.

    A stride that is estimated is a float: then it is whole sectors, so that many are alike.
    """
    if isinstance(stride, int):
        return trips * stride
    return np.rint(trips * stride / SECTOR).astype(np.int64) * SECTOR


@dataclass
class PhaseSpan:
    """A stretch of some blocks between two barriers; -1 represents the start and the end of the kernel."""

    opened: int  # address of the barrier
    closed: int = -1


class Estimated(NamedTuple):
    """Trips of a loop that were not executed, and whose accesses depend on data."""

    trips: int
    spread: float  # of sectors and passes of the trips that were, largest less smallest over their mean
    no_address: float  # share of the requests to global memory that are not in the streams


@runtime_checkable
class Recorded(Protocol):
    """Counters and addresses of the blocks of a launch; see `dse.source.nvidia.machine.state.Machine`."""

    launch: LaunchArguments
    program: Any  # steps, and basic blocks of them
    bound: Any  # the rows of the counters
    shape: tuple[int, int]  # blocks, threads

    @property
    def phases(self) -> Sequence[Any]:
        """The stretches between two barriers."""
        ...

    @property
    def phase_counts(self) -> Sequence[np.ndarray | None]:
        """The counters of each."""
        ...

    @property
    def streams(self) -> Sequence[Any]:
        """The addresses of each execution of an instruction that accesses global memory."""
        ...


def total_counts(machine: Recorded) -> np.ndarray:
    """Sum the counters of all phases: [rows, blocks]"""
    return np.asarray(sum(counts for counts in machine.phase_counts if counts is not None))


def cost_of_accesses(machine: Recorded) -> np.ndarray:
    """Sum the sectors, and the passes, of all accesses of each block: [2, blocks]"""
    at = np.array([*machine.bound.memory_rows.values()], int)
    counts = [counts for counts in machine.phase_counts if counts is not None]
    return np.array(
        [
            sum(rows[at + MEMORY_COUNTS.index(name)].sum(axis=0) for rows in counts)
            for name in ("sectors", "passes")
        ]
    ).reshape(2, machine.shape[0])
