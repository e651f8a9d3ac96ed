"""Runnable threads by the next basic block."""

from dse.source.machine.thread_set import Lanes
from dse.source.nvidia.machine.state import Machine


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

    def take_lowest(self) -> tuple[int, Lanes]:
        """Remove and return the threads that are to enter the first basic block, with its number."""
        index = min(self._waiting)
        return index, self._waiting.pop(index)

    @property
    def lowest(self) -> int:
        """The first basic block that threads are to enter; above all numbers if there is none."""
        return min(self._waiting, default=len(self.machine.program.blocks))
