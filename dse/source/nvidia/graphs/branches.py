"""The branches of a kernel, and how often warps split at each."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dse.source.machine.thread_set import WARP
from dse.source.nvidia.graphs.control_flow import DIRECT, END, ControlFlow
from dse.source.nvidia.graphs.dominators import dominators, nearest_dominator
from dse.source.nvidia.machine.state import Machine


@dataclass(frozen=True)
class BranchProfile:
    """A branch under a condition, over all warps of the blocks that were run, each visit separately."""

    address: int
    text: str
    line: int | None
    block: int  # that it ends
    target: int  # block that it goes to; -1 for EXIT
    meets: int  # first block that all ways gone from here led to; -1: the end of the kernel
    visits: float  # of an average warp
    active: float  # share of a visiting warp's lanes that come, mean
    jumping: float  # share of these lanes that take it
    taken: float  # share of the visits in which a lane or more takes it
    passed: float  # ... continues behind it
    diverged: float  # ... both: the warp splits
    lanes_taken: float  # lanes on either side of a warp that splits, mean
    lanes_passed: float


def branches(machine: Machine, weights: Sequence[float] | None = None) -> tuple[BranchProfile, ...]:
    """Profile all branches under a condition that warps came to, in the order of addresses.

    `weights` says how many blocks of the grid each block that was run represents (`Sample.weights`); else all
    count the same. Jumps to an address in a register are not among them.
    """
    return profiled(ControlFlow(machine, weights))


def profiled(control: ControlFlow) -> tuple[BranchProfile, ...]:
    """Profile the branches that warps came to, by where they went from there."""
    behind = dominators([END, *control.executed], control.before, END)
    profiles = []
    for index in control.executed:
        block = control.machine.program.blocks[index]
        last = block.steps[-1]
        may_pass = index + 1 in block.successors
        if last.opcode not in DIRECT or last.jump == index + 1 or not may_pass:
            continue
        visits, threads = control.demand.entering(index)
        if not visits:  # only blocks came here that weigh nothing
            continue
        (taken, jumping), (passed, _) = (control.along(index, target) for target in (last.jump, index + 1))
        split, lanes_taken, lanes_passed = np.broadcast_to(control.splits.get(index, 0.0), 3).tolist()
        profiles.append(
            BranchProfile(
                address=last.address,
                text=f"{last.instruction.predicate} {last.text}".strip(),
                line=last.line,
                block=index,
                target=last.jump,
                meets=nearest_dominator(index, behind),
                visits=visits,
                active=threads / (WARP * visits),
                jumping=jumping / threads,
                taken=taken / visits,
                passed=passed / visits,
                diverged=split / visits,
                lanes_taken=lanes_taken / split if split else 0.0,
                lanes_passed=lanes_passed / split if split else 0.0,
            )
        )
    return tuple(profiles)
