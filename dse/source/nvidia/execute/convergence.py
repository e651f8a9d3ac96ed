"""Convergence points, at which diverged threads of a warp wait for each other."""

import numpy as np

from dse.source.machine.thread_set import WARP, Lanes, ballot
from dse.source.nvidia.execute.ready_threads import ReadyThreads
from dse.source.nvidia.machine.state import Machine
from dse.source.nvidia.sass.program import Step


class ConvergencePoints:
    """Threads held at convergence points (BSYNC, WARPSYNC), which end basic blocks."""

    def __init__(self, machine: Machine, ready: ReadyThreads) -> None:
        self.machine, self.ready = machine, ready
        self.held: dict[int, Lanes] = {}  # by basic block

    def arrive(self, index: int, step: Step, lanes: Lanes) -> None:
        """Hold threads at the end of a basic block until their warps are complete."""
        machine = self.machine
        arriving = machine.under_guard(step, lanes)
        self.ready.enter(index + 1, machine.rest(lanes, arriving))
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
