"""Barriers at which the threads of a block wait for each other."""

import numpy as np

from dse.source.machine.thread_set import Lanes
from dse.source.nvidia.execute.ready_threads import ReadyThreads
from dse.source.nvidia.machine.state import Machine
from dse.source.nvidia.sass.program import Step


class BlockBarriers:
    """Threads that wait at barriers (BAR), which end basic blocks."""

    def __init__(self, machine: Machine, ready: ReadyThreads) -> None:
        self.machine, self.ready = machine, ready
        self.arrived: dict[int, Lanes] = {}  # by basic block
        self._parted = any(step.opcode == "SYNCS" for step in machine.program.steps)
        self._signalled: dict[str, np.ndarray] = {}  # barrier → threads of each block that did not wait

    def arrive(self, index: int, step: Step, lanes: Lanes) -> None:
        """Let threads wait at the end of a basic block, or arrive without waiting."""
        machine = self.machine
        arriving = machine.under_guard(step, lanes)
        self.ready.enter(index + 1, machine.rest(lanes, arriving))
        if arriving is None:
            return
        if step.has("ARV"):
            name = step.sources[0].text
            self._signalled[name] = self._signalled.get(name, 0) + arriving.threads
            self.ready.enter(index + 1, arriving)
            return
        others = self.arrived.get(index)
        self.arrived[index] = arriving if others is None else machine.sets.of(arriving.mask | others.mask)
        if self._parted and _barrier(step)[1]:  # warps of one role continue before those of others
            self.release()

    def release(self) -> bool:
        """Release the blocks whose threads have all arrived; return False if there are none."""
        machine = self.machine
        places: dict[tuple[str, int], list[int]] = {}  # barrier, its thread count if stated → basic blocks
        for index in self.arrived:
            places.setdefault(_barrier(machine.program.blocks[index].steps[-1]), []).append(index)
        alive = machine.live_threads()
        released = False
        for (name, members), indices in places.items():
            waiting = np.zeros(machine.shape[0])
            for index in indices:
                waiting = waiting + self.arrived[index].threads
            signals = self._signalled.get(name, np.zeros(machine.shape[0]))
            enough = (waiting + signals >= members) if members else (waiting >= alive)
            done = (waiting > 0) & (enough | (not machine.all_warps))  # warps not executed count as arrived
            if not done.any():
                continue
            released = True
            whole = done & (waiting >= alive)
            if whole.any():
                machine.close_phase(whole, machine.program.blocks[indices[0]].steps[-1].address)
            if members and name in self._signalled:
                self._signalled[name] = np.where(done, signals - (members - waiting), signals)
            for index in indices:
                self._let_go(index, done)
        return released

    def _let_go(self, index: int, blocks: np.ndarray) -> None:
        """Release these blocks from the barrier at the end of a basic block."""
        machine = self.machine
        lanes = self.arrived.pop(index)
        going = lanes if blocks.all() else machine.sets.of(lanes.mask & blocks[:, None])
        left = machine.rest(lanes, going)
        if left is not None and left.total:
            self.arrived[index] = left
        self.ready.enter(index + 1, going if going.total else None)


def _barrier(step: Step) -> tuple[str, int]:
    """Return (name of the barrier, number of threads that it waits for, 0: the whole block)."""
    numbers = [operand.text for operand in step.sources if operand.kind == "number"]
    name = step.sources[0].text if step.sources else "0x0"
    return name, int(numbers[1], 0) if len(numbers) > 1 else 0
