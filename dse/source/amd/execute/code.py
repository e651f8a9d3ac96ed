"""A listing cut into stretches: instructions that the same lanes execute from first to last."""

from collections.abc import Collection
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from dse.errors import DseError
from dse.source.amd.execute.actions import Action, Binder
from dse.source.amd.execute.opcodes import TABLE, opcode
from dse.source.amd.execute.slice import Flow
from dse.source.amd.execute.slots import slots_of
from dse.source.amd.text import Instruction, Listing
from dse.source.machine.feeds import Feeds
from dse.source.machine.liveness import Purpose

BRANCHES = tuple(name for name in TABLE if name.startswith("s_cbranch_"))
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
    last: int = -1  # that jumps back here: the end of a loop

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
    binder: Binder

    @cached_property
    def evaluated(self) -> set[int]:
        """The needed instructions on whose results something depends."""
        return (self.binder.needed or set()) - self.binder.unread

    @cached_property
    def _flow(self) -> Flow:
        stretches, behind = self.stretches, len(self.stretches)  # which a last s_trap does not reach
        successors = [[after for after in s.successors if after < behind] for s in stretches]
        return Flow([s.steps for s in stretches], successors, self.listing.wave_size)

    def needed_for(
        self,
        purpose: Purpose,
        *,
        only: Collection[int] | None = None,
        feeds: Feeds | None = None,
    ) -> "Code":
        """Return the same code, of which what a purpose needs is executed, as `Flow.needed_steps`."""
        binder = copy(self.binder)  # they share what was bound
        binder.needed, binder.unread = self._flow.needed_steps(purpose, only=only, feeds=feeds)
        return Code(self.listing, [replace(stretch, binder=binder) for stretch in self.stretches], binder)


def code_of(listing: Listing, purpose: Purpose | None = None) -> Code:
    """Cut a listing into stretches, and bind the instructions needed for a purpose, or all, to actions.

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
            if step.opcode == "v_writelane_b32":
                binder.spilled.update(slots_of(step.operands[:1]))
        last = steps[-1]
        if last.opcode in BRANCHES or last.opcode == "s_branch":
            label = last.operands[0]
            if listing.labels.get(label) not in at:
                raise DseError(f"{listing.name}: {last}: found no label {label}, expected one in the kernel")
            stretch.target = at[listing.labels[label]]
        if last.opcode in _ENDS:
            stretch.end = last.opcode
        stretches.append(stretch)
        if 0 <= stretch.target <= number:
            stretches[stretch.target].last = number
    code = Code(listing, stretches, binder)
    return code if purpose is None else code.needed_for(purpose)


def _changes_lanes(step: Instruction) -> bool:
    """Return whether an instruction changes the mask of active lanes."""
    if "saveexec" in step.opcode or "wrexec" in step.opcode or step.opcode.startswith("v_cmpx"):
        return True
    row, compares = opcode(step.opcode), step.opcode.startswith(("s_cmp", "s_bitcmp"))
    of_mask = bool(step.operands) and step.operands[0] in ("exec", "exec_lo", "exec_hi")
    return of_mask and row is not None and row.pipe == "salu" and not compares
