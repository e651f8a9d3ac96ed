"""Instructions and memory accesses of a launch by place in the code.

Numbers are of the average block of the launch, from start to end. `dse.source.nvidia.graphs.branches` has the
divergence of its lanes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dse.hardware.coalescing import LINE, SECTOR
from dse.source.machine.blocks import Sample
from dse.source.machine.recorded import MEMORY_COUNTS, Recorded, total_counts
from dse.source.machine.thread_set import WARP


@dataclass(frozen=True)
class InstructionAccesses:
    """The accesses of one memory instruction."""

    line: int | None  # of the source
    address: int  # of the instruction
    space: str  # global, shared or local
    op: str  # load, store or atomic
    bytes: int  # of one thread
    requests: float  # warps that execute it with any thread
    threads: float  # per request
    # Per request: sectors of 32 bytes in global and local memory; passes through the banks of shared memory.
    pieces: float
    ideal: float  # the minimum for threads with distinct bytes

    @property
    def degree(self) -> float:
        """Pieces over the ideal, in shared memory the conflict degree. 1 where threads share."""
        return max(1.0, self.pieces / self.ideal)


@dataclass(frozen=True)
class LineCounts:
    """The instructions and accesses of one line of the source.

    Lanes disabled by a predicate count as active if it was not evaluated, as nothing depends on it.
    """

    line: int | None  # None: code without a line
    insts: float  # warp instructions
    active: float  # share of active lanes
    pipes: dict[str, float]  # warp instructions by pipe
    sectors: float  # global and local
    passes: float  # through the banks of shared memory


def accesses(machine: Recorded, sample: Sample) -> list[InstructionAccesses]:
    """List the executed memory instructions, in the order of the code."""
    counts = _counts(machine, sample)
    rows = []
    for block in machine.program.blocks:
        for step in block.steps:
            for space, row in _rows(machine, step):
                requests, sectors, passes, threads = counts[row : row + len(MEMORY_COUNTS)].tolist()
                if not requests:
                    continue
                shared = space == "shared"
                threads_each = threads / requests
                rows.append(
                    InstructionAccesses(
                        line=step.line,
                        address=step.address,
                        space=space,
                        op=_operation(step, row == machine.bound.memory_rows[step.index]),
                        bytes=step.bytes,
                        requests=requests,
                        threads=threads_each,
                        pieces=(passes if shared else sectors) / requests,
                        ideal=max(1.0, threads_each * step.bytes / (LINE if shared else SECTOR)),
                    )
                )
    return rows


def lines(machine: Recorded, sample: Sample, warp: int = WARP) -> list[LineCounts]:
    """List executed instructions by line of the source, most first; None for code without a line.

    `warp` is the number of lanes of a warp.
    """
    counts = _counts(machine, sample)
    steps: dict[int | None, list[tuple[Any, float, float]]] = {}
    for block in machine.program.blocks:
        warps, threads = counts[2 * block.index : 2 * block.index + 2].tolist()
        for step in block.steps if warps else ():
            taking_part = _threads(machine, step, threads, counts)
            steps.setdefault(step.line, []).append((step, warps, taking_part))
    rows = []
    for line, executed in steps.items():
        pipes: dict[str, float] = {}
        sectors = passes = 0.0
        for step, warps, _ in executed:
            pipes[step.pipe] = pipes.get(step.pipe, 0.0) + warps
            for space, row in _rows(machine, step):
                _, of_sectors, through, _ = counts[row : row + len(MEMORY_COUNTS)].tolist()
                sectors += of_sectors
                passes += through if space == "shared" else 0.0
        insts = sum(warps for _, warps, _ in executed)
        active = sum(threads for _, _, threads in executed) / (warp * insts)
        rows.append(LineCounts(line, insts, active, pipes, sectors, passes))
    return sorted(rows, key=lambda line_counts: -line_counts.insts)


def _counts(machine: Recorded, sample: Sample) -> np.ndarray:
    """Sum the counters of the average block over all phases."""
    return total_counts(machine) @ (np.array(sample.weights) / machine.launch.blocks)


def _rows(machine: Recorded, step: Any) -> Iterator[tuple[str, int]]:
    """Yield the memories that an instruction accesses, with the first row of its counters there."""
    if not step.memory or step.index not in machine.bound.memory_rows:
        return
    row = machine.bound.memory_rows[step.index]
    yield step.pipe, row
    if len(step.memory) > 1:  # between global and shared memory
        yield "shared", row + len(MEMORY_COUNTS)


def _threads(machine: Recorded, step: Any, entered: float, counts: np.ndarray) -> float:
    """Return the threads in its basic block whose predicate holds, if counted."""
    for _, row in _rows(machine, step):
        return float(counts[row + MEMORY_COUNTS.index("threads")])
    row = machine.bound.guard_rows.get(step.index)
    return entered if row is None else float(counts[row])


def _operation(step: Any, first: bool) -> str:
    """Name what an instruction does in the first memory of `_rows`, or in the other."""
    return "atomic" if step.atomic else "store" if step.stores == first else "load"
