"""Run some warps of many blocks for their global addresses alone, if possible one block per row of blocks.

The change of a block's number is propagated through the first block of a row (`induction`); without a proof
that the others do the same, each block is run. In the same way a whole grid is cut into boxes of blocks that
provably execute the same.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from dse.source.machine.addresses import Addresses, Strides, most_pieces
from dse.source.machine.alike import Apart, Boxes, Followed, boxes_of
from dse.source.machine.launch import Dimensions, LaunchArguments
from dse.source.machine.liveness import Purpose
from dse.source.machine.recorded import total_counts
from dse.source.machine.thread_set import WARP, Lanes
from dse.source.machine.trips import FOR_EVER, Change, Irregular
from dse.source.nvidia.execute.induction import BARRIER_MOVES, Examination
from dse.source.nvidia.execute.interpret import Scheduler, bound_for, run
from dse.source.nvidia.execute.loop_skipping import LoopPolicy
from dse.source.nvidia.execute.register_changes import RegisterChanges, slot_of
from dse.source.nvidia.execute.tiling import Tiling
from dse.source.nvidia.machine.state import BoundProgram, Machine
from dse.source.nvidia.sass.operands import Operand
from dse.source.nvidia.sass.program import Step

_NUMBERS = "SR_CTAID.X", "SR_CTAID.Y", "SR_CTAID.Z"  # of a block along each dimension of the grid
_IN_CLUSTER = "SR_CgaCtaId"  # of a block in its cluster
_SHORT = 5_000  # basic blocks
_HEADER = -1  # instead of the first basic block of a loop


def addresses_of(
    machine: Machine,
    blocks: Sequence[Dimensions],
    warps: Sequence[int] | None = None,
    only: frozenset[int] | None = None,
) -> Addresses:
    """Run other blocks of an executed launch, no trips of loops being estimated: some of their warps, for the
    addresses of all or `only` some instructions.

    If addresses depend on shared memory, or on what threads find out at a barrier, all are run: others may
    have stored what these load.

    **Raises:** DseError as `run`, and if they execute far more than the blocks before.
    """
    bound, launch = machine.bound, machine.launch
    only_addresses = bound_for(bound, Purpose.ADDRESSES, only)
    steps = [step for step in only_addresses.program.steps if step.needed]  # shuffles are of one warp
    if any(step.loads_shared or step.kind == "meeting" for step in steps):
        warps = None
    if warps is not None:
        only_addresses.long_loops = {machine.trace[start][0] for start, _, _ in machine.repeats}
    threads = machine.shape[1] if warps is None else WARP * len(warps)

    def limit(count: int) -> int:
        return most_pieces(len(machine.trace), _SHORT, threads * count)

    def first(firsts: Sequence[Dimensions], axis: int) -> tuple[Machine, np.ndarray, Strides]:
        of_rows = Machine(only_addresses, launch, firsts, warps)
        (examination,) = _run(of_rows, limit(len(firsts)), [axis])
        return of_rows, examination.changes.more, examination.strides

    rows = Addresses.of_rows(machine, machine.blocks, blocks, first)
    if rows is not None:
        return rows
    return Addresses.of(run(only_addresses, launch, blocks, limit(len(blocks)), LoopPolicy.SKIP, warps))


def _run(machine: Machine, limit: int, axes: Sequence[int]) -> "list[_OfBlocks]":
    """Run blocks to find how the next ones along each of these dimensions differ.

    **Raises:** Apart; DseError as `run`.
    """
    with np.errstate(all="ignore"):
        scheduler = Scheduler(machine, limit, LoopPolicy.SKIP)
        examinations = [_OfBlocks(machine, _NUMBERS[axis]) for axis in axes]
        examinations[0].others = examinations[1:]
        scheduler.loops.examined += examinations
        scheduler.run()
    if machine.missed_stores or _HEADER in machine.irregular:
        raise Apart(machine.irregular.get(_HEADER, "it loads what it stored"))
    return examinations


def alike_in_control(bound: BoundProgram, launch: LaunchArguments, limit: int, most: int) -> Boxes | str:
    """Cut a grid into at most `most` boxes whose blocks execute the same; return the reason if not proven.

    `bound` is for the purpose of control; `limit` is that of executed basic blocks.
    """
    numbers = {operand.text for step in bound.program.steps if step.needed for operand in step.sources}
    axes = [
        axis
        for axis, blocks in enumerate(launch.grid)
        if blocks > 1 and (_NUMBERS[axis] in numbers or (launch.cluster[axis] > 1 and _IN_CLUSTER in numbers))
    ]
    if not axes:
        return Boxes.alike(bound.rows)

    def follow(blocks: Sequence[Dimensions], sizes: np.ndarray) -> Followed:
        machine = Machine(bound, launch, blocks)
        examinations = _run(machine, limit, axes)
        more = np.array([examination.changes.more for examination in examinations])
        exact = all(examination.exact for examination in examinations)
        return Followed(more, examinations[0].mixed, total_counts(machine), exact)

    return boxes_of(launch.grid, axes, follow, most)


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

    @property
    def enough(self) -> int:
        """A number of blocks to which a limit changes nothing."""
        return int(self.more.max())

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
        numbers = (number,) if machine.launch.cluster == (1, 1, 1) else (number, _IN_CLUSTER)
        self.numbered = {
            step.index
            for step in machine.program.steps
            if any(operand.text in numbers for operand in step.sources)
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
            elif (guarded := self.machine.under_guard(step, lanes)) is None:
                return
            elif step.sources[0].text != _IN_CLUSTER:
                self.registers.set(step.targets[0].slot, np.ones((1, 1), np.int64), guarded)
            else:
                self.registers.set_erratic(step.writes, guarded, "the block's number in its cluster")
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
