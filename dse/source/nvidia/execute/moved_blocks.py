"""Run some warps of many blocks for their global addresses alone, executing one block per row of blocks.

In a row of blocks along x or y that do the same, except for addresses with a constant stride, the first block
determines the others. As for the trips of a loop, that is not guessed but proven: the block's number is a
register that changes by one, and this change is propagated through the first block (`induction`), which
yields the number of blocks in which all branches go the same way. Without a proof, each block is run.

In the same way a whole grid is cut into boxes of blocks that provably execute the same.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from dse.errors import DseError
from dse.source.machine.addresses import Addresses
from dse.source.machine.alike import Apart, Boxes, Followed, boxes_of
from dse.source.machine.launch import Dimensions, LaunchArguments
from dse.source.machine.memory import Overwritten
from dse.source.machine.recorded import total_counts
from dse.source.machine.thread_set import Lanes
from dse.source.machine.trips import FOR_EVER, Change, Irregular
from dse.source.nvidia.execute.induction import BARRIER_MOVES, Examination
from dse.source.nvidia.execute.interpret import Scheduler, bound_for, run
from dse.source.nvidia.execute.loop_skipping import LoopPolicy
from dse.source.nvidia.execute.register_changes import RegisterChanges, slot_of
from dse.source.nvidia.execute.tiling import Tiling
from dse.source.nvidia.machine.state import BoundProgram, Machine, Purpose
from dse.source.nvidia.sass.operands import Operand
from dse.source.nvidia.sass.program import Step

_NUMBERS = "SR_CTAID.X", "SR_CTAID.Y", "SR_CTAID.Z"  # of a block along each dimension of the grid
_HEADER = -1  # instead of the first basic block of a loop
_ATTEMPTS = 4  # to cut rows where blocks begin to differ
_SHORTEST = 4  # mean blocks in a row that make this worthwhile


def addresses_of(
    machine: Machine, blocks: Sequence[Dimensions], warps: Sequence[int] | None = None
) -> Addresses:
    """Run other blocks of an executed launch, no trips of loops being estimated: some of their warps.

    If addresses depend on shared memory, all are run: others may have stored what these load.

    **Raises:** DseError as `run`, and if they execute far more than the blocks before.
    """
    bound, limit = machine.bound, max(5_000, 4 * len(machine.trace))
    only_addresses, launch = bound_for(bound, Purpose.ADDRESSES), machine.launch
    steps = only_addresses.program.steps  # shuffles are of one warp
    if any(step.needed and step.pipe == "shared" and step.memory and step.targets for step in steps):
        warps = None
    if warps is not None:
        only_addresses.long_loops = {machine.trace[start][0] for start, _, _ in machine.repeats}
    axes = [axis for axis in range(2) if launch.grid[axis] > 1]  # x and y
    for axis in sorted(axes, key=lambda axis: _kinds(machine, axis)):
        try:
            return _by_rows(only_addresses, launch, blocks, limit, warps, axis)
        except Apart:
            pass
    return Addresses.of(run(only_addresses, launch, blocks, limit, LoopPolicy.SKIP, warps))


def _kinds(machine: Machine, axis: int) -> int:
    """Count the kinds of executed blocks in the row with most of them."""
    counts, kinds = total_counts(machine)[: 2 * len(machine.program.blocks)], dict[Dimensions, set[bytes]]()
    for number, block in enumerate(machine.blocks):
        x, y, z = block
        row = (0, y, z) if axis == 0 else (x, 0, z)
        kinds.setdefault(row, set()).add(counts[:, number].tobytes())
    return max(map(len, kinds.values()))


def _by_rows(
    bound: BoundProgram,
    launch: LaunchArguments,
    blocks: Sequence[Dimensions],
    limit: int,
    warps: Sequence[int] | None,
    axis: int,
) -> Addresses:
    """Run the first blocks of rows along a dimension of the grid.

    **Raises:** Apart if too many rows are needed; DseError as `run`.
    """
    rows = _rows(np.array(blocks), axis, launch.grid[axis] - 1)
    for _ in range(_ATTEMPTS):
        if _SHORTEST * len(rows) > len(blocks):
            break
        machine = Machine(bound, launch, [blocks[row[0]] for row in rows], warps)
        (examination,) = _run(machine, limit, [axis])
        parts = [
            part
            for row, more in zip(rows, examination.changes.more.tolist(), strict=True)
            for part in _cut(row, more)
        ]
        if len(parts) == len(rows):
            of, ahead = np.empty(len(blocks), int), np.empty(len(blocks), int)
            for number, row in enumerate(rows):
                of[row], ahead[row] = number, np.arange(len(row))
            return Addresses(machine, of, ahead, examination.strides)
        rows = parts
    raise Apart("too few blocks do the same")


def _rows(blocks: np.ndarray, axis: int, last: int) -> list[np.ndarray]:
    """List the indices of consecutive blocks [blocks, 3] along a dimension.

    The last block of the grid, which mostly differs, is a row of its own.
    """
    others = [other for other in (2, 1, 0) if other != axis]
    order = np.lexsort((blocks[:, axis], *(blocks[:, other] for other in others[::-1])))
    step = np.zeros(3, int)
    step[axis] = 1
    blocks = blocks[order]
    parted = (np.diff(blocks, axis=0) != step).any(axis=1) | (blocks[1:, axis] == last)
    edges = [0, *(1 + np.flatnonzero(parted)).tolist(), len(order)]
    return [order[start:end] for start, end in pairwise(edges)]  # np.split takes far longer


def _cut(row: np.ndarray, more: int) -> list[np.ndarray]:
    """Cut a row after the blocks known to do the same as the first.

    The row mostly differs again after as many blocks, but a single block may be one at an edge.
    """
    return np.split(row, range(more + 1, len(row), more + 1) if more else [1] if len(row) > 1 else [])


def _run(machine: Machine, limit: int, axes: Sequence[int]) -> "list[_OfBlocks]":
    """Run blocks to find how the next ones along each of these dimensions differ.

    **Raises:** Apart; DseError as `run`.
    """
    with np.errstate(all="ignore"):
        scheduler = Scheduler(machine, limit, LoopPolicy.SKIP)
        examinations = [_OfBlocks(machine, _NUMBERS[axis]) for axis in axes]
        examinations[0].others = examinations[1:]
        scheduler.loops.examined += examinations
        try:
            scheduler.run()
        except Overwritten:
            raise Apart("it loads what was copied to shared memory") from None
    if machine.missed_stores or _HEADER in machine.irregular:
        raise Apart(machine.irregular.get(_HEADER, "it loads what it stored"))
    return examinations


def alike_in_control(bound: BoundProgram, launch: LaunchArguments, limit: int, most: int) -> Boxes | str:
    """Cut a grid into at most `most` boxes whose blocks execute the same; return the reason if not proven.

    `bound` is for the purpose of control; `limit` is that of executed basic blocks.
    """
    bound = bound.whole or bound
    numbers = {operand.text for step in bound.program.steps if step.needed for operand in step.sources}
    axes = [axis for axis in range(3) if launch.grid[axis] > 1 and _NUMBERS[axis] in numbers]
    if not axes:
        return Boxes.alike(bound.rows)

    def follow(blocks: Sequence[Dimensions], sizes: np.ndarray) -> Followed:
        machine = Machine(bound, launch, blocks)
        examinations = _run(machine, limit, axes)
        more = np.array([examination.changes.more for examination in examinations])
        exact = all(examination.exact for examination in examinations)
        return Followed(more, examinations[0].mixed, total_counts(machine), exact)

    try:
        return boxes_of(launch.grid, axes, follow, most)
    except (Apart, DseError) as reason:
        return str(reason)


class _Changes(RegisterChanges):
    """Changes from block to block, of some of the threads."""

    limits_bits = True

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, {})
        self.more = np.full(machine.shape[0], FOR_EVER)  # further blocks with proven changes

    def tiled(self, wide: Machine, tiling: Tiling) -> "_Changes":
        """Return the changes for a machine whose rows are trips of a loop."""
        made = super().tiled(wide, tiling)
        assert isinstance(made, _Changes)
        made.more = np.tile(self.more, tiling.trips)
        return made

    def take(self, wide: RegisterChanges, tiling: Tiling) -> None:
        """Take over the results of those trips."""
        assert isinstance(wide, _Changes)
        super().take(wide, tiling)
        self.more = wide.more.reshape(tiling.trips, -1).min(axis=0)

    def change(self, operand: Operand) -> Change:
        """Return the change of a 32-bit source; none if only other threads have one."""
        return super().change(operand) if self.any_changes((slot_of(operand),)) else None

    def any_changes(self, slots: Iterable[int]) -> bool:
        """Return whether any of these slots changes in some of the threads."""
        changes = [self.by_slot[slot] for slot in slots if slot in self.by_slot]
        everyone = self.lanes.total == self.machine.live
        return any(everyone or (self.lanes.mask & (change != 0)).any() for change in changes)

    def limit_trips(self, trips: np.ndarray) -> None:
        """Limit the proven blocks to the minimum over lanes."""
        least = np.where(self.lanes.mask, trips, FOR_EVER).min(axis=1)
        self.more = np.minimum(self.more, np.maximum(least, 0))


class _OfBlocks(Examination):
    """The execution of the first blocks of rows, followed while they are run."""

    def __init__(self, machine: Machine, number: str) -> None:
        """`number` is the special register that grows by one from block to block."""
        everyone, last = machine.sets.of(machine.live_mask), len(machine.program.blocks)
        for_control = machine.bound.purpose is Purpose.CONTROL  # addresses do not matter
        super().__init__(machine, _HEADER, last, everyone, {}, may_estimate=for_control)
        self.numbered = {
            step.index
            for step in machine.program.steps
            if any(operand.text == number for operand in step.sources)
        }
        self.registers = _Changes(machine)
        self.others: list[_OfBlocks] = []  # along other dimensions, followed after this
        self.mixed = False  # whether a value depends on the block's numbers along two dimensions
        self.exact = True  # whether no guard depends on erratic values

    @property
    def changes(self) -> _Changes:
        """The changes from block to block."""
        assert isinstance(self.registers, _Changes)
        return self.registers

    def follow(self, step: Step, lanes: Lanes) -> None:
        """Compute the changes of the results of `step` to the next block.

        **Raises:** Apart
        """
        changing = self.registers.slots
        if self.others and step.needed and not self.mixed:
            moved = [changing, *(other.registers.slots for other in self.others)]
            self.mixed = sum(not slots.isdisjoint((*step.reads, step.guard)) for slots in moved) > 1
        aside = step.memory or step.index in self.numbered or step.pipe in ("control", "tensor")
        if not aside and changing.isdisjoint((*step.reads, *step.writes, step.guard)):
            return  # the usual case: it reads and writes no changing slot
        self.changes.lanes = lanes
        try:
            if step.index not in self.numbered:
                super().follow(step, lanes)
            elif step.opcode not in ("S2R", "S2UR"):
                raise Irregular(f"{step.opcode} of the block's number")
            elif (guarded := self.machine.under_guard(step, lanes)) is not None:
                self.registers.set(step.targets[0].slot, np.ones((1, 1), np.int64), guarded)
        except Irregular as reason:
            raise Apart(str(reason)) from None

    def _steered_by(self, step: Step) -> bool:
        """Return as `Examination`; for control, an erratic guard affects only its own count."""
        if not self.may_estimate:
            return super()._steered_by(step)
        self.exact = False
        return step.opcode in BARRIER_MOVES or (step.needed and (step.stores or step.atomic or step.of_box))

    def _address(self, step: Step, lanes: Lanes) -> None:
        """Check addresses; for control, only those of loads matter, if contents are known."""
        if self.machine.bound.purpose is not Purpose.CONTROL:
            super()._address(step, lanes)
        elif step.needed and not step.of_box:
            strides = [self._stride(step, address, lanes)[0] for address in step.memory]
            known = self.strides.get(step.index, strides[-1])
            self.strides[step.index] = known if {*strides} == {known} else None

    def _store(self, step: Step, lanes: Lanes, changes: bool) -> None:
        """Check stores; atomics on equal shared memory return the same in every block."""
        if step.atomic and step.pipe == "shared" and not changes:
            self.registers.set_same(step.writes, lanes)
        else:
            super()._store(step, lanes, changes)

    def end(self, step: Step, lanes: Lanes) -> None:
        """Check that threads go the same way in every block.

        **Raises:** Apart
        """
        self.changes.lanes = lanes
        try:
            super().end(step, lanes)
        except Irregular as reason:
            raise Apart(str(reason)) from None
