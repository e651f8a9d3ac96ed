"""Marks: the lengths of a machine's records at some time, which delimit its work since then."""

from dataclasses import dataclass

import numpy as np

from dse.source.nvidia.machine.state import Machine


@dataclass(frozen=True)
class Mark:
    """Lengths of a machine's records at some time."""

    trace: int  # lengths
    repeats: int
    streams: int
    phases: int
    phase: np.ndarray  # of each block
    counts: np.ndarray

    @staticmethod
    def now(machine: Machine) -> "Mark":
        """Mark the present state."""
        return Mark(
            trace=len(machine.trace),
            repeats=len(machine.repeats),
            streams=len(machine.streams),
            phases=len(machine.phases),
            phase=machine.phase,
            counts=machine.counts.copy(),
        )

    def closed_phases(self, machine: Machine) -> list[int]:
        """List the phases that have ended since then."""
        numbers = {*self.phase.tolist(), *range(self.phases, len(machine.phases))}
        return [number for number in sorted(numbers) if machine.phase_counts[number] is not None]

    def instructions(self, machine: Machine) -> int:
        """Count the instructions of the basic blocks executed since then."""
        blocks = machine.program.blocks
        return sum(len(blocks[index].steps) for index, _ in machine.trace[self.trace :])

    def counted(self, machine: Machine, rows: np.ndarray) -> float:
        """Sum up some rows of the counters since then."""
        total = (machine.counts - self.counts)[rows].sum()
        for number in self.closed_phases(machine):
            counts = machine.phase_counts[number]
            assert counts is not None
            total += counts[rows].sum()
        return float(total)
