"""Convergence points, at which diverged threads of a warp wait for each other."""

import numpy as np

from dse.source.machine.thread_set import WARP, Lanes
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
            missing = missing | _of_other_calls(wanted)
        complete = machine.sets.of(lanes.mask & ~missing)
        return lanes if complete.total == lanes.total else complete if complete.total else None


def _of_other_calls(wanted: np.ndarray) -> np.ndarray:
    """Return whether threads want some that want others: those wait at the same place of another call."""
    rows = wanted.reshape(-1, WARP)
    missing = np.zeros(rows.shape, bool)
    mixed = (rows != rows[:, :1]).any(1)
    of_warp = rows[mixed][:, :, None]
    wants = of_warp >> np.arange(WARP, dtype=np.uint32) & 1 != 0
    missing[mixed] = (wants & (of_warp != of_warp.transpose(0, 2, 1))).any(2)
    return missing.reshape(wanted.shape)
