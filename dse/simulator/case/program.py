"""A case of the simulator: the programs of the warps, and the core on which they run."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from dse.errors import DseError

ORDERS = ("program", "dataflow")
SCHEDULERS = ("rr", "gto", "oldest")
KINDS = "cmb"  # compute, memory, barrier
MOST_SUBSYSTEMS = 8
MOST_INSTRUCTIONS = 4_095  # of a program: distances of dependences are packed into 12 bits
MOST_NESTED = 4  # nested loops
MOST_WARPS = 1_024  # on the core at a time
MOST_ENTRIES = 2**31 - 1  # of one case


@dataclass(frozen=True)
class Loop:
    """A loop: instructions first..stop-1 run `trips` times in sequence."""

    first: int
    stop: int
    trips: int

    def __contains__(self, i: int) -> bool:
        return self.first <= i < self.stop


def executed(first: int, stop: int, loops: Sequence[Loop], most_trips: float = math.inf) -> Iterator[int]:
    """Yield instructions first..stop-1 as they run, with at most `most_trips` trips of each loop.

    Outer loops come before those inside.
    """
    i, rest = first, list(loops)
    while i < stop:
        if not rest or rest[0].first > i:
            yield i
            i += 1
            continue
        loop = rest.pop(0)
        inner = [other for other in rest if other.first < loop.stop]
        for _ in range(int(min(loop.trips, most_trips))):
            yield from executed(i, loop.stop, inner, most_trips)
        i, rest = loop.stop, rest[len(inner) :]


@dataclass(frozen=True, eq=False)
class Program:
    """The instructions of one warp, in program order, and their dependences.

    Loops stay rolled: prologue, body and epilogue occur once each. An instruction waits for the latest
    earlier run of each of its predecessors, if there is one: so in a loop, a predecessor later in the body,
    or the instruction itself, is that of the iteration before.

    **Shapes:** arrays [n]; `preds` has each instruction's predecessors, ascending, all earlier than itself or
    in a loop with it.
    **Errors:** DseError if lengths differ, a number is out of range, loops overlap, or a dependence points
    ahead.
    """

    subsystem: np.ndarray  # the pipeline that the instruction enters
    throughput_cycles: np.ndarray  # λ, cycles until the subsystem accepts the next one
    latency_cycles: np.ndarray  # Λ, cycles until the result is ready
    preds: tuple[tuple[int, ...], ...]
    kind: str = ""  # one of `KINDS` each; empty: all compute
    same_warp: np.ndarray = field(default_factory=lambda: np.zeros(0))  # cycles; empty: zeros
    loops: tuple[Loop, ...] = ()
    subsystems: int = field(init=False, repr=False)  # S, up to the last one in use
    pred: np.ndarray = field(init=False, repr=False)  # the preds, concatenated
    pred_counts: np.ndarray = field(init=False, repr=False)  # [n], number of preds

    def __post_init__(self) -> None:
        n = len(self.subsystem)
        if not 1 <= n <= MOST_INSTRUCTIONS:
            raise DseError(f"program: found {n} instructions, expected 1 to {MOST_INSTRUCTIONS}")
        if not self.kind:
            object.__setattr__(self, "kind", "c" * n)
        if not len(self.same_warp):
            object.__setattr__(self, "same_warp", np.zeros(n))
        for name in ("subsystem", "throughput_cycles", "latency_cycles", "same_warp", "preds", "kind"):
            if len(getattr(self, name)) != n:
                raise DseError(f"program: {name}: found {len(getattr(self, name))} values, expected {n}")
        for name in ("throughput_cycles", "latency_cycles", "same_warp"):
            object.__setattr__(self, name, _cycles(getattr(self, name), name))
        if wrong := set(self.kind) - set(KINDS):
            raise DseError(f"program: kind: found {min(wrong)!r}, expected letters of '{KINDS}'")
        subsystem = np.asarray(self.subsystem)
        if subsystem.dtype.kind not in "iu" or subsystem.min() < 0 or subsystem.max() >= MOST_SUBSYSTEMS:
            raise DseError(f"program: subsystem: expected integers from 0 to {MOST_SUBSYSTEMS - 1}")
        object.__setattr__(self, "subsystem", subsystem.astype(np.int32))
        object.__setattr__(self, "subsystems", int(subsystem.max()) + 1)
        # Outer loops come first, so that a loop's index among those around an instruction is its depth.
        object.__setattr__(self, "loops", tuple(sorted(self.loops, key=lambda x: (x.first, -x.stop))))
        self._check_loops(n)
        preds = tuple(tuple(sorted(set(map(int, js)))) for js in self.preds)
        object.__setattr__(self, "preds", preds)
        self._check_preds()
        object.__setattr__(self, "pred", np.array([j for js in preds for j in js], np.int32))
        object.__setattr__(self, "pred_counts", np.array([len(js) for js in preds], np.int32))

    def _check_loops(self, n: int) -> None:
        for loop in self.loops:
            if not (0 <= loop.first < loop.stop <= n and loop.trips >= 1):
                raise DseError(f"program: loops: found {loop}, expected instructions of 0 to {n - 1}")
        for n_th, inner in enumerate(self.loops):
            for outer in self.loops[:n_th]:
                if outer.stop > inner.first and (
                    inner.stop > outer.stop or (inner.first == outer.first and inner.stop == outer.stop)
                ):
                    raise DseError(
                        f"program: loops: found {outer} and {inner}, expected one inside the other"
                    )
        if self.depth > MOST_NESTED:
            raise DseError(f"program: loops: found {self.depth} nested, expected at most {MOST_NESTED}")
        # Python's integers, since NumPy's would overflow.
        entered = sum(math.prod(loop.trips for loop in self.around(i)) for i in range(n)) if self.loops else n
        if entered > MOST_ENTRIES:
            count = f"{entered:,}" if entered < 10**15 else "over 10^15"
            expected = f"at most {MOST_ENTRIES:,}"
            raise DseError(f"program: loops: found {count} instructions of a warp, expected {expected}")

    def _check_preds(self) -> None:
        for i, js in enumerate(self.preds):
            ahead = [j for j in js if j >= i and not any(i in loop and j in loop for loop in self.loops)]
            if ahead or (js and js[0] < 0):
                raise DseError(f"program: preds of instruction {i}: found {list(js)}, expected earlier ones")

    def __len__(self) -> int:
        return len(self.subsystem)

    def around(self, i: int) -> list[Loop]:
        """Return the loops around instruction i, outermost first."""
        return [loop for loop in self.loops if i in loop]

    @property
    def depth(self) -> int:
        """Depth of nested loops."""
        return max((len(self.around(loop.first)) for loop in self.loops), default=0)

    @cached_property
    def runs(self) -> np.ndarray:
        """Entries of a warp into each instruction, [n]."""
        runs = np.ones(len(self), np.int64)
        for loop in self.loops:
            runs[loop.first : loop.stop] *= loop.trips
        return runs

    @property
    def entries(self) -> int:
        """Number of instructions that one warp enters."""
        return int(self.runs.sum()) if self.loops else len(self)

    @property
    def barriers(self) -> int:
        """Number of barriers that a warp meets."""
        if not self.loops:
            return self.kind.count("b")
        return int(self.runs[[kind == "b" for kind in self.kind]].sum())

    def unrolled(self) -> "Program":
        """Return the same program without loops. **Raises:** DseError if it is too long."""
        if not self.loops:
            return self
        if self.entries > MOST_INSTRUCTIONS:
            count = f"{self.entries:,} instructions of a warp"
            raise DseError(f"program: loops: found {count}, expected at most {MOST_INSTRUCTIONS:,} unrolled")
        order = self.order.tolist()
        latest: dict[int, int] = {}
        preds = []
        for n, i in enumerate(order):
            preds.append(tuple(latest[j] for j in self.preds[i] if j in latest))
            latest[i] = n
        kind = "".join(self.kind[i] for i in order)
        return Program(
            self.subsystem[order],
            self.throughput_cycles[order],
            self.latency_cycles[order],
            tuple(preds),
            kind,
            self.same_warp[order],
        )

    @property
    def order(self) -> np.ndarray:
        """The instructions as they run, [entries]."""
        return np.array(list(executed(0, len(self), self.loops)))


def _cycles(values: Any, name: str) -> np.ndarray:
    values = np.asarray(values, np.float64)
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise DseError(f"program: {name}: found {values.tolist()}, expected finite cycles, 0 or more")
    return values + 0.0  # no -0.0


@dataclass(frozen=True, eq=False)
class Case:
    """One configuration: the programs of the warps, and the core that runs them.

    **Errors:** DseError for a number out of range, or warps of a group that differ in their barriers.
    """

    programs: tuple[Program, ...]
    warps: int  # W, of a group (a thread block)
    slots: int = 1  # g, groups at a time
    groups: int = 1  # G, all groups
    issue_limit: float = math.inf  # IL, instructions a cycle; infinite: no valve
    caps: tuple[float, ...] = ()  # most instructions in flight by subsystem; infinite or missing: no limit
    order: str = "program"  # one of `ORDERS`
    scheduler: str = "rr"  # one of `SCHEDULERS`
    assignment: tuple[int, ...] = (0,)  # warp j of group k runs program assignment[(k·W + j) mod length]
    subsystems: int = field(init=False)  # S, up to the last one of a program or a cap
    entries: int = field(init=False)  # instructions that all warps of all groups enter

    def __post_init__(self) -> None:
        object.__setattr__(self, "programs", tuple(self.programs))
        object.__setattr__(self, "caps", tuple(self.caps))
        object.__setattr__(self, "assignment", tuple(int(p) for p in self.assignment))
        if self.warps < 1 or self.slots < 1 or self.warps * self.slots > MOST_WARPS:
            groups = f"{self.slots} groups of {self.warps} warps"
            raise DseError(f"case: found {groups}, expected 1 to {MOST_WARPS} warps at a time")
        if self.groups < self.slots:
            raise DseError(f"case: groups: found {self.groups}, expected {self.slots} or more")
        if not self.issue_limit > 0:
            raise DseError(
                f"case: issue limit: found {self.issue_limit}, expected instructions a cycle above 0"
            )
        for name, allowed in (("order", ORDERS), ("scheduler", SCHEDULERS)):
            if (value := getattr(self, name)) not in allowed:
                raise DseError(f"case: {name}: found {value!r}, expected one of {', '.join(allowed)}")
        for cap in self.caps:
            if not (cap == math.inf or (cap >= 1 and cap == int(cap))):
                raise DseError(f"case: caps: found {cap}, expected an integer above 0, or infinity")
        if len(self.caps) > MOST_SUBSYSTEMS:
            raise DseError(f"case: caps: found {len(self.caps)}, expected at most {MOST_SUBSYSTEMS}")
        if not self.assignment or not self.programs:
            raise DseError("case: assignment: found no program, expected at least one")
        if not 0 <= min(self.assignment) <= max(self.assignment) < len(self.programs):
            expected = f"0 to {len(self.programs) - 1}"
            raise DseError(f"case: assignment: found {list(self.assignment)}, expected {expected}")
        if len(self.assignment) > 1:
            self._check_barriers()
        runs = zip(self.runs, self.programs, strict=True)
        object.__setattr__(self, "entries", sum(warps * program.entries for warps, program in runs))
        subsystems = max(program.subsystems for program in self.programs)
        object.__setattr__(self, "subsystems", max(subsystems, len(self.caps)))
        if self.entries > MOST_ENTRIES:
            raise DseError(f"case: found {self.entries} entries, expected at most {MOST_ENTRIES}")

    def _check_barriers(self) -> None:
        """Check that the warps of a group have equally many barriers: otherwise they would deadlock."""
        barriers = np.array([self.programs[p].barriers for p in self.assignment])
        if (barriers == barriers[0]).all():
            return
        period = math.lcm(self.warps, len(barriers)) // self.warps  # groups until the assignment repeats
        for group in range(min(self.groups, period)):
            met = barriers[(group * self.warps + np.arange(self.warps)) % len(barriers)]
            if (met != met[0]).any():
                counts = f"{met.min()} and {met.max()} barriers in group {group}"
                raise DseError(f"case: found {counts}, expected as many for each of its warps")

    @property
    def runs(self) -> list[int]:
        """Number of warps, of all groups, that run each program."""
        rounds, remainder = divmod(self.warps * self.groups, len(self.assignment))
        runs = [0] * len(self.programs)
        for n, program in enumerate(self.assignment):
            runs[program] += rounds + (n < remainder)
        return runs

    @property
    def valve_cycles(self) -> float:
        """1/IL, rounded once; 0 without a valve."""
        return 1.0 / self.issue_limit

    def entries_of_subsystems(self) -> np.ndarray:
        """Count the instructions that enter each subsystem, [S]."""
        total = np.zeros(self.subsystems)
        for runs, program in zip(self.runs, self.programs, strict=True):
            total += runs * np.bincount(program.subsystem, program.runs, self.subsystems)
        return total

    def cycles_of_subsystems(self) -> np.ndarray:
        """Return Σλ over all entries of each subsystem, [S]."""
        total = np.zeros(self.subsystems)
        for runs, program in zip(self.runs, self.programs, strict=True):
            cycles = program.throughput_cycles * program.runs if program.loops else program.throughput_cycles
            total += runs * np.bincount(program.subsystem, cycles, self.subsystems)
        return total
