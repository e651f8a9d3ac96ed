"""Cases side by side in flat tables, and what the loop has to do for them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dse.simulate.program import SCHEDULERS, Case

DISTANCE_BITS = 12  # of a dependence, in instructions
LAST, BARRIER = 1 << 6, 1 << 7  # flags of an instruction's word, above its subsystem and the next one's
NO_BARRIER = 1 << DISTANCE_BITS  # in the number of the instruction at which a warp has to meet others
SMALL_LAM_BITS = 12  # λ below 2^12 and Λ below 2^20 ticks share a word
TOP = 1 << 31  # tick times stay below it, and above it nothing ever starts


@dataclass(frozen=True)
class Features:
    """What some case of a batch needs: a loop is compiled for it, and for the sizes of the tables."""

    dataflow: bool
    ticks: bool  # times are integers: ticks in the upper bits of a word; else float64
    width: int  # rows of warps
    lanes: int  # cases at a time
    subsystems: int
    slots: int  # most groups at a time
    window: int  # results kept of a warp: a power of two
    preds: int  # most predecessors of an instruction
    succs: int  # most successors, in dataflow order
    length: int  # most instructions of a program, in dataflow order
    cap: int  # most instructions in flight under a limit; 0: no limit
    schedulers: tuple[bool, ...]  # which of `SCHEDULERS`
    valve: bool
    same_warp: bool
    barriers: bool
    sequence: bool  # more groups than slots
    several: bool  # programs in one case
    packed: bool  # λ and Λ in one word
    record: bool  # the entries' causes

    @property
    def key_bits(self) -> int:
        """Low bits of a word of ticks: a scheduler's key, or a subsystem."""
        return max(self.width.bit_length(), (self.subsystems - 1).bit_length())


@dataclass(frozen=True)
class Batch:
    """Cases for one run of the loop: tables of instructions, programs, and cases, padded to powers of two."""

    features: Features
    cases: np.ndarray  # their numbers in the list they come from, longest first
    entries: np.ndarray  # of each
    tick: np.ndarray  # cycles of each; 1 where times are float64
    columns: "Columns"  # in the same order
    tables: dict[str, np.ndarray]


def ceil_power(n: int, base: int = 2) -> int:
    """The smallest power of `base` that is at least n."""
    power = 1
    while power < n:
        power *= base
    return power


def tick_exponents(terms: np.ndarray) -> np.ndarray:
    """The least k, 0 or more, for which each term is a multiple of 2^-k."""
    mantissa, exponent = np.frexp(terms)
    whole = (mantissa * 2.0**53).astype(np.int64)
    lowest = np.frexp((whole & -whole).astype(np.float64))[1] - 1  # position of the lowest bit that is set
    return np.where(terms == 0, 0, np.maximum(53 - exponent - lowest, 0))


@dataclass(frozen=True)
class Columns:
    """All instructions of all programs of all cases, one after another."""

    case: np.ndarray  # of each program
    length: np.ndarray  # of each program
    first: np.ndarray  # instruction of each program
    subsystem: np.ndarray
    lam: np.ndarray
    Lam: np.ndarray
    same_warp: np.ndarray
    barrier: np.ndarray
    pred: np.ndarray  # within its program
    pred_counts: np.ndarray
    valve: np.ndarray  # 1/IL of each case

    @classmethod
    def of(cls, cases: Sequence[Case]) -> "Columns":
        """Flatten them."""
        programs = [p for case in cases for p in case.programs]
        length = np.array([len(p) for p in programs], np.int32)
        return cls(
            case=np.repeat(np.arange(len(cases), dtype=np.int32), [len(case.programs) for case in cases]),
            length=length,
            first=(np.cumsum(length) - length).astype(np.int32),
            subsystem=np.concatenate([p.subsystem for p in programs]),
            lam=np.concatenate([p.lam for p in programs]),
            Lam=np.concatenate([p.Lam for p in programs]),
            same_warp=np.concatenate([p.same_warp for p in programs]),
            barrier=np.frombuffer("".join(p.kind for p in programs).encode(), np.uint8) == ord("b"),
            pred=np.concatenate([p.pred for p in programs]),
            pred_counts=np.concatenate([p.pred_counts for p in programs]),
            valve=np.array([case.valve_cycles for case in cases]),
        )

    def exponents(self) -> np.ndarray:
        """k of each case: its times are multiples of 2^-k cycles."""
        k = tick_exponents(self.valve)
        terms = np.maximum.reduce([tick_exponents(x) for x in (self.lam, self.Lam, self.same_warp)])
        np.maximum.at(k, np.repeat(self.case, self.length), terms)
        return k

    def largest(self) -> np.ndarray:
        """The largest term of each case, cycles."""
        most = self.valve.copy()
        terms = np.maximum.reduce([self.lam, self.Lam, self.same_warp])
        np.maximum.at(most, np.repeat(self.case, self.length), terms)
        return most


def make_batch(
    cases: Sequence[Case], numbers: np.ndarray, *, ticks: bool, record: bool, width: int, lanes: int
) -> Batch:
    """Tables for the cases, which are `numbers` of a longer list; all of one order."""
    entries = np.array([case.entries for case in cases], np.int64)
    by_length = np.argsort(-entries, kind="stable")
    cases = [cases[i] for i in by_length]
    entries, numbers = entries[by_length], numbers[by_length]
    columns = Columns.of(cases)
    features = _features(cases, columns, ticks=ticks, record=record, width=width, lanes=lanes)
    exponents = columns.exponents() if ticks else np.zeros(len(cases), int)
    scale = 2.0 ** (exponents + (features.key_bits if ticks else 0))
    tables = _instructions(columns, features, scale) | _cases(cases, columns, features, scale, entries)
    return Batch(features, numbers, entries, 2.0**-exponents, columns, tables)


def _features(
    cases: Sequence[Case], columns: Columns, *, ticks: bool, record: bool, width: int, lanes: int
) -> Features:
    dataflow = cases[0].order == "dataflow"
    owners = np.repeat(np.arange(len(columns.pred_counts)), columns.pred_counts)
    starts = np.repeat(columns.first, columns.length)
    distance = owners - starts[owners] - columns.pred
    out_degree = np.bincount(columns.pred + starts[owners], minlength=1)
    caps = [int(c) for case in cases for c in case.caps if c < case.entries]
    subsystems = max(case.subsystems for case in cases)
    features = Features(
        dataflow=dataflow,
        ticks=ticks,
        width=width,
        lanes=lanes,
        subsystems=subsystems,
        slots=ceil_power(max(case.slots for case in cases)),
        window=ceil_power(int(distance.max(initial=1))),
        preds=_few(int(columns.pred_counts.max())),
        succs=_few(int(out_degree.max())) if dataflow else 0,
        length=-(-int(columns.length.max()) // 16) * 16 if dataflow else 0,
        cap=ceil_power(max(caps)) if caps else 0,
        schedulers=tuple(any(case.scheduler == s for case in cases) for s in SCHEDULERS),
        valve=bool(columns.valve.any()),
        same_warp=bool(columns.same_warp.any()),
        barriers=bool(columns.barrier.any()),
        sequence=any(case.groups > case.slots for case in cases),
        several=any(len(case.assignment) > 1 for case in cases),
        packed=False,
        record=record,
    )
    if not ticks:
        return features
    scale = np.repeat(2.0 ** columns.exponents()[columns.case], columns.length)
    small = (columns.lam * scale).max() < 1 << SMALL_LAM_BITS
    small &= (columns.Lam * scale).max() < 1 << (32 - SMALL_LAM_BITS)
    return replace(features, packed=bool(small))


def _few(n: int) -> int:
    """Up to 4 as it is, then powers of two: fewer compilations."""
    return n if n <= 4 else ceil_power(n)


def _instructions(columns: Columns, features: Features, scale: np.ndarray) -> dict[str, np.ndarray]:
    """Per instruction, padded by at least one."""
    total = len(columns.subsystem)
    size = ceil_power(total + 1, 4)
    last = np.zeros(total, bool)
    last[columns.first + columns.length - 1] = True
    following = np.where(last, 0, np.roll(columns.subsystem, -1))
    word = (
        columns.subsystem | following << 3 | np.where(last, LAST, 0) | np.where(columns.barrier, BARRIER, 0)
    )

    # Distances from an instruction's successor in program order back to what that one needs.
    needs = np.zeros((max(features.preds, 1), total + 1), np.int64)
    owner = np.repeat(np.arange(total), columns.pred_counts)
    nth = np.arange(len(owner)) - np.repeat(
        np.cumsum(columns.pred_counts) - columns.pred_counts, columns.pred_counts
    )
    starts = np.repeat(columns.first, columns.length)
    needs[nth, owner] = owner - starts[owner] - columns.pred
    tables = {"word": _padded(word.astype(np.uint32), size)}
    ahead = needs if features.dataflow else np.roll(needs, -1, axis=1)
    for n in range(0, features.preds, 2):
        pair = ahead[n] | (ahead[n + 1] << DISTANCE_BITS if n + 1 < features.preds else 0)
        tables[f"needs{n}"] = _padded(pair[:total].astype(np.uint32), size)

    per_instruction = np.repeat(scale[columns.case], columns.length)
    dtype = np.uint32 if features.ticks else np.float64
    if features.packed:
        unshifted = per_instruction / 2.0**features.key_bits
        both = (columns.lam * unshifted).astype(np.uint32)
        both |= (columns.Lam * unshifted).astype(np.uint32) << SMALL_LAM_BITS
        tables["terms"] = _padded(both, size)
    else:
        tables["lam"] = _padded((columns.lam * per_instruction).astype(dtype), size)
        tables["Lam"] = _padded((columns.Lam * per_instruction).astype(dtype), size)
    if features.same_warp:
        tables["same_warp"] = _padded((columns.same_warp * per_instruction).astype(dtype), size)
    if features.dataflow:
        succs = np.zeros((features.succs, total + 1), np.int32)
        targets = columns.pred + starts[owner]
        by_target = np.argsort(targets, kind="stable")
        counts = np.bincount(targets, minlength=total)
        rank = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
        succs[rank, targets[by_target]] = owner[by_target] - targets[by_target]
        for n in range(features.succs):
            tables[f"feeds{n}"] = _padded(succs[n, :total], size)
        # Rows are cut as one piece, beyond the end of the last program, too.
        never = np.uint32(2**32 - 1) if features.ticks else np.inf
        operands = columns.pred_counts > 0
        initial = np.where(operands, never, columns.subsystem if features.ticks else 0.0).astype(dtype)
        tables["initial"] = _padded(initial, size + features.length)
        tables["subsystem"] = _padded(columns.subsystem, size + features.length)
        end = segment_ends(columns)
        # Past a barrier: none is left where it was the last, and what lies behind is another program's.
        past = np.zeros(total, bool)
        past[columns.first + columns.length - 1] = True
        tables["segment_after"] = _padded(np.where(past, 0, np.roll(end, -1)).astype(np.int32), size)
        number = np.arange(total) - starts
        first_end = end[starts]
        open_first = ~operands & ((number < first_end) | ((number == 0) & (first_end == 0)))
        program = np.repeat(np.arange(len(columns.length)), columns.length)
        least = np.full((features.subsystems, ceil_power(len(columns.length), 4)), never, dtype)
        least[columns.subsystem[open_first], program[open_first]] = 0
        tables["program_least"] = least
        tables["program_end"] = _padded(end[columns.first], least.shape[1])
    return tables


def segment_ends(columns: Columns) -> np.ndarray:
    """For each instruction the number in its program of the next barrier, itself included.

    Where there is none, the program's length, with a bit that no number has.
    """
    total = len(columns.subsystem)
    starts = np.repeat(columns.first, columns.length)
    stops = starts + np.repeat(columns.length, columns.length)
    at = np.where(columns.barrier, np.arange(total), total)
    following = np.minimum.accumulate(at[::-1])[::-1]
    end = np.minimum(following, stops) - starts
    return np.where(following < stops, end, end | NO_BARRIER).astype(np.int32)


def _padded(values: np.ndarray, size: int) -> np.ndarray:
    return np.concatenate([values, np.zeros(size - len(values), values.dtype)])


def _cases(
    cases: Sequence[Case], columns: Columns, features: Features, scale: np.ndarray, entries: np.ndarray
) -> dict[str, np.ndarray]:
    """Per case, with an empty one at the end; per program; and who runs which."""
    size = ceil_power(len(cases) + 1, 4)
    programs_before = np.concatenate([[0], np.cumsum([len(case.programs) for case in cases])])[:-1]
    dtype = np.uint32 if features.ticks else np.float64
    largest = columns.largest() * scale
    limit = TOP - largest if features.ticks else np.full(len(cases), np.inf)
    small = {
        "warps": [case.warps for case in cases],
        "resident": [case.warps * case.slots for case in cases],
        "slots": [case.slots for case in cases],
        "groups": [case.groups for case in cases],
        "entries": entries,
        "base": np.cumsum(entries) - entries if features.record else 0 * entries,
        "scheduler": [SCHEDULERS.index(case.scheduler) for case in cases],
        "program": [case.assignment[0] for case in cases] + programs_before,
        "period": [len(case.assignment) for case in cases],
        "assignment": np.cumsum([0] + [len(case.assignment) for case in cases])[:-1],
    }
    tables = {f"case_{name}": _padded(np.asarray(x, np.int32), size) for name, x in small.items()}
    tables["case_limit"] = _padded(limit.astype(dtype), size)
    tables["case_valve"] = _padded((columns.valve * scale).astype(dtype), size)
    caps = np.zeros((features.subsystems, size), np.int32)
    if features.cap:
        for c, case in enumerate(cases):
            caps[: len(case.caps), c] = [int(cap) if cap < case.entries else 0 for cap in case.caps]
    tables["case_cap"] = caps
    programs = ceil_power(len(columns.length), 4)
    tables["program_first"] = _padded(columns.first, programs)
    tables["program_length"] = _padded(columns.length, programs)
    tables["program_subsystem"] = _padded(columns.subsystem[columns.first], programs)
    if features.several:
        chosen = np.concatenate([case.assignment for case in cases]).astype(np.int32)
        chosen += np.repeat(programs_before, [len(case.assignment) for case in cases]).astype(np.int32)
        tables["assignment"] = _padded(chosen, ceil_power(len(chosen), 4))
    tables["count"] = np.asarray(len(cases), np.int32)
    return tables
