"""The Pipeline simulator: exact makespans of whole batches of configurations."""

from dse.simulator.case.program import Case, Loop, Program
from dse.simulator.result.gradient import Terms, makespans
from dse.simulator.simulation import Critical, Simulation, simulate

__all__ = [
    "Case",
    "Critical",
    "Loop",
    "Program",
    "Simulation",
    "Terms",
    "makespans",
    "simulate",
]
