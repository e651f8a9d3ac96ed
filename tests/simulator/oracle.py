"""The simulator's semantics, written out literally in plain Python, one entry at a time, and random cases."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from dse.simulator.case.program import Case, Loop, Program


class Oracle:
    """Enter every instruction of a case; then `makespan`, `entries`, `busy` and `critical()`."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.subsystems = case.subsystems
        self.caps = [*case.caps, *[math.inf] * self.subsystems][: self.subsystems]
        self.omega = case.warps * case.slots
        self.free = [0.0] * self.subsystems
        self.valve = 0.0
        self.completions: list[list[int]] = [[] for _ in range(self.subsystems)]  # entries, in order
        self.log: list[dict[str, Any]] = []
        self.last = -1
        self.warps: list[dict[str, Any]] = [{} for _ in range(self.omega)]
        self.group_of_slot = [0] * case.slots
        self.start_cause: list[int | None] = [None] * case.slots
        self.releases: dict[tuple[int, int], tuple[float, int]] = {}  # (group, barrier) → time, entry
        self.next_group = 0
        for q in range(case.slots):
            self.start_group(q, 0.0)
        while self.step():
            pass
        self.makespan = max(e["done"] for e in self.log)
        self.entries = len(self.log)
        totals = [0.0] * self.subsystems
        for e in self.log:
            totals[e["s"]] += e["lam"]
        self.busy = [x / self.makespan if self.makespan else math.nan for x in totals]

    def start_group(self, q: int, start: float) -> None:
        case, k = self.case, self.next_group
        self.next_group += 1
        self.group_of_slot[q] = k
        for j in range(case.warps):
            number = case.assignment[(k * case.warps + j) % len(case.assignment)]
            self.warps[q * case.warps + j] = {
                "program": number, "group": k, "start": start, "wake": start, "done": {}, "entry": {},
                "previous": None,
            }  # fmt: skip

    def earliest(self, w: int, i: int) -> float:
        warp = self.warps[w]
        program = self.case.programs[warp["program"]]
        s = int(program.subsystem[i])
        e = max(warp["wake"], self.free[s])
        for j in program.preds[i]:
            e = max(e, warp["done"].get(j, math.inf))
        if (slot := self.ring_slot(s)) is not None:
            e = max(e, self.log[slot]["done"])
        before = program.kind[:i].count("b")
        if before:
            e = max(e, self.releases.get((warp["group"], before - 1), (math.inf, -1))[0])
        return e

    def ring_slot(self, s: int) -> int | None:
        cap = self.caps[s]
        entered = self.completions[s]
        return entered[-int(cap)] if cap < math.inf and len(entered) >= cap else None

    def candidate(self, w: int) -> tuple[float, int] | None:
        warp = self.warps[w]
        program = self.case.programs[warp["program"]]
        left = [i for i in range(len(program)) if i not in warp["done"]]
        if not left:
            return None
        if self.case.order == "program":
            return self.earliest(w, left[0]), left[0]
        # A barrier waits for all before it, and none passes it.
        allowed = []
        for i in left:
            if program.kind[i] == "b":
                if i == left[0]:
                    allowed.append(i)
                break
            allowed.append(i)
        return min((self.earliest(w, i), i) for i in allowed)

    def step(self) -> bool:
        case = self.case
        actual = {w: c for w in range(self.omega) if (c := self.candidate(w)) is not None}
        if not actual:
            return False
        t = max(self.valve, min(e for e, _ in actual.values()))
        assert t < math.inf
        ready = [w for w, (e, _) in actual.items() if e <= t]
        oldest = min(ready, key=lambda w: (self.warps[w]["start"], w))
        if case.scheduler == "rr":
            w = min(ready, key=lambda w: (w - self.last - 1) % self.omega)
        elif case.scheduler == "gto" and self.last in ready:
            w = self.last
        else:
            w = oldest
        self.enter(w, actual[w][1], t)
        return True

    def enter(self, w: int, i: int, t: float) -> None:
        case, warp = self.case, self.warps[w]
        program = case.programs[warp["program"]]
        s = int(program.subsystem[i])
        accepts, done = t + float(program.throughput_cycles[i]), t + float(program.latency_cycles[i])
        k = len(self.log)
        self.log.append({
            "t": t, "w": w, "i": i, "s": s, "lam": float(program.throughput_cycles[i]), "done": done,
            "group": warp["group"], "program": warp["program"], "cause": self.cause(w, i, t, s),
        })  # fmt: skip
        self.free[s] = accepts
        if case.issue_limit < math.inf:
            self.valve = t + 1 / case.issue_limit
        self.completions[s].append(k)
        warp["done"][i] = done
        warp["entry"][i] = k
        warp["wake"] = t + float(program.same_warp[i])
        warp["previous"] = k
        self.last = w
        q = w // case.warps
        mates = self.warps[q * case.warps : (q + 1) * case.warps]
        if program.kind[i] == "b":
            number = program.kind[:i].count("b")
            met = []
            for mate in mates:
                mate_kind = case.programs[mate["program"]].kind
                at = [x for x, kind in enumerate(mate_kind) if kind == "b"][number]
                if at in mate["done"]:
                    met.append((mate["done"][at], -mate["entry"][at]))
            if len(met) == case.warps:
                self.releases[warp["group"], number] = (max(met)[0], -max(met)[1])
        ended = all(len(m["done"]) == len(case.programs[m["program"]]) for m in mates)
        if ended and self.next_group < case.groups:
            done, first = max((e["done"], -n) for n, e in enumerate(self.log) if e["group"] == warp["group"])
            self.start_cause[q] = -first
            self.start_group(q, done)

    def cause(self, w: int, i: int, t: float, s: int) -> tuple[int, str] | None:
        """The entry that set the binding constraint, and which of its terms counts."""
        warp = self.warps[w]
        program = self.case.programs[warp["program"]]
        for j in program.preds[i]:
            if warp["done"][j] == t:
                return warp["entry"][j], "Lam"
        if self.free[s] == t and self.completions[s]:
            return self.completions[s][-1], "lam"
        if self.case.issue_limit < math.inf and self.valve == t and self.log:
            return len(self.log) - 1, "valve"
        if (slot := self.ring_slot(s)) is not None and self.log[slot]["done"] == t:
            return slot, "Lam"
        if before := program.kind[:i].count("b"):
            release, entry = self.releases[warp["group"], before - 1]
            if release == t:
                return entry, "Lam"
        if warp["previous"] is not None:
            return (warp["previous"], "self") if warp["wake"] == t else None
        entry = self.start_cause[w // self.case.warps]
        return (entry, "Lam") if entry is not None and warp["start"] == t else None

    def critical(self) -> dict[str, Any]:
        """How often each term lies on the critical path: [program][instruction], and the valve's."""
        counts: Any = {name: [[0] * len(p) for p in self.case.programs] for name in ("lam", "Lam", "self")}
        counts["valve"] = 0
        at = next(n for n, e in enumerate(self.log) if e["done"] == self.makespan)
        term: str = "Lam"
        while True:
            entry: Mapping[str, Any] = self.log[at]
            if term == "valve":
                counts["valve"] += 1
            else:
                counts[term][entry["program"]][entry["i"]] += 1
            if entry["cause"] is None:
                return counts
            at, term = entry["cause"]


EVERY = "valve cap same_warp barriers sequence several"  # features of a case
EXAMPLE = Program(  # of the Pipeline paper: C0, C1, M2(0, 1), C3(2), C4(3), M5(4)
    subsystem=np.array([0, 0, 1, 0, 0, 1]),
    throughput_cycles=np.array([1, 1, 2, 1, 1, 2]),
    latency_cycles=np.array([4, 4, 6, 4, 4, 6]),
    preds=((), (), (0, 1), (2,), (3,), (4,)),
    kind="ccmccm",
)


def random_program(rng, n: int, subsystems: int, barriers: int = 0, **options: Any) -> Program:
    """Some instructions; `grid` is what terms are multiples of, None: any real number."""
    grid, same_warp = options.get("grid", 64), options.get("same_warp", False)

    def cycles(low: float, high: float, size: int) -> np.ndarray:
        drawn = rng.uniform(low, high, size)
        return drawn if grid is None else np.round(drawn * grid) / grid

    throughput_cycles, latency_cycles = cycles(0, 6, subsystems), cycles(0, 60, subsystems)
    s = rng.integers(0, subsystems, n)
    many = rng.choice([0, 1, 2, 3, 9], n)  # more than four do not fit into an instruction's words
    preds = tuple(tuple(int(j) for j in rng.choice(i, min(i, many[i]), replace=False)) for i in range(n))
    kind = np.array(["c"] * n)
    kind[rng.choice(n, min(barriers, n), replace=False)] = "b"
    return Program(
        subsystem=s,
        throughput_cycles=throughput_cycles[s],
        latency_cycles=latency_cycles[s],
        preds=preds,
        kind="".join(kind),
        same_warp=cycles(0, 3, n) * rng.integers(0, 2, n) if same_warp else np.zeros(n),
    )


def random_case(rng: np.random.Generator, features: str, grid: int | None = 64) -> Case:
    """A small case that uses `features`, words of EVERY."""
    subsystems = int(rng.integers(1, 5))
    warps, slots = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    barriers = int(rng.integers(1, 3)) if "barriers" in features else 0
    count = 3 if "several" in features else 1
    options = {"grid": grid, "same_warp": "same_warp" in features}
    programs = tuple(
        random_program(rng, int(rng.integers(max(barriers, 1), 14)), subsystems, barriers, **options)
        for _ in range(count)
    )
    limits = [0.5, 1.0, 2.0] if grid else [0.7, 3.0]
    return Case(
        programs=programs,
        warps=warps,
        slots=slots,
        groups=slots + (int(rng.integers(0, 6)) if "sequence" in features else 0),
        issue_limit=float(rng.choice(limits)) if "valve" in features else math.inf,
        caps=tuple(float(rng.choice([1, 2, 5, math.inf])) for _ in range(subsystems))
        if "cap" in features
        else (),
        scheduler=str(rng.choice(["rr", "gto", "oldest"])),
        assignment=tuple(int(p) for p in rng.integers(0, count, 7)) if "several" in features else (0,),
    )


def rolled_program(rng: np.random.Generator, trips: int = 6, tick: float = 0.25) -> Program:
    """A few instructions in loops, one in another, with dependences ahead and back."""
    n, subsystems = int(rng.integers(3, 12)), int(rng.integers(1, 4))
    loops: list[Loop] = []
    for _ in range(3):
        first, stop = sorted(rng.integers(0, n + 1, 2).tolist())
        new = Loop(first, stop, int(rng.integers(2, trips + 1)))
        if first < stop and all(_fits(new, old) for old in loops):
            loops.append(new)
    preds = []
    for i in range(n):
        common = [j for j in range(n) if j < i or any(i in loop and j in loop for loop in loops)]
        preds.append(tuple(int(j) for j in rng.permutation(common)[: rng.integers(0, 4)]))
    s = rng.integers(0, subsystems, n)
    throughput_cycles, latency_cycles = (
        np.round(rng.uniform(0, most, subsystems) / tick) * tick for most in (6, 60)
    )
    kind = "".join(rng.choice(["c", "b"], n, p=[0.9, 0.1]))
    return Program(s, throughput_cycles[s], latency_cycles[s], tuple(preds), kind, loops=tuple(loops))


def _fits(a: Loop, b: Loop) -> bool:
    """Whether one is inside the other, or they are apart."""
    apart = a.stop <= b.first or b.stop <= a.first
    inside = (b.first <= a.first and a.stop <= b.stop) or (a.first <= b.first and b.stop <= a.stop)
    return (apart or inside) and (a.first, a.stop) != (b.first, b.stop)
