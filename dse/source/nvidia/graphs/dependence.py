"""The instruction dependence graph (IDG) of the instructions executed by one warp, with loops rolled.

The executed basic blocks are rolled into loops (`rolled_trace`), each body written once. An instruction needs
the last writers of the registers that it reads (including its guard) or writes, as in
`dse.source.nvidia.profile.walk`. If a loop's first trip reads a value from before the loop and later trips
one from the previous trip, it needs both writers; the later one waits for the earlier, so this adds no wait.
An instruction that waits for asynchronous copies or products of matrices needs those; if they began several
trips before, the body is repeated as often, for fewer trips (`asynchronous`).

Source: Lemeire, Cornelis & Konstantinidis, Sec. 3.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dse.errors import DseError
from dse.simulator.case.program import Loop, executed
from dse.source.machine.products import Mma
from dse.source.nvidia.graphs.asynchronous import adds_up, in_bulk, with_waits
from dse.source.nvidia.graphs.instructions import MemoryDemand, kind_of
from dse.source.nvidia.graphs.rolled_trace import RolledTrace
from dse.source.nvidia.machine.state import Machine
from dse.source.nvidia.sass.program import Step

MOST_INSTRUCTIONS = 4_095  # of a dependence graph, loops rolled: the simulator's limit
MOST_NESTED = 4  # depth of nested loops: likewise


@dataclass(frozen=True)
class GraphInstruction:
    """One instruction of a warp; its memory requests are of one issue, means over the block's warps."""

    address: int
    text: str
    line: int | None
    pipe: str  # one of dse.source.nvidia.sass.opcodes.PIPES
    kind: str  # "compute", "memory" or "barrier"
    needs: tuple[int, ...]  # instructions waited for; of later ones, or itself: the previous trip
    writes: bool  # whether it has a result that others could wait for
    requests: float = 0.0  # share of the issues with an active thread
    sectors: float = 0.0  # of 32 bytes; global and local memory
    passes: float = 0.0  # lines of 128 bytes; shared: passes through the banks, one per shuffle
    shared_passes: float = 0.0  # of a copy from global to shared memory, besides its lines
    product: Mma | None = None  # of matrices, of one issue; None: unknown, or no product


@dataclass(frozen=True)
class DependenceGraph:
    """The instructions that one warp executes, in the order of issue."""

    kernel: str
    arch: int
    instructions: tuple[GraphInstruction, ...]
    loops: tuple[Loop, ...]  # outer ones before those inside

    def order(self) -> list[int]:
        """List the instructions in order of execution."""
        return list(executed(0, len(self.instructions), self.loops))


def dependence_graph(
    machine: Machine, block: int, warp: int, most: int = MOST_INSTRUCTIONS, nested: int = MOST_NESTED
) -> DependenceGraph:
    """Make the graph of one warp of an executed block, by their numbers.

    Where loops are nested deeper than `nested`, the outer ones are unrolled.

    **Raises:** DseError if there are more than `most` instructions, or none.
    """
    rolled = RolledTrace(machine, block, warp, nested)
    if not 1 <= rolled.size <= most:
        actual = f"{rolled.size:,} instructions with loops rolled"
        raise DseError(f"{machine.program.kernel}: graph: found {actual}, expected 1 to {most:,}")
    steps, loops, waits = with_waits(*rolled.written_out(), most)
    needs = _needs(steps, loops)
    for waiting, begun in waits:
        needs[waiting].add(begun)
    awaited = {begun for _, begun in waits}
    demand = MemoryDemand(machine, np.eye(machine.shape[0])[block])
    instructions = tuple(
        GraphInstruction(
            address=step.address,
            text=step.text,
            line=step.line,
            pipe=step.pipe,
            kind="memory" if in_bulk(step) else kind_of(step),
            needs=tuple(sorted(needed)),
            writes=bool(step.writes) or number in awaited,
            product=demand.product(step),
            **demand.of(step),
        )
        for number, (step, needed) in enumerate(zip(steps, needs, strict=True))
    )
    return DependenceGraph(machine.program.kernel, machine.program.arch, instructions, tuple(loops))


def _needs(steps: Sequence[Step], loops: Sequence[Loop]) -> list[set[int]]:
    """Find what each instruction waits for, including values from a loop's previous trip."""
    needs: list[set[int]] = [set() for _ in steps]
    written: dict[int, int] = {}
    for i in executed(0, len(steps), loops, 2):
        step = steps[i]
        for slot in (*step.reads, step.guard, *step.writes):
            if slot in written and not adds_up(step, steps[written[slot]]):
                needs[i].add(written[slot])
        for slot in step.writes:
            written[slot] = i
    return needs
