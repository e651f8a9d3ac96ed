"""Waits at barriers in shared memory (mbarriers): somebody must arrive there.

A wait is taken to succeed at once, whatever the phase: threads that run before those that they wait for lose
nothing that counts. So nothing is seen of a barrier that nobody arrives at, but for this check.
"""

import numpy as np

from dse.source.machine.recorded import total_counts
from dse.source.nvidia.machine.state import Machine
from dse.source.nvidia.sass.program import Step

# What arrives besides SYNCS: copies and products that are over.
_ARRIVING = ("UTMALDG", "UBLKCP", "UTCBAR", "ARRIVES")


def check_arrivals(machine: Machine) -> None:
    """Check that in each block that waits at barriers in shared memory somebody arrives at one.

    **Raises:** DseError that names the first wait for nothing.
    """
    steps = [step for step in machine.program.steps if step.opcode in (*_ARRIVING, "SYNCS")]
    waits = [step for step in steps if step.has("PHASECHK")]
    if not waits:
        return
    counts = total_counts(machine)
    block_of = {step.index: block.index for block in machine.program.blocks for step in block.steps}

    def executed(step: Step) -> np.ndarray:
        """Number of threads of each block that arrived: [blocks]."""
        rows = machine.bound.guard_rows
        memory = machine.bound.memory_rows
        row = rows.get(step.index, memory.get(step.index, 2 * block_of[step.index] + 1))
        return counts[row]

    arrived = np.zeros(machine.shape[0])
    for step in steps:
        if step.opcode in _ARRIVING or step.has("ARRIVE"):
            arrived = arrived + executed(step)
    for step in waits:
        if ((executed(step) > 0) & (arrived == 0)).any():
            raise machine.program.error(
                step, "found threads that wait for others for ever, expected all to arrive"
            )
