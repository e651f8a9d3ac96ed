"""The kinds of the instructions of a graph, and their memory requests."""

from dataclasses import replace

import numpy as np

from dse.source.machine.products import Mma
from dse.source.machine.recorded import MEMORY_COUNTS, total_counts
from dse.source.nvidia.machine.state import Machine
from dse.source.nvidia.sass.program import Step

WAITED_FOR = ("global", "local", "texture")  # pipes with a latency that warps wait for


def kind_of(step: Step) -> str:
    """Return the kind of an instruction: "memory", "barrier" or "compute"."""
    if step.pipe in WAITED_FOR:
        return "memory"
    return "barrier" if step.opcode == "BAR" and not step.has("ARV") else "compute"  # else it only arrives


class MemoryDemand:
    """The memory requests of instructions, from the counts of all phases."""

    def __init__(self, machine: Machine, weights: np.ndarray) -> None:
        """`weights` are those of the executed blocks: [blocks]"""
        self.counts = total_counts(machine) @ weights  # rows as Machine.counts
        self._rows, self._product_rows = machine.bound.memory_rows, machine.bound.product_rows
        self._block_of = {step.index: block.index for block in machine.program.blocks for step in block.steps}

    def entering(self, block: int) -> tuple[float, float]:
        """Return the (warps, threads) that entered a basic block."""
        warps, threads = self.counts[2 * block : 2 * block + 2].tolist()
        return warps, threads

    def of(self, step: Step) -> dict[str, float]:
        """Return the requests of one issue. Exchanges between the lanes of a warp take one pass."""
        row = self._rows.get(step.index)
        if row is None:
            shuffles = step.pipe == "shared"
            return {"requests": 1.0, "passes": 1.0} if shuffles else {}
        issues = max(float(self.counts[2 * self._block_of[step.index]]), 1e-300)
        requests, sectors, passes, _ = (self.counts[row : row + len(MEMORY_COUNTS)] / issues).tolist()
        if step.has("BYPASS"):  # bypasses the L1
            passes = 0.0
        demand = {"requests": requests, "sectors": sectors, "passes": passes}
        if len(step.memory) > 1:
            demand["shared_passes"] = float(self.counts[row + len(MEMORY_COUNTS) + 2]) / issues
        return demand

    def product(self, step: Step) -> Mma | None:
        """Return the mean product of one issue: under a guard, some warps may multiply nothing."""
        row = self._product_rows.get(step.index)
        if step.product is None or row is None:
            return step.product
        share = float(self.counts[row]) / max(float(self.counts[2 * self._block_of[step.index]]), 1e-300)
        numbers = ("multiply_adds", "from_registers", "shared_bytes")
        return replace(step.product, **{name: share * getattr(step.product, name) for name in numbers})
