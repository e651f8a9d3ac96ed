"""The branches of a kernel, and how often warps split at each."""

from collections.abc import Sequence
from dataclasses import dataclass

from dse.source.machine.thread_set import WARP
from dse.source.nvidia.graphs.control_flow import DIRECT, ControlFlow
from dse.source.nvidia.machine.state import Machine


@dataclass(frozen=True)
class BranchProfile:
    """A conditional branch: statistics of all visits by warps of the executed blocks."""

    address: int
    text: str
    line: int | None
    visits: float  # of an average warp
    active: float  # mean share of active lanes in a visiting warp
    jumping: float  # share of these lanes that take it
    diverged: float  # share of visits in which the warp splits


def branches(machine: Machine, weights: Sequence[float] | None = None) -> tuple[BranchProfile, ...]:
    """Profile all executed conditional branches, by address, except jumps to an address in a register.

    `weights` are the blocks of the grid that each executed block represents (`Sample.weights`), or equal.
    """
    control, profiles = ControlFlow(machine, weights), []
    for index in control.executed:
        block = control.machine.program.blocks[index]
        last = block.steps[-1]
        may_pass = index + 1 in block.successors
        if last.opcode not in DIRECT or last.jump == index + 1 or not may_pass:
            continue
        visits, threads = control.demand.entering(index)
        if not visits:  # visited only by blocks of weight 0
            continue
        profiles.append(
            BranchProfile(
                address=last.address,
                text=f"{last.instruction.predicate} {last.text}".strip(),
                line=last.line,
                visits=visits,
                active=threads / (WARP * visits),
                jumping=control.along(index, last.jump)[1] / threads,
                diverged=control.splits.get(index, 0.0) / visits,
            )
        )
    return tuple(profiles)
