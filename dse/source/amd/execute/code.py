"""A listing cut into stretches: instructions that the same lanes execute from first to last."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from dse.errors import DseError
from dse.source.amd.execute.actions import Action, Binder
from dse.source.amd.execute.opcodes import opcode
from dse.source.amd.execute.slice import Purpose, needed_steps
from dse.source.amd.execute.slots import EXEC, register
from dse.source.amd.text import Instruction, Listing

BRANCHES = (
    "s_cbranch_scc0", "s_cbranch_scc1", "s_cbranch_vccz", "s_cbranch_vccnz", "s_cbranch_execz",
    "s_cbranch_execnz",
)  # fmt: skip
BARRIERS = ("s_barrier", "s_barrier_wait")
_ENDS = (*BRANCHES, "s_branch", "s_endpgm", *BARRIERS)


@dataclass(eq=False)
class Stretch:
    """Consecutive instructions. The last may branch, end, wait at a barrier or change the mask of lanes."""

    index: int
    steps: list[Instruction]
    binder: Binder
    end: str = ""  # the opcode of a branch, an end or a barrier
    target: int = -1  # of a branch: a stretch

    @cached_property
    def actions(self) -> list[tuple[Instruction, Action]]:
        """The actions in order of the needed instructions, made on the first execution."""
        needed = self.binder.needed
        steps = self.steps if needed is None else [step for step in self.steps if step.index in needed]
        return [(step, action) for step in steps for action in self.binder.actions(step)]

    @property
    def successors(self) -> list[int]:
        """The stretches that may be next."""
        after = [] if self.end in ("s_branch", "s_endpgm") else [self.index + 1]
        return after if self.target < 0 else [self.target, *after]


@dataclass(frozen=True)
class Code:
    """An executable listing."""

    listing: Listing
    stretches: list[Stretch]
    constants: list[np.ndarray]  # of the instructions bound so far
    evaluated: frozenset[int] = frozenset()  # instructions whose results something depends on


def code_of(listing: Listing, purpose: Purpose = Purpose.VALUES) -> Code:
    """Cut a listing into stretches, and bind the instructions needed for a purpose to actions.

    **Raises:** DseError if an instruction or a form of one is unknown: its opcode, or all of it.
    """
    starts = {0, *listing.labels.values()}
    for step in listing.instructions:
        if step.opcode in _ENDS or _changes_lanes(step):
            starts.add(step.index + 1)
    count = len(listing.instructions)
    at = {start: number for number, start in enumerate(sorted(start for start in starts if start < count))}
    binder = Binder(listing)
    stretches = []
    for number, (start, stop) in enumerate(pairwise([*at, count])):
        steps = list(listing.instructions[start:stop])
        stretch = Stretch(number, steps, binder)
        for step in steps:
            binder.check(step)
        last = steps[-1]
        if last.opcode in BRANCHES or last.opcode == "s_branch":
            label = last.operands[0]
            if listing.labels.get(label) not in at:
                raise DseError(f"{listing.name}: {last}: found no label {label}, expected one in the kernel")
            stretch.target = at[listing.labels[label]]
        if last.opcode in _ENDS:
            stretch.end = last.opcode
        stretches.append(stretch)
    if purpose is not Purpose.VALUES:
        steps, successors = zip(*((s.steps, s.successors) for s in stretches), strict=True)
        binder.needed, binder.unread = needed_steps(steps, successors, listing.wave_size, purpose)
    return Code(listing, stretches, binder.constants, frozenset(binder.needed or ()) - binder.unread)


def _changes_lanes(step: Instruction) -> bool:
    """Return whether an instruction changes the mask of active lanes."""
    if "saveexec" in step.opcode or "wrexec" in step.opcode or step.opcode.startswith("v_cmpx"):
        return True
    if not step.operands or not step.operands[0].startswith("exec"):
        return False
    row = opcode(step.opcode)
    written = register(step.operands[0])
    return (
        row is not None
        and row.pipe == "salu"
        and not step.opcode.startswith(("s_cmp", "s_bitcmp"))
        and (written is not None and written.slot in (EXEC, EXEC + 1))
    )
