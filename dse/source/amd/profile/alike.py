"""Cut a grid into boxes of blocks that provably execute the same on an AMD GPU.

The block's numbers are in registers, which change by one from block to block. As for the trips of a loop, the
changes of all registers are followed through the first block of a box, which yields the number of blocks in
which all branches go the same way, and the strides of addresses.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache, partial, reduce
from operator import or_
from typing import Any

import numpy as np

from dse.source.amd.execute.changes import ChangeRules
from dse.source.amd.execute.code import Code
from dse.source.amd.execute.contents import MemoryMachine
from dse.source.amd.execute.even import NON_LINEAR, number
from dse.source.amd.execute.interpret import STEP_LIMIT, Scheduler
from dse.source.amd.execute.loops import WaveLoopSkipper
from dse.source.amd.execute.memory_names import memory_access
from dse.source.amd.execute.results import Action
from dse.source.amd.execute.slice import effect_of
from dse.source.amd.execute.slots import CONSTANTS, Register
from dse.source.amd.execute.state import NeedsData
from dse.source.amd.profile.record import executions
from dse.source.amd.text import Instruction, Listing
from dse.source.machine.alike import Apart, Boxes, Followed, boxes_of
from dse.source.machine.launch import Dimensions, LaunchArguments
from dse.source.machine.liveness import reached, slots_in
from dse.source.machine.trips import Moving

_CHOICE = re.compile(r"v_(min|max)3?_[iu]")
_TESTED = re.compile(r"v_(?:cmpx?|(?:min|max)3?)_[a-z_]*[iu]")
_LOST = np.int64(1 << 62)  # a change that is not constant, of some lanes


class BlockRules(ChangeRules):
    """The changes from the first blocks of boxes to the next ones along a dimension of the grid."""

    limits_bits = own_lds = True

    def __init__(
        self, machine: MemoryMachine, loops: WaveLoopSkipper, tested: Callable[[Instruction], bool], axis: int
    ) -> None:
        moving = {slot: np.full((1, 1, 1), change) for slot, change in machine.numbered[axis].items()}
        super().__init__(machine, loops.code.binder, moving, machine.exists)
        self.loops, self.tested = loops, tested
        self.trips = machine.launch.grid[axis]
        # blocks that do the same after the first of each box
        self.more = np.full(machine.shape[0], self.trips)
        self.others: list[BlockRules] = []  # along other dimensions
        self.mixed = False  # whether a test depends on the block's numbers along two dimensions
        self.apart: dict[int, set[int | None]] = {}  # strides of addresses, by instruction; None: uneven
        self._at: tuple[int, ...] = ()  # the present test or product: place in the trace, instruction, number
        self._joined: set[tuple[int, ...]] = set()  # those of the present instruction with what changes

    def concerns(self, step: Instruction) -> bool:
        """Return whether an instruction has to do with memory, or with registers that change."""
        return memory_access(step.opcode) is not None or self._moves(step)

    def _moves(self, step: Instruction) -> bool:
        return not self.moving.keys().isdisjoint(_slots_of(step, self.machine.shape[2]))

    def follow(self, step: Instruction, action: Action) -> Iterator[None]:
        """Follow as `ChangeRules`; most accesses have nothing to do with registers that change."""
        self._at, self._joined = (len(self.machine.trace), step.index, 0), set()
        accessed = memory_access(step.opcode)
        aside = accessed is not None and (accessed.space == "scratch" or accessed.kind == "atomic")
        part = super().follow(step, action) if aside or self._moves(step) else iter(())
        return part if accessed is None or accessed.space in ("lds", "scratch") else self._noted(step, part)

    def _noted(self, step: Instruction, part: Iterator[None]) -> Iterator[None]:
        """Note the strides of an instruction's addresses while it is followed."""
        first, before = len(self.machine.accesses), len(self.strides)
        next(part, None)
        yield
        next(part, None)
        performed = self.machine.accesses[first:]
        for access, stride in zip(performed, self.strides[before:] or [0] * len(performed), strict=True):
            if access.lanes.any():
                self.apart.setdefault(step.index, set()).add(stride)

    def read(self, slot: Any, lanes: np.ndarray | None = None) -> Any:
        """Return the change of a slot in the lanes that read it."""
        change = super().read(slot)
        if not isinstance(change, np.ndarray):
            return change
        here, everyone = self._here(slot)
        here = here if lanes is None else lanes
        change = change if self._covers(here, everyone) else np.where(here, change, 0)
        return NON_LINEAR if (change == _LOST).any() else change if change.any() else None

    def _merged(self, here: np.ndarray, change: Any, before: Any) -> np.ndarray:
        """Return as `ChangeRules`; boxes go their own ways, so what is lost in some is not in others."""
        return np.where(here, *(_LOST if isinstance(x, str) else number(x) for x in (change, before)))

    def chooses(self, step: Instruction) -> bool:
        """Return whether nothing but integer comparisons reads a minimum or maximum."""
        return bool(_CHOICE.match(step.opcode)) and self.tested(step)

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
        self.trips = int(self.more.max())


@lru_cache(maxsize=2**15)
def _slots_of(step: Instruction, wave: int) -> frozenset[int]:
    """Return the slots that an instruction reads or writes."""
    return frozenset(slots_in(reduce(or_, effect_of(step, wave)[1:6]) & (1 << CONSTANTS) - 1))


def only_tested(listing: Listing, step: Instruction) -> bool:
    """Return whether nothing but integer comparisons reads the result before it is overwritten."""
    result, steps = effect_of(step, listing.wave_size).wanted_by, listing.instructions

    def following(at: int) -> Iterator[int]:
        name = steps[at].opcode
        if name.startswith(("s_cbranch", "s_branch")):
            yield listing.labels[steps[at].operands[0]]
        killed = effect_of(steps[at], listing.wave_size).kills & result
        if not killed and name not in ("s_branch", "s_endpgm") and at + 1 < len(steps):
            yield at + 1

    def tests(at: int) -> bool:
        effect, halves = effect_of(steps[at], listing.wave_size), filter(None, (steps[at], steps[at].second))
        read = (effect.reads | effect.reads_any) & result
        return not read or all(_TESTED.match(half.opcode) for half in halves)

    return all(map(tests, reached(step.index + 1, following)))


def followed(
    code: Code,
    launch: LaunchArguments,
    starts: Sequence[Dimensions],
    axes: Sequence[int],
    waves: Sequence[int] | None = None,
    exact: bool = False,
) -> tuple[MemoryMachine, list[BlockRules]]:
    """Run blocks to find how the next ones along each of these dimensions differ.

    **Raises:** Apart; DseError as `execute`.
    """
    machine = MemoryMachine(code.listing, launch, starts, waves)
    machine.exact = exact
    scheduler = Scheduler(code, machine, True, min(STEP_LIMIT, launch.most_steps))
    loops, tested = scheduler.loops, cache(partial(only_tested, code.listing))
    assert loops is not None
    blocks = [BlockRules(machine, loops, tested, axis) for axis in axes]
    loops.blocks += blocks
    for changes in blocks:
        changes.others = [other for other in blocks if other is not changes]
    try:
        scheduler.run()
    except NeedsData:
        raise Apart("data decide what blocks do") from None
    return machine, blocks


def alike_in_control(code: Code, launch: LaunchArguments, most: int) -> Boxes | str:
    """Cut a grid into at most `most` boxes whose blocks do the same in `code`, for control; else say why."""

    def follow(starts: Sequence[Dimensions], sizes: np.ndarray) -> Followed:
        machine, blocks = followed(code, launch, starts, axes)
        more, mixed = np.array([changes.more for changes in blocks]), any(x.mixed for x in blocks)
        return Followed(more, mixed, executions(machine, len(code.stretches)), exact=True)

    axes = [axis for axis in range(3) if launch.grid[axis] > 1]
    return boxes_of(launch.grid, axes, follow, most)
