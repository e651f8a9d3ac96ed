"""Cut a grid into boxes of blocks that provably execute the same on an AMD GPU.

The block's numbers are in registers, which change by one from block to block. As for the trips of a loop, the
changes of all registers are followed through the first block of a box, which yields the number of blocks in
which all branches go the same way.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial, reduce
from operator import or_
from typing import Any

import numpy as np

from dse.errors import DseError
from dse.source.amd.execute.changes import ChangeRules
from dse.source.amd.execute.code import Code
from dse.source.amd.execute.contents import MemoryMachine
from dse.source.amd.execute.even import NON_LINEAR, number
from dse.source.amd.execute.interpret import STEP_LIMIT, Scheduler
from dse.source.amd.execute.loops import WaveLoopSkipper
from dse.source.amd.execute.memory_names import MemoryAccess, memory_access
from dse.source.amd.execute.results import Action
from dse.source.amd.execute.slice import Effect, effect_of
from dse.source.amd.execute.slots import Register
from dse.source.amd.execute.state import NeedsData
from dse.source.amd.profile.record import executions
from dse.source.amd.text import Instruction, Listing
from dse.source.machine.alike import Apart, Boxes, Followed, boxes_of
from dse.source.machine.launch import Dimensions, LaunchArguments
from dse.source.machine.trips import FOR_EVER, Moving

_CHOICE = re.compile(r"v_(min|max)3?_[iu]")
_TESTED = re.compile(r"v_(?:cmpx?|(?:min|max)3?)_[a-z_]*[iu]")
_LOST = np.int64(1 << 62)  # a change that is not constant, of some lanes


class _Effects:
    """What the instructions of a listing do."""

    def __init__(self, listing: Listing) -> None:
        self.of = cache(partial(effect_of, wave=listing.wave_size))
        self.slots = cache(self._slots)
        self.only_tested = cache(partial(only_tested, listing, self.of))

    def _slots(self, step: Instruction) -> frozenset[int]:
        """Return the slots that are read or written."""
        bits = reduce(or_, self.of(step)[1:6])
        return frozenset(slot for slot in range(bits.bit_length()) if bits >> slot & 1)


class BlockRules(ChangeRules):
    """The changes from the first blocks of boxes to the next ones along a dimension of the grid."""

    limits_bits = True

    def __init__(self, machine: MemoryMachine, loops: WaveLoopSkipper, effects: _Effects, axis: int) -> None:
        moving = {slot: np.full((1, 1, 1), change) for slot, change in machine.numbered[axis].items()}
        super().__init__(machine, loops.code.stretches[0].binder, moving, machine.exists)
        self.loops, self.effects = loops, effects
        self.more = np.full(machine.shape[0], FOR_EVER)  # blocks that do the same after the first of each box
        self.others: list[BlockRules] = []  # along other dimensions
        self.mixed = False  # whether a test depends on the block's numbers along two dimensions
        self._at: tuple[int, ...] = ()  # the present test or product: place in the trace, instruction, number
        self._joined: set[tuple[int, ...]] = set()  # those of the present instruction with what changes

    def follow(self, step: Instruction, action: Action) -> Iterator[None]:
        """Follow as `ChangeRules`; most instructions have nothing to do with registers that change."""
        self._at, self._joined = (len(self.machine.trace), step.index, 0), set()
        accessed = memory_access(step.opcode)
        aside = accessed is not None and (accessed.space == "scratch" or accessed.kind == "atomic")
        if aside or not self.moving.keys().isdisjoint(self.effects.slots(step)):
            yield from super().follow(step, action)

    def read(self, slot: Any) -> Any:
        """Return the change of a slot in the lanes that read it."""
        change = super().read(slot)
        if not isinstance(change, np.ndarray):
            return change
        here, everyone = self._here(slot)
        change = change if self._covers(here, everyone) else np.where(here, change, 0)
        return NON_LINEAR if (change == _LOST).any() else change if change.any() else None

    def _merged(self, here: np.ndarray, change: Any, before: Any) -> np.ndarray:
        """Return as `ChangeRules`; boxes go their own ways, so what is lost in some is not in others."""
        return np.where(here, *(_LOST if isinstance(x, str) else number(x) for x in (change, before)))

    def chooses(self, step: Instruction) -> bool:
        """Return whether nothing but integer comparisons reads a minimum or maximum."""
        return bool(_CHOICE.match(step.opcode)) and self.effects.only_tested(step)

    def joins(self) -> None:
        """Note a test or product of what changes, which along another dimension may be of something else."""
        self._joined.add(self._at)
        self.mixed |= any(self._at in other._joined for other in self.others)

    def inside(self, place: Any) -> bool:
        """Return whether an operand changes from trip to trip of a loop, too."""
        loop = self.loops.examined
        if loop is None or loop.examined is None or not isinstance(place, Register):
            return False
        return any(slot in loop.examined.moving for slot in range(place.slot, place.slot + place.count))

    def keep_order(self, test: str, left: Moving, right: Moving, integers: range) -> None:
        """Limit the blocks to those with the same result of a test."""
        self._at = (*self._at[:2], self._at[2] + 1)
        super().keep_order(test, left, right, integers)

    def limit_trips(self, trips: np.ndarray) -> None:
        """Limit the blocks to the minimum over the lanes of each."""
        least = self._in_lanes(trips).min(axis=(1, 2))
        self.joins()
        self.more = np.minimum(self.more, np.maximum(least, 0))

    def _matters(self, step: Instruction, accessed: MemoryAccess, known: bool, changes: bool) -> bool:
        """Return as `ChangeRules`: blocks share the global memory, and each has an LDS of its own."""
        if accessed.space == "lds" or accessed.to_lds:
            return changes
        return super()._matters(step, accessed, known, changes)

    def _loads_other(self, accessed: MemoryAccess) -> bool:
        """Return as `ChangeRules`: the next block stores the same in its LDS."""
        return accessed.space != "lds" and accessed.kind != "load"


def only_tested(listing: Listing, of: Callable[[Instruction], Effect], step: Instruction) -> bool:
    """Return whether nothing but integer comparisons reads the result before it is overwritten."""
    result = of(step).wanted_by
    ahead, seen = [step.index + 1], set[int]()
    while ahead:
        at = ahead.pop()
        if at in seen or at == len(listing.instructions):
            continue
        seen.add(at)
        other = listing.instructions[at]
        effect = of(other)
        halves = filter(None, (other, other.second))
        if (effect.reads | effect.reads_any) & result and not all(_TESTED.match(x.opcode) for x in halves):
            return False
        if other.opcode.startswith(("s_cbranch", "s_branch")):
            ahead.append(listing.labels[other.operands[0]])
        if not effect.kills & result and other.opcode not in ("s_branch", "s_endpgm"):
            ahead.append(at + 1)
    return True


def alike_in_control(code: Code, launch: LaunchArguments, most: int) -> Boxes | str:
    """Cut a grid into at most `most` boxes whose blocks execute the same; else return the reason.

    `code` is for control.
    """

    def follow(starts: Sequence[Dimensions], sizes: np.ndarray) -> Followed:
        machine = MemoryMachine(code.listing, launch, starts)
        scheduler = Scheduler(code, machine, True, min(STEP_LIMIT, launch.most_steps))
        loops = scheduler.loops
        assert loops is not None
        blocks = [BlockRules(machine, loops, effects, axis) for axis in axes]
        loops.blocks += blocks
        for changes in blocks:
            changes.others = [other for other in blocks if other is not changes]
        try:
            scheduler.run()
        except NeedsData:
            raise Apart("data decide what blocks do") from None
        more = np.array([changes.more for changes in blocks])
        mixed = any(changes.mixed for changes in blocks)
        return Followed(more, mixed, executions(machine, len(code.stretches)), exact=True)

    axes, effects = [axis for axis in range(3) if launch.grid[axis] > 1], _Effects(code.listing)
    try:
        return boxes_of(launch.grid, axes, follow, most)
    except (Apart, DseError) as reason:
        return str(reason)
