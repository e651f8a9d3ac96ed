"""Check that each mbarrier (barrier in shared memory) that threads wait at has arrivals.

Waits succeed at once, whatever the phase, which does not change the counts. A barrier without arrivals would
go unnoticed without this check.
"""

import numpy as np

from dse.source.machine.recorded import total_counts
from dse.source.nvidia.machine.state import Machine
from dse.source.nvidia.sass.program import Step

# Arrivals besides SYNCS: of finished copies and products.
_ARRIVING = ("UTMALDG", "UBLKCP", "UTCBAR", "ARRIVES")


def check_arrivals(machine: Machine) -> None:
    """Check that each block that waits at mbarriers has an arrival.

    **Raises:** DseError that names the first wait without one.
    """
    steps = [step for step in machine.program.steps if step.opcode in (*_ARRIVING, "SYNCS")]
    waits = [step for step in steps if step.has("PHASECHK")]
    if not waits:
        return
    counts = total_counts(machine)
    block_of = {step.index: block.index for block in machine.program.blocks for step in block.steps}

    def executed(step: Step) -> np.ndarray:
        """Count the threads of each block that executed a step: [blocks]."""
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
