"""Shares of a makespan on its critical path, by subsystem and by instruction."""

from dataclasses import dataclass

import numpy as np

from dse.simulator.simulation import Simulation

SHARE_OF_TERM = {"throughput_cycles": "throughput", "latency_cycles": "latency", "same_warp": "same_warp"}


@dataclass(frozen=True)
class PathShares:
    """The shares of one case's makespan by cause of waiting; their sum is 1.

    A share of `throughput` is time spent waiting for the subsystem to accept an instruction, of `latency` for
    a result, of `same_warp` for the interval between entries of a warp, of `issue` for the valve.
    **Shapes:** [S] by subsystem, or per program [n] by instruction.
    """

    throughput: np.ndarray
    latency: np.ndarray
    same_warp: np.ndarray
    issue: float
    instructions: tuple[np.ndarray, ...]  # sum of throughput, latency and same_warp

    @property
    def bottleneck(self) -> tuple[int, str]:
        """The subsystem of the largest share (-1: none, the issue limit), and its kind."""
        kinds = tuple(SHARE_OF_TERM.values())
        table = np.stack([getattr(self, kind) for kind in kinds])
        kind, subsystem = np.unravel_index(np.argmax(table), table.shape)
        if self.issue > table.max():
            return -1, "issue"
        return int(subsystem), kinds[kind]


def shares(result: Simulation, n: int) -> PathShares:
    """Return the shares of case n of a simulation; zeros if it takes no time.

    **Errors:** ValueError if the simulation has no critical paths.
    """
    if result.critical is None:
        raise ValueError("shares: found no critical paths, expected simulate(cases, critical=True)")
    case, path = result.cases[n], result.critical[n]
    makespan = result.makespan[n] if result.makespan[n] > 0 else np.inf
    by_subsystem = {}
    by_instruction = [np.zeros(len(program)) for program in case.programs]
    for name, share in SHARE_OF_TERM.items():
        total = np.zeros(case.subsystems)
        for program, counts, sums in zip(case.programs, getattr(path, name), by_instruction, strict=True):
            cycles = counts * getattr(program, name) / makespan
            total += np.bincount(program.subsystem, cycles, case.subsystems)
            sums += cycles
        by_subsystem[share] = total
    issue = float(path.valve * case.valve_cycles / makespan)
    return PathShares(**by_subsystem, issue=issue, instructions=tuple(by_instruction))
