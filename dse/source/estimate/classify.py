"""Classify configurations from known ones: compiled or failed, spilling or not, few registers or many."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from dse.source.contract import Failure
from dse.source.estimate.features import KnownFacts
from dse.source.estimate.regression import FittedProcess, fitted
from dse.source.profiles import KernelProfile

_JUMP = 0.4  # in the logarithm of registers, between the two kinds


@dataclass(frozen=True)
class Kinds:
    """A classifier of configurations into two kinds."""

    process: FittedProcess  # of +1 for one, -1 for the other

    def chance(self, points: np.ndarray) -> np.ndarray:
        """Return the probability of the first kind, [m]."""
        return ndtr(self.process.estimate(points) / np.sqrt(self.process.variance(points) + 1e-3))

    def likely(self, points: np.ndarray) -> np.ndarray:
        """Return which points are more likely of the first kind, [m]."""
        return self.process.estimate(points) > 0.0

    def doubt(self, points: np.ndarray) -> np.ndarray:
        """Return the variance of being of the first kind, [m]."""
        chance = self.chance(points)
        return chance * (1.0 - chance)

    @staticmethod
    def of(points: np.ndarray, first: np.ndarray) -> "Kinds":
        """Learn from points [n, d] of which some are of the first kind [n]."""
        return Kinds(fitted(points, np.where(first, 1.0, -1.0)))


@dataclass(frozen=True)
class Registers:
    """The registers of a thread: usual, or far more."""

    known: np.ndarray  # [n]
    points: np.ndarray  # [n, d]
    border: float  # between the two kinds; infinite if there is one
    kinds: Kinds | None
    process: FittedProcess  # of the logarithm of the low ones

    @staticmethod
    def of(points: np.ndarray, values: np.ndarray) -> "Registers":
        """Learn from the registers `values` [n] at points [n, d]."""
        logs = np.sort(np.log(values))
        jumps = np.diff(logs)
        border, kinds = np.inf, None
        if len(jumps) and jumps.max() > _JUMP:
            border = float(np.exp(logs[jumps.argmax()] + jumps.max() / 2))
            kinds = Kinds.of(points, values > border)
        low = values < border
        return Registers(values, points, border, kinds, fitted(points[low], np.log(values[low])))

    def is_high(self, points: np.ndarray) -> np.ndarray:
        """Return which points are likely to have far more registers, [m]."""
        return np.zeros(len(points), bool) if self.kinds is None else self.kinds.likely(points)

    @property
    def high(self) -> float:
        """The mean logarithm of the high ones."""
        return float(np.log(self.known[self.known > self.border]).mean())

    def estimate(self, points: np.ndarray) -> np.ndarray:
        """Estimate the registers at points, [m]."""
        logs = self.process.estimate(points)
        if self.kinds is not None:
            logs = np.where(self.is_high(points), self.high, logs)
        return self._nearest(logs)

    def left_out(self) -> np.ndarray:
        """Estimate each of the known ones from the others, [n]."""
        low = self.known < self.border
        logs = self.process.estimate(self.points)
        logs[low] = np.log(self.known[low]) - self.process.left_out
        if self.kinds is not None:
            signs = np.where(low, -1.0, 1.0) - self.kinds.process.left_out
            logs = np.where(signs > 0.0, self.high, logs)
        return self._nearest(logs)

    def within(self, points: np.ndarray, most: np.ndarray) -> np.ndarray:
        """Return the probability that points have at most `most` registers, [m]."""
        logs, deviation = self.process.estimate(points), np.sqrt(self.process.variance(points) + 1e-6)
        low = ndtr((np.log(most + 0.5) - logs) / deviation)
        if self.kinds is None:
            return low
        high = self.kinds.chance(points)
        return high * (self.high <= np.log(most + 0.5)) + (1.0 - high) * low

    def _nearest(self, logs: np.ndarray) -> np.ndarray:
        """Return the nearest known numbers, since compilers use only a few."""
        values = np.unique(self.known)
        return values[np.abs(np.log(values) - logs[:, None]).argmin(1)]

    def variance(self, points: np.ndarray) -> np.ndarray:
        """Return the variance of the logarithm at points, [m]."""
        within = self.process.variance(points)
        if self.kinds is None:
            return within
        apart = self.high - self.process.estimate(points)
        chance = self.kinds.chance(points)
        return chance * (1.0 - chance) * apart**2 + (1.0 - chance) * within


def registers_of(points: np.ndarray, results: Mapping[int, KernelProfile | Failure]) -> Registers:
    """Learn registers from the configurations that compiled, of those at `points` [L, d]."""
    registers = {
        index: result.registers for index, result in results.items() if isinstance(result, KernelProfile)
    }
    return Registers.of(points[list(registers)], np.array(list(registers.values())))


def too_large(known: KnownFacts, results: Mapping[int, KernelProfile | Failure]) -> np.ndarray:
    """Return which configurations declare more shared memory than compilers allow: [L].

    None do, unless the text gives the shared memory of all compiled ones, up to a constant.
    """
    right = all(isinstance(results[index], Failure) for index in results if known.too_large[index])
    return known.too_large & (right and shared_beyond_text(known, results) is not None)


def shared_beyond_text(known: KnownFacts, results: Mapping[int, KernelProfile | Failure]) -> int | None:
    """Return the bytes of compiled configurations beyond the text's; None unless all have the same."""
    if known.shared_bytes is None:
        return None
    beyond = {
        int(result.shared_bytes - known.shared_bytes[index])
        for index, result in results.items()
        if isinstance(result, KernelProfile)
    }
    return beyond.pop() if len(beyond) == 1 else None


def fails(points: np.ndarray, results: Mapping[int, KernelProfile | Failure]) -> Kinds:
    """Learn which configurations at `points` [L, d] do not compile."""
    failed = np.array([isinstance(result, Failure) for result in results.values()])
    return Kinds.of(points[list(results)], failed)


def spills(profile: KernelProfile) -> bool:
    """Return whether a configuration uses local memory."""
    return any("local" in kind for phase in profile.counts.phases for kind in phase.accesses)
