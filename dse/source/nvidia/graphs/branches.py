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
    """A conditional branch: statistics of all visits by warps of the executed blocks."""

    address: int
    text: str
    line: int | None
    block: int  # that it ends
    target: int  # block that it jumps to; -1 for EXIT
    meets: int  # first block on all executed paths from here; -1: the end of the kernel
    visits: float  # of an average warp
    active: float  # mean share of active lanes in a visiting warp
    jumping: float  # share of these lanes that take it
    taken: float  # share of visits in which any lane takes it
    passed: float  # ... does not take it
    diverged: float  # ... both: the warp splits
    lanes_taken: float  # mean lanes on either side of a warp that splits
    lanes_passed: float


def branches(machine: Machine, weights: Sequence[float] | None = None) -> tuple[BranchProfile, ...]:
    """Profile all executed conditional branches, by address, except jumps to an address in a register.

    `weights` are the blocks of the grid that each executed block represents (`Sample.weights`), or equal.
    """
    return profiled(ControlFlow(machine, weights))


def profiled(control: ControlFlow) -> tuple[BranchProfile, ...]:
    """Profile the executed branches by where warps went from them."""
    behind = dominators([END, *control.executed], control.before, END)
    profiles = []
    for index in control.executed:
        block = control.machine.program.blocks[index]
        last = block.steps[-1]
        may_pass = index + 1 in block.successors
        if last.opcode not in DIRECT or last.jump == index + 1 or not may_pass:
            continue
        visits, threads = control.demand.entering(index)
        if not visits:  # visited only by blocks of weight 0
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
