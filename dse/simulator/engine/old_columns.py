"""All instructions of some cases one after another, and the clock that their terms allow."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dse.simulator.case.program import MOST_SUBSYSTEMS, Case, Program
from dse.simulator.engine.old_slots import allocate


def ceil_power(n: int, base: int = 2) -> int:
    """Return the smallest power of `base` that is at least n."""
    power = 1
    while power < n:
        power *= base
    return power


def padded(values: np.ndarray, size: int) -> np.ndarray:
    """Fill up with zeros at the end."""
    return np.concatenate([values, np.zeros(size - len(values), values.dtype)])


def tick_exponents(terms: np.ndarray) -> np.ndarray:
    """Return the least k, 0 or more, for which each term is a multiple of 2^-k."""
    mantissa, exponent = np.frexp(terms)
    whole = (mantissa * 2.0**53).astype(np.int64)
    lowest = np.frexp((whole & -whole).astype(np.float64))[1] - 1  # position of the lowest bit that is set
    return np.where(terms == 0, 0, np.maximum(53 - exponent - lowest, 0))


@dataclass(frozen=True)
class Columns:
    """All instructions of all programs of all cases."""

    programs: tuple[Program, ...]
    case: np.ndarray  # of each program
    warps: np.ndarray  # that run each program
    length: np.ndarray  # of each program
    first: np.ndarray  # instruction of each program
    subsystem: np.ndarray
    throughput_cycles: np.ndarray
    latency_cycles: np.ndarray
    same_warp: np.ndarray
    barrier: np.ndarray
    pred: np.ndarray  # within its program
    pred_counts: np.ndarray
    valve: np.ndarray  # 1/IL of each case

    @classmethod
    def of(cls, cases: Sequence[Case]) -> "Columns":
        """Flatten the programs of the cases."""
        programs = tuple(p for case in cases for p in case.programs)
        length = np.array([len(p) for p in programs], np.int32)
        return cls(
            programs=programs,
            case=np.repeat(np.arange(len(cases), dtype=np.int32), [len(case.programs) for case in cases]),
            warps=np.array([warps for case in cases for warps in case.runs]),
            length=length,
            first=(np.cumsum(length) - length).astype(np.int32),
            subsystem=np.concatenate([p.subsystem for p in programs]),
            throughput_cycles=np.concatenate([p.throughput_cycles for p in programs]),
            latency_cycles=np.concatenate([p.latency_cycles for p in programs]),
            same_warp=np.concatenate([p.same_warp for p in programs]),
            barrier=np.frombuffer("".join(p.kind for p in programs).encode(), np.uint8) == ord("b"),
            pred=np.concatenate([p.pred for p in programs]),
            pred_counts=np.concatenate([p.pred_counts for p in programs]),
            valve=np.array([case.valve_cycles for case in cases]),
        )

    @cached_property
    def starts(self) -> np.ndarray:
        """The first instruction of the program of each instruction."""
        return np.repeat(self.first, self.length)

    @cached_property
    def owners(self) -> np.ndarray:
        """The instruction that has each dependence."""
        return np.repeat(np.arange(len(self.pred_counts)), self.pred_counts)

    @cached_property
    def last(self) -> np.ndarray:
        """The instructions that end their programs, as booleans."""
        last = np.zeros(len(self.subsystem), bool)
        last[self.first + self.length - 1] = True
        return last

    def ranks(self) -> np.ndarray:
        """For each dependence how many others its instruction has before it."""
        before = np.cumsum(self.pred_counts) - self.pred_counts
        return np.arange(len(self.pred)) - np.repeat(before, self.pred_counts)

    def distances(self) -> np.ndarray:
        """How many instructions back each dependence reaches; in rolled programs that may be less than 1."""
        return self.owners - self.starts[self.owners] - self.pred

    @cached_property
    def slots(self) -> tuple[np.ndarray, int]:
        """Where each instruction's result is kept, and how many places there are: a power of two."""
        rolled = {id(p): allocate(p) for p in self.programs if p.loops}
        back = self.distances()
        if rolled:
            straight = np.array([not p.loops for p in self.programs])
            back = back[straight[self.program[self.owners]]]
        window = ceil_power(max([int(back.max(initial=1)), *(count for _, count in rolled.values())]))
        slots = (np.arange(len(self.subsystem)) - self.starts) % window
        if rolled:
            for p, first in zip(self.programs, self.first, strict=True):
                if p.loops:
                    slots[first : first + len(p)] = rolled[id(p)][0]
        return slots, window

    @cached_property
    def program(self) -> np.ndarray:
        """The program that each instruction belongs to."""
        return np.repeat(np.arange(len(self.length)), self.length)

    def busiest(self) -> np.ndarray:
        """Σλ over all entries of each case's busiest subsystem, cycles."""
        cycles = self.throughput_cycles * np.repeat(self.warps, self.length)
        for p, first in zip(self.programs, self.first, strict=True):
            if p.loops:
                cycles[first : first + len(p)] *= p.runs
        pipe = np.repeat(self.case * MOST_SUBSYSTEMS, self.length) + self.subsystem
        total = np.bincount(pipe, cycles, MOST_SUBSYSTEMS * len(self.valve))
        return total.reshape(-1, MOST_SUBSYSTEMS).max(1)

    def exponents(self) -> np.ndarray:
        """k of each case: its times are multiples of 2^-k cycles."""
        k = tick_exponents(self.valve)
        terms = np.maximum.reduce(
            [tick_exponents(x) for x in (self.throughput_cycles, self.latency_cycles, self.same_warp)]
        )
        np.maximum.at(k, np.repeat(self.case, self.length), terms)
        return k

    def largest(self) -> np.ndarray:
        """The largest term of each case, cycles."""
        most = self.valve.copy()
        terms = np.maximum.reduce([self.throughput_cycles, self.latency_cycles, self.same_warp])
        np.maximum.at(most, np.repeat(self.case, self.length), terms)
        return most
