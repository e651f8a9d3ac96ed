"""All cases of a call as flat arrays of instructions, programs and cases."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from operator import attrgetter
from typing import Any, cast

import numpy as np

from dse.simulator.case.program import MOST_SUBSYSTEMS, SCHEDULERS, Case, Program
from dse.simulator.engine.slots import hand_out
from dse.simulator.engine.survey import Instructions, Survey, survey

_OF_INSTRUCTIONS = (
    "subsystem", "throughput_cycles", "latency_cycles", "same_warp", "barrier", "pred_counts",
)  # fmt: skip
_OF_PROGRAMS = ("length", "loop_counts")
# Read together, since each case and program is an object of its own in memory.
_CASE = attrgetter("warps", "slots", "groups", "issue_limit", "scheduler", "order", "caps", "assignment")
_PROGRAM = attrgetter(
    "subsystem", "throughput_cycles", "latency_cycles", "same_warp", "pred_counts", "pred", "kind", "loops"
)
_SCHEDULER = {name: n for n, name in enumerate(SCHEDULERS)}


def _starts(counts: str) -> Any:
    """Return a cached property: the `offsets` of a column of counts."""
    return cached_property(lambda columns: offsets(getattr(columns, counts)))


@dataclass(frozen=True)
class CaseColumns:
    """All instructions of all programs of all cases.

    A program's instructions are together, and so are a case's programs. `pred` and `loops` count from the
    start of their program, `assignment` from the first program of its case.
    """

    # Of each instruction
    subsystem: np.ndarray  # int32
    throughput_cycles: np.ndarray
    latency_cycles: np.ndarray
    same_warp: np.ndarray
    barrier: np.ndarray  # bool
    pred_counts: np.ndarray  # int32
    pred: np.ndarray  # int32 [dependences], those of an instruction ascending
    # Of each program
    length: np.ndarray
    loop_counts: np.ndarray
    loops: np.ndarray  # [loops, 3]: first instruction, end, trips; outer loops first
    # Of each case
    program_counts: np.ndarray
    warps: np.ndarray  # of a group
    slots: np.ndarray
    groups: np.ndarray
    valve: np.ndarray  # 1/IL, cycles; 0: no limit
    scheduler: np.ndarray  # index into `SCHEDULERS`
    dataflow: np.ndarray  # bool
    caps: np.ndarray  # [cases, MOST_SUBSYSTEMS]; infinite: no limit
    periods: np.ndarray  # lengths of the assignments
    assignment: np.ndarray  # programs of the warps, case after case

    @classmethod
    def of(cls, cases: Sequence[Case]) -> "CaseColumns":
        """Flatten the cases; loops are unrolled in dataflow order."""
        of_cases = zip(*map(_CASE, cases), strict=True)
        warps, slots, groups, limits, schedulers, orders, caps, assignments = of_cases
        of_each = [_as_simulated(case) for case in cases]
        programs = [program for case_programs in of_each for program in case_programs]
        of_programs = zip(*map(_PROGRAM, programs), strict=True)
        subsystem, throughput_cycles, latency_cycles, same_warp, pred_counts, pred, kinds, loops = of_programs
        return cls(
            subsystem=_joined(subsystem, np.int32),
            throughput_cycles=_joined(throughput_cycles, np.float64),
            latency_cycles=_joined(latency_cycles, np.float64),
            same_warp=_joined(same_warp, np.float64),
            barrier=np.frombuffer("".join(kinds).encode(), np.uint8) == ord("b"),
            pred_counts=_joined(pred_counts, np.int32),
            pred=_joined(pred, np.int32),
            length=np.array(list(map(len, kinds))),
            loop_counts=np.array(list(map(len, loops))),
            loops=np.array(
                [(x.first, x.stop, x.trips) for of_program in loops for x in of_program], np.int64
            ).reshape(-1, 3),
            program_counts=np.array(list(map(len, of_each))),
            warps=np.array(warps),
            slots=np.array(slots),
            groups=np.array(groups),
            valve=1.0 / np.array(limits, np.float64),
            scheduler=np.array([_SCHEDULER[name] for name in schedulers]),
            dataflow=np.array([order == "dataflow" for order in orders]),
            caps=_caps(caps),
            periods=np.array(list(map(len, assignments))),
            assignment=np.array([number for of_case in assignments for number in of_case]),
        )

    def take(self, numbers: np.ndarray) -> "CaseColumns":
        """Return the columns of the cases with these numbers, which may repeat."""
        programs = within(self.program_first, numbers)
        instructions = within(self.first, programs)
        taken = {
            "pred": self.pred[within(self.pred_first, instructions)],
            "loops": self.loops[within(self.loop_first, programs)],
            "assignment": self.assignment[within(self.assigned, numbers)],
        }
        for field in fields(self):
            values = getattr(self, field.name)
            if field.name in _OF_INSTRUCTIONS:
                taken[field.name] = values[instructions]
            elif field.name in _OF_PROGRAMS:
                taken[field.name] = values[programs]
            elif field.name not in taken:
                taken[field.name] = values[numbers]
        return CaseColumns(**taken)

    # Where the members of each begin, and the number of all.
    first = _starts("length")  # instructions of a program
    pred_first = _starts("pred_counts")  # dependences of an instruction
    loop_first = _starts("loop_counts")  # loops of a program
    program_first = _starts("program_counts")  # programs of a case
    assigned = _starts("periods")  # numbers of a case in `assignment`

    @cached_property
    def runs(self) -> np.ndarray:
        """Number of warps, of all groups, that run each program."""
        whole, rest = np.divmod(self.warps * self.groups, self.periods)
        nth = np.arange(len(self.assignment)) - np.repeat(self.assigned[:-1], self.periods)
        program = self.assignment + np.repeat(self.program_first[:-1], self.periods)
        warps = np.repeat(whole, self.periods) + (nth < np.repeat(rest, self.periods))
        runs = np.zeros(len(self.length), np.int64)
        np.add.at(runs, program, warps)
        return runs

    @cached_property
    def entries(self) -> np.ndarray:
        """Number of instructions that all warps of a case enter."""
        return np.add.reduceat(self.runs * self.warp_entries, self.program_first[:-1])

    @cached_property
    def warp_entries(self) -> np.ndarray:
        """Number of instructions that a warp enters, of each program."""
        return np.add.reduceat(self.times, self.first[:-1]) if len(self.loops) else self.length

    @cached_property
    def times(self) -> np.ndarray:
        """Entries of a warp into each instruction."""
        times = np.ones(len(self.subsystem), np.int64)
        first = np.repeat(self.first[:-1], self.loop_counts)
        for start, (begin, end, trips) in zip(first.tolist(), self.loops.tolist(), strict=True):
            times[start + begin : start + end] *= trips
        return times

    @cached_property
    def case(self) -> np.ndarray:
        """The case of each program."""
        return np.repeat(np.arange(len(self.warps)), self.program_counts)

    @cached_property
    def subsystems(self) -> np.ndarray:
        """Number of subsystems of each case, up to the last one that an instruction or a cap names."""
        capped = np.where(np.isfinite(self.caps), np.arange(1, MOST_SUBSYSTEMS + 1), 0).max(1)
        return np.maximum(self.survey.subsystems, capped)

    @cached_property
    def survey(self) -> Survey:
        """Facts about all instructions of each case."""
        return survey(self.program_first, self.first, self.runs, self.times, self.valve, self.instructions)

    @cached_property
    def instructions(self) -> Instructions:
        """The columns of instructions, for compiled loops."""
        return Instructions(*(getattr(self, name) for name in Instructions._fields))

    @cached_property
    def result_slots(self) -> tuple[np.ndarray, np.ndarray]:
        """Slot of each instruction's result [instructions], and the number of slots of each program."""
        slots = np.zeros(len(self.subsystem) if len(self.loops) else 0, np.int32)
        counts = self.survey.reach.copy()
        for program in np.nonzero(self.loop_counts)[0]:
            rows = slice(self.first[program], self.first[program + 1])
            loops = self.loops[self.loop_first[program] : self.loop_first[program + 1]]
            counts[program] = hand_out(
                self.pred_first[rows.start : rows.stop + 1], self.pred, loops, slots[rows]
            )
        return counts, slots


def offsets(counts: np.ndarray) -> np.ndarray:
    """Return the start of each of several concatenated lists, and the end of the last one."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])


def within(first: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return the members of these lists, concatenated; `first` has the start of each list."""
    counts = first[numbers + 1] - first[numbers]
    return np.arange(counts.sum()) + np.repeat(first[numbers] - offsets(counts)[:-1], counts)


def _joined(arrays: Sequence[np.ndarray], dtype: type) -> np.ndarray:
    """Concatenate arrays of this type, three times as fast as NumPy if they are short."""
    return np.frombuffer(bytearray().join(cast(Sequence[memoryview], arrays)), dtype)


def _as_simulated(case: Case) -> Sequence[Program]:
    return [p.unrolled() for p in case.programs] if case.order == "dataflow" else case.programs


def _caps(limits: Sequence[tuple[float, ...]]) -> np.ndarray:
    caps = np.full((len(limits), MOST_SUBSYSTEMS), np.inf)
    for c, of_case in enumerate(limits):
        if of_case:
            caps[c, : len(of_case)] = of_case
    return caps
