"""Threads that can run, and those that wait for others: at convergence points and at barriers.

A block's barriers end basic blocks. Waits at mbarriers (barriers in shared memory) succeed at once, whatever
the phase, which does not change the counts; it is checked that each has arrivals.
"""

from collections.abc import Iterator
from functools import reduce
from operator import or_

import numpy as np

from dse.source.machine.recorded import total_counts
from dse.source.machine.thread_set import WARP, Lanes, ballot
from dse.source.nvidia.machine.state import Machine, union
from dse.source.nvidia.sass.operands import OF_BARRIER
from dse.source.nvidia.sass.program import Step

FOR_EVER = "found threads that wait for others for ever, expected all to arrive"
# Arrivals at mbarriers besides SYNCS: of finished copies and products.
_ARRIVING = ("UTMALDG", "UBLKCP", "UBLKRED", "UTCBAR", "ARRIVES", "REDAS", "STAS", "UGETNEXTWORKID")
Meeting = tuple[int, int, int]  # basic block that ends there, barrier, its thread count if stated or 0


class ReadyThreads:
    """Runnable threads: a set per basic block to enter."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._waiting: dict[int, Lanes] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def enter(self, index: int, lanes: Lanes | None) -> None:
        """Let threads, if any, enter a basic block, together with those that are to enter it already.

        **Raises:** DseError if there is no such basic block.
        """
        if lanes is None:
            return
        program = self.machine.program
        if index >= len(program.blocks):
            raise program.error(program.steps[-1], "found the end of the code, expected EXIT")
        others = self._waiting.get(index)
        self._waiting[index] = lanes if others is None else self.machine.sets.of(lanes.mask | others.mask)

    def pass_on(self, index: int, step: Step, lanes: Lanes) -> Lanes | None:
        """Let threads whose guard does not hold enter the block after `index`; return the others."""
        guarded = self.machine.under_guard(step, lanes)
        self.enter(index + 1, self.machine.rest(lanes, guarded))
        return guarded

    def take_lowest(self) -> tuple[int, Lanes]:
        """Remove and return the threads that are to enter the first basic block, with its number."""
        index = min(self._waiting)
        return index, self._waiting.pop(index)

    @property
    def lowest(self) -> int:
        """The first basic block that threads are to enter; above all numbers if there is none."""
        return min(self._waiting, default=len(self.machine.program.blocks))


class ConvergencePoints:
    """Threads held at convergence points (BSYNC, WARPSYNC), which end basic blocks."""

    def __init__(self, machine: Machine, ready: ReadyThreads) -> None:
        self.machine, self.ready = machine, ready
        self.held: dict[int, Lanes] = {}  # by basic block

    def arrive(self, index: int, step: Step, lanes: Lanes) -> None:
        """Hold threads at the end of a basic block until their warps are complete."""
        machine = self.machine
        arriving = self.ready.pass_on(index, step, lanes)
        if arriving is None:
            return
        others = self.held.pop(index, None)
        if others is not None:
            arriving = machine.sets.of(arriving.mask | others.mask)
        if self._complete(step, arriving) is arriving:
            self.ready.enter(index + 1, arriving)
        else:  # hold all, since others may still join them
            self.held[index] = arriving

    def release(self) -> bool:
        """Release complete warps from the first point that holds any; return False if none does."""
        machine = self.machine
        for index in sorted(self.held):
            lanes = self.held[index]
            complete = self._complete(machine.program.blocks[index].steps[-1], lanes)
            if complete is not None:
                del self.held[index]
                left = machine.rest(lanes, complete)
                if left is not None:
                    self.held[index] = left
                self.ready.enter(index + 1, complete)
                return True
        return False

    def _complete(self, step: Step, lanes: Lanes) -> Lanes | None:
        """Return those of `lanes` whose warps are complete."""
        machine = self.machine
        operand = next((operand for operand in step.sources if operand.slot >= 0), None)
        if operand is not None:
            expected = machine.r[operand.slot]
        elif step.sources and step.sources[0].kind == "number":
            expected = np.full((1, 1), int(step.sources[0].text, 0), np.uint32)
        else:
            expected = np.full((1, 1), 0xFFFFFFFF, np.uint32)
        rows = expected.reshape(-1, min(WARP, expected.shape[1]))
        calls = operand is not None and (rows != rows[:, :1]).any()  # may be of different depth
        if lanes.total == machine.live and not calls:
            return lanes
        live = machine.sets.of(machine.live_mask)
        wanted = expected & live.bits
        missing = (wanted & ~lanes.bits) != 0
        if calls:
            missing = missing | _of_other_calls(wanted, lanes.mask)
        complete = machine.sets.of(lanes.mask & ~missing)
        return lanes if complete.total == lanes.total else complete if complete.total else None


def _of_other_calls(wanted: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Return whether threads want some that want others: those wait at the same place of another call."""
    rows, left = (array.reshape(-1, WARP) for array in np.broadcast_arrays(wanted, asked))
    missing = np.zeros(rows.shape, bool)
    while left.any():  # mostly once, since those that are asked want the same
        value = np.take_along_axis(rows, left.argmax(1)[:, None], 1)
        same = rows == value
        others = value & ~ballot(same)[:, None]
        missing |= same & (others != 0)
        left = left & ~same
    return missing.reshape(np.broadcast_shapes(wanted.shape, asked.shape))


class BlockBarriers:
    """Threads that wait at barriers (BAR), which end basic blocks."""

    def __init__(self, machine: Machine, ready: ReadyThreads) -> None:
        self.machine, self.ready = machine, ready
        self.arrived: dict[Meeting, Lanes] = {}
        self._parted = any(step.opcode == "SYNCS" for step in machine.program.steps)
        self._signalled: dict[int, np.ndarray] = {}  # barrier → threads of each block that did not wait

    def arrive(self, index: int, step: Step, lanes: Lanes) -> None:
        """Let threads wait at the end of a basic block, or arrive without waiting."""
        arriving = self.ready.pass_on(index, step, lanes)
        if arriving is None:
            return
        for barrier, members, meeting in self._barriers(step, arriving):
            self._join((index, barrier, members), step, meeting)

    def _join(self, meeting: Meeting, step: Step, lanes: Lanes) -> None:
        """Let threads arrive at a barrier."""
        index, barrier, members = meeting
        if step.has("ARV"):
            self._signalled[barrier] = self._signalled.get(barrier, 0) + lanes.threads
            self.ready.enter(index + 1, lanes)
            return
        others = self.arrived.get(meeting)
        self.arrived[meeting] = lanes if others is None else self.machine.sets.of(lanes.mask | others.mask)
        if self._parted and members:  # warps of one role continue before those of others
            self.release()

    def _barriers(self, step: Step, lanes: Lanes) -> Iterator[tuple[int, int, Lanes]]:
        """Yield (barrier, number of threads that it waits for, 0: the whole block; threads that name it)."""
        machine = self.machine
        named = [operand for operand in step.sources if operand.kind in ("number", "register")]
        packed = len(named) == 2 and named[0].kind == "register" and named[0].slot == named[1].slot
        numbers = (np.array(int(x.text, 0)) if x.kind == "number" else machine.r[x.slot] for x in named)
        barrier, members, *_ = (*(number.astype(int) for number in numbers), np.array(0), np.array(0))
        # those of one register are its lower and upper half
        both = (barrier & 15) + (members >> 16 * packed << 4)
        for value in np.unique(lanes.of(both) if both.size > 1 else both):
            there = lanes if both.size == 1 else machine.sets.of(lanes.mask & (both == value))
            yield int(value) & 15, int(value) >> 4, there

    def release(self) -> bool:
        """Release blocks whose threads have all arrived; return False if there are none.

        Those at the first barrier in the code go on alone, until they come to where others wait.
        """
        machine = self.machine
        places: dict[tuple[int, int], list[Meeting]] = {}
        for meeting in sorted(self.arrived):
            places.setdefault(meeting[1:], []).append(meeting)
        alive = machine.live_threads()
        released = False
        for (barrier, members), meetings in places.items():
            threads = np.stack(
                [np.broadcast_to(self.arrived[meeting].threads, machine.shape[:1]) for meeting in meetings]
            )
            waiting, first = threads.sum(axis=0), (threads > 0).argmax(axis=0)
            signals = self._signalled.get(barrier, np.zeros(machine.shape[0]))
            enough = (waiting + signals >= members) if members else (waiting >= alive)
            done = (waiting > 0) & (enough | (not machine.all_warps))  # warps not executed count as arrived
            if not done.any():
                continue
            released = True
            done &= first == (place := first[done].min())
            whole = done & (waiting >= alive)
            if whole.any():
                machine.close_phase(whole, machine.program.blocks[meetings[place][0]].steps[-1].address)
            if members and barrier in self._signalled:
                self._signalled[barrier] = np.where(done, signals - (members - waiting), signals)
            for meeting in meetings:
                self._let_go(meeting, done)
        return released

    def _let_go(self, meeting: Meeting, blocks: np.ndarray) -> None:
        """Release these blocks from the barrier at the end of a basic block."""
        machine, index = self.machine, meeting[0]
        lanes = self.arrived.pop(meeting)
        going = lanes if blocks.all() else machine.sets.of(lanes.mask & blocks[:, None])
        step = machine.program.blocks[index].steps[-1]
        if step.needed:
            self._find_out(step, going)
        left = machine.rest(lanes, going)
        if left is not None and left.total:
            self.arrived[meeting] = left
        self.ready.enter(index + 1, going if going.total else None)

    def _find_out(self, step: Step, lanes: Lanes) -> None:
        """Write in how many threads of a block a predicate holds; or whether in all, or in any."""
        machine = self.machine
        holding = machine.where_all(step.sources, lanes)
        count = np.zeros((1, 1)) if holding is None else holding.threads[:, None]
        if step.has("AND"):
            count = count == lanes.threads[:, None]
        elif step.has("OR"):
            count = count > 0
        taint = reduce(or_, (machine.taint[slot] for slot in step.reads), 0)
        machine.write(OF_BARRIER, count.astype(np.uint32), union(taint, lanes), lanes)


def check_arrivals(machine: Machine) -> None:
    """Check that each block that waits at mbarriers has an arrival; in clusters others may send it.

    **Raises:** DseError that names the first wait without one.
    """
    steps = [step for step in machine.program.steps if step.opcode in (*_ARRIVING, "SYNCS")]
    waits = [step for step in steps if step.has("PHASECHK")]
    if not waits or machine.launch.cluster != (1, 1, 1):
        return
    counts, bound = total_counts(machine), machine.bound
    block_of = {step.index: block.index for block in machine.program.blocks for step in block.steps}

    def executed(step: Step) -> np.ndarray:
        """Count the threads of each block that executed a step: [blocks]."""
        of_memory = bound.memory_rows.get(step.index, 2 * block_of[step.index] + 1)
        return counts[bound.guard_rows.get(step.index, of_memory)]

    arrived = np.zeros(machine.shape[0])
    for step in steps:
        if step.opcode in _ARRIVING or step.has("ARRIVE"):
            arrived = arrived + executed(step)
    for step in waits:
        if ((executed(step) > 0) & (arrived == 0)).any():
            raise machine.program.error(step, FOR_EVER)
