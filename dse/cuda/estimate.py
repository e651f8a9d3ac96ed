"""Few configurations of a kernel compiled, the others estimated from them.

What needs no compiler is worked out exactly: the launch, the constants of the source and with them its shared
memory, which is held against the compiled ones. The numbers of the average warp follow from Gaussian
processes over the parameters and these. Registers come in two kinds, since they jump where a compiler gives
up on its limit: first which kind, then how many. Configurations are compiled where their registers are least
sure, so that the border between the kinds is found.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from scipy.special import ndtr

from dse.cuda.compile import Failure, Source
from dse.cuda.conflicts import conflicts
from dse.cuda.constants import constants
from dse.cuda.kernel import Numbers
from dse.cuda.regression import Process, fitted
from dse.cuda.source import Configuration, Found

FEWEST = 8  # configurations to compile; fewer tell nothing of the others

_ROUNDS = 4  # in which the second half of them is chosen
_JUMP = 0.4  # in the logarithm of registers, between two kinds
_EXACT = 1e-6  # relative
_BEYOND = 0.7  # estimates may lie so far outside of what was found, in logs
_SHARED = ("shared load", "shared store")

Columns = dict[str, np.ndarray]


@dataclass(frozen=True)
class Known:
    """What is known of L configurations before they are compiled."""

    threads: np.ndarray  # [L] of a block
    blocks: np.ndarray  # [L] of the grid
    block: np.ndarray  # [L, 3] threads along x, y, z
    shared_bytes: np.ndarray | None  # [L] of a block, by the source's text
    names: Columns  # [L] parameters, and whole numbers that the source works out
    code: np.ndarray  # [L, c] parameters that vary and how much a thread has to do, standardised


@dataclass(frozen=True)
class Estimate:
    """L configurations, of which n were compiled and are kept as they were found."""

    warps: list[Numbers]  # empty where it does not compile
    resources: dict[str, np.ndarray]  # [L]: threads (0 where it fails), blocks, registers, shared_bytes
    fails: np.ndarray  # [L]: does not compile; of those not compiled, is not likely to
    compiled: np.ndarray  # [n] which were compiled, without failures
    exact_patterns: frozenset[str]  # of shared memory: accesses whose bank conflicts follow from the source
    left_out: list[Numbers]  # n: each of these as estimated from the others
    left_out_registers: np.ndarray  # [n]

    def errors(self) -> dict[str, np.ndarray]:
        """[n] by number: how far each compiled one is off when estimated from the others, relative."""
        found = {"registers": self.left_out_registers / self.resources["registers"][self.compiled] - 1.0}
        for name in self.left_out[0]:
            there = np.array([self.warps[place].get(name, 0.0) for place in self.compiled])
            estimated = np.array([warp[name] for warp in self.left_out])
            scale = np.where(there > 0.0, there, max(there.mean(), 1e-300))
            found[name] = (estimated - there) / scale
        return found


def known(
    source: Source,
    parameters: Mapping[str, Any],
    wanted: Sequence[Configuration],
    names: Mapping[str, Any] | None = None,
) -> Known:
    """What the launches and the text of the source tell, and `names`: what a description says of sizes.

    **Shapes:** parameters and names [L] or scalars, L configurations.
    """
    count = len(wanted)
    block = np.array([each.block for each in wanted])
    threads, blocks = block.prod(1), np.array([int(np.prod(each.grid)) for each in wanted])
    macros = [dict(each.defines) for each in wanted]
    columns = {name: np.array([each[name] for each in macros]) for name in macros[0]}
    found = constants(source.text, columns, count)
    others = {name: np.broadcast_to(np.asarray(each), (count,)) for name, each in (names or {}).items()}
    others |= found.values
    given = {name: np.broadcast_to(np.asarray(value), (count,)) for name, value in parameters.items()}
    launch = {"threads": threads, "blocks": blocks, "warps": -(-threads // 32)}
    code = _standard([*given.values(), threads * blocks])
    return Known(threads, blocks, block, found.shared_bytes, given | others | launch, code)


def _standard(columns: Sequence[np.ndarray]) -> np.ndarray:
    """Those that vary, each once, in logs where none is negative: mean 0, deviation 1."""
    found: list[np.ndarray] = []
    for values in columns:
        if values.min() >= 0:
            values = np.log2(values if values.min() > 0 else values + 1.0)
        if np.ptp(values) > 1e-9:
            values = (values - values.mean()) / values.std()
            if not any(abs(np.mean(values * other)) > 1 - 1e-6 for other in found):
                found.append(values)
    return np.array(found).T if found else np.zeros((len(columns[0]), 1))


def choose(known: Known, count: int, found: Mapping[int, Found | Failure]) -> list[int]:
    """Which configurations to compile next, until `count` of them are found; then none.

    The first half lie far apart. The others are those whose registers are least sure, or whether they compile
    at all, in several rounds.
    """
    total = len(known.threads)
    count = min(count, total)
    if not found:
        return _far_apart(known.code, -(-count // 2))
    here, chosen = list(found), []
    doubts = _doubts(known, found)
    while len(chosen) < min(count - len(found), -(-count // (2 * _ROUNDS))):
        variance = np.sum([doubt.variance for doubt in doubts], axis=0)
        variance[here + chosen] = -1.0
        chosen.append(int(variance.argmax()))
        for doubt in doubts:
            doubt.told(chosen[-1])
    return chosen


class _Doubt:
    """How unsure a number is, before and after configurations are compiled that are yet to be."""

    def __init__(self, process: Process, points: np.ndarray, variance: np.ndarray | None = None) -> None:
        self.process, self.points = process, points
        self.left = np.maximum(process.variance(points), 1e-9)
        self.variance = self.left if variance is None else variance
        self.columns: list[np.ndarray] = []

    def told(self, place: int) -> None:
        """What that one will tell of the others, by the process: a step of a Cholesky decomposition."""
        column = self.process.covariance(self.points, self.points[[place]])[:, 0]
        column = column - sum(each * each[place] for each in self.columns)
        self.columns.append(column / np.sqrt(max(column[place], 1e-9)))
        told = np.minimum(self.columns[-1] ** 2, self.left)
        self.variance = self.variance * (1.0 - told / self.left)
        self.left = np.maximum(self.left - told, 1e-9)


def _doubts(known: Known, found: Mapping[int, Found | Failure]) -> list[_Doubt]:
    points, registers = known.code, _registers_of(known, found)
    process = registers.process if registers.kinds is None else registers.kinds.process
    doubts = [_Doubt(process, points, registers.variance(points))]
    if any(isinstance(each, Failure) for each in found.values()):
        fails = _fails(known, found)
        doubts.append(_Doubt(fails.process, points, fails.doubt(points)))
    good = [place for place, each in found.items() if isinstance(each, Found)]
    spills = np.array([_spilling(each) for each in found.values() if isinstance(each, Found)])
    if spills.any() and not spills.all():
        kinds = _Kinds.of(points[good], spills)
        doubts.append(_Doubt(kinds.process, points, kinds.doubt(points)))
    return doubts


def _far_apart(places: np.ndarray, count: int) -> list[int]:
    """Each as far as can be from those before it; the first is the one in the middle."""
    chosen = [int((places**2).sum(1).argmin())]
    distance = np.full(len(places), np.inf)
    while len(chosen) < count:
        distance = np.minimum(distance, ((places - places[chosen[-1]]) ** 2).sum(1))
        chosen.append(int(distance.argmax()))
    return chosen


def estimate(known: Known, found: Mapping[int, Found | Failure]) -> Estimate:
    """All configurations from those that are `found`, by their numbers.

    **Raises:** ValueError if fewer than two of these compiled.
    """
    good = {place: each for place, each in found.items() if isinstance(each, Found)}
    if len(good) < 2:
        raise ValueError("estimate: fewer than two configurations compiled")
    compiled, points = np.array(list(good)), known.code
    registers = _registers_of(known, found)
    count, left_out_registers = registers.estimate(points), registers.left_out()
    count[compiled] = registers.found
    high = registers.is_high(points)
    high[compiled] = registers.found > registers.border
    spills = _spills(points, compiled, list(good.values()))
    if high.any() and not high.all():
        points = np.c_[points, 2.0 * high]
    fails = np.zeros(len(high), bool)
    if len(good) < len(found):
        fails = _fails(known, found).likely(known.code)
        fails[list(found)] = [isinstance(each, Failure) for each in found.values()]

    columns = _columns(list(good.values()))
    patterns, exact = _patterns(known, columns, list(good.values()), compiled)
    sums = _sums(columns)
    numbers, left_out, fits = {}, {}, _Fits(points, known.names, compiled, spills)
    for name, values in columns.items():
        if name not in sums:
            pattern = patterns.get(name, np.ones(len(high)))
            there, without = fits.estimate(values / pattern[compiled])
            numbers[name], left_out[name] = there * pattern, without * pattern[compiled]
    whole = _rows(_joined(numbers, sums))
    for place, each in found.items():
        whole[place] = each.warp if isinstance(each, Found) else {}
    shared_bytes = _shared_bytes(known, np.array([each.shared_bytes for each in good.values()]), fits)
    return Estimate(
        warps=whole,
        resources={
            "threads": np.where(fails, 0, known.threads),
            "blocks": known.blocks,
            "registers": count,
            "shared_bytes": shared_bytes,
        },
        fails=fails,
        compiled=compiled,
        exact_patterns=exact,
        left_out=_rows(_joined(left_out, sums)),
        left_out_registers=left_out_registers,
    )


def _shared_bytes(known: Known, found: np.ndarray, fits: "_Fits") -> np.ndarray:
    """By the source's text, if that tells those of all compiled ones but for a constant."""
    if known.shared_bytes is not None and not np.ptp(found - known.shared_bytes[fits.compiled]):
        return known.shared_bytes + (found - known.shared_bytes[fits.compiled])[0]
    guess = np.rint(fits.estimate(found.astype(float))[0]).astype(int)
    guess[fits.compiled] = found
    return guess


class _Fits:
    """Estimates of numbers. Configurations that spill are as others times a factor, their mean one."""

    def __init__(self, points: np.ndarray, names: Columns, compiled: np.ndarray, spills: np.ndarray) -> None:
        self.points, self.compiled, self.spills = points, compiled, spills
        positive = [np.log(values) for values in names.values() if values.min() > 0]
        varying = [values for values in positive if np.ptp(values[compiled]) > 1e-9]
        pairs = [a + b for a, b in combinations_with_replacement(varying, 2)]
        self.products = np.array([*varying, *pairs, np.zeros(len(points))])

    def estimate(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(of all [L], of each compiled one from the others [n]), given those of the compiled ones [n].

        Either as they are or over the product of two known numbers that they follow best, whichever is
        explained better.
        """
        lowest, odd = values.min(), self.spills[self.compiled]
        if np.ptp(values) <= _EXACT * abs(lowest):
            return np.full(len(self.points), values[0]), values
        # Where there are zeros, a logarithm that is straight around them.
        unit = 0.0 if lowest > 0.0 else float(np.median(values[values > 0.0]))
        logs, usual = np.log(values + unit), self.compiled[~odd]
        rest = logs[~odd] - self.products[:, usual]
        spread = np.abs(rest - np.median(rest, axis=1, keepdims=True)).mean(1)
        best = int(spread.argmin()) if not unit else -1
        if np.ptp(rest[best]) < _EXACT:
            estimated, without = self.products[best] + rest[best].mean(), logs[~odd]
        else:
            processes = {at: fitted(self.points[usual], rest[at]) for at in {best, len(spread) - 1}}
            at = max(processes, key=lambda each: processes[each].evidence)
            estimated = processes[at].estimate(self.points) + self.products[at]
            without = logs[~odd] - processes[at].left_out
        more = logs[odd] - estimated[self.compiled[odd]]
        left_out = logs.copy()
        left_out[~odd] = without
        if odd.any():
            estimated = estimated + self.spills * more.mean()
            left_out[odd] += (more.mean() - more) * len(more) / max(len(more) - 1, 1)
        limits = np.log(unit) if unit else logs.min() - _BEYOND, logs.max() + _BEYOND
        found = np.exp(np.clip(estimated, *limits)) - unit
        found[self.compiled] = values
        return found, np.exp(np.clip(left_out, *limits)) - unit


def _spills(points: np.ndarray, compiled: np.ndarray, found: Sequence[Found]) -> np.ndarray:
    """[L]: which go through local memory, or are likely to, if some do and some do not."""
    known = np.array([_spilling(each) for each in found])
    spills = np.zeros(len(points), bool)
    if known.any() and np.sum(~known) > len(known) / 2:
        spills = _Kinds.of(points[compiled], known).likely(points)
        spills[compiled] = known
    return spills


def _spilling(found: Found) -> bool:
    return any("local" in kind for phase in found.counts.phases for kind in phase.accesses)


def _columns(found: Sequence[Found]) -> Columns:
    """Numbers of the compiled ones [n], with accesses to shared memory taken apart by requests and passes."""
    rows = []
    for each in found:
        row = dict(each.warp)
        for place, phase in enumerate(each.counts.phases):
            rest = row.pop(f"phases.{place}.work.shared")
            for kind in _SHARED:
                if kind in phase.accesses:
                    access = phase.accesses[kind]
                    row[f"{place} {kind} requests"] = access.requests / each.counts.warps
                    row[f"{place} {kind} passes"] = access.passes / access.requests
                    rest -= access.passes / each.counts.warps
            row[f"{place} shared rest"] = rest if rest > 1e-9 else 0.0
        rows.append(row)
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: np.array([row.get(name, _default(name)) for row in rows]) for name in names}


def _default(name: str) -> float:
    return 1.0 if name in ("ilp", "mlp") or name.endswith(" passes") else 0.0


def _joined(columns: Columns, sums: Mapping[str, list[str]]) -> Columns:
    """Back to the numbers of a warp."""
    found = {name: values for name, values in columns.items() if " " not in name}
    for name, rest in columns.items():
        place, _, what = name.partition(" ")
        if what == "shared rest":
            found[f"phases.{place}.work.shared"] = rest + sum(
                columns[f"{place} {kind} requests"] * columns[f"{place} {kind} passes"]
                for kind in _SHARED
                if f"{place} {kind} requests" in columns
            )
    return found | {
        name: sum((found[f"{phase}.passes"] * found[f"{phase}.{name}"] for phase in phases), np.array(0.0))
        for name, phases in sums.items()
    }


def _sums(columns: Columns) -> dict[str, list[str]]:
    """Numbers that are the sum over the phases on all compiled ones, and those phases."""
    joined = _joined(columns, {})
    phases = [name.removesuffix(".passes") for name in columns if name.endswith(".passes")]
    found = {}
    for name, values in columns.items():
        having = [phase for phase in phases if f"{phase}.{name}" in joined]
        if having and not name.startswith("phases."):
            total = sum(joined[f"{phase}.passes"] * joined[f"{phase}.{name}"] for phase in having)
            if np.allclose(total, values, rtol=_EXACT, atol=0.0):
                found[name] = having
    return found


def _patterns(
    known: Known, columns: Columns, found: Sequence[Found], compiled: np.ndarray
) -> tuple[Columns, frozenset[str]]:
    """Passes of one request [L], by the names of columns that tell it, and which of them are exact."""
    patterns, exact = {}, set()
    for name, passes in columns.items():
        place, _, kind = name.removesuffix(" passes").partition(" ")
        there = columns.get(f"{place} {kind} requests", np.zeros(0)) > 0.0
        if not name.endswith(" passes") or kind not in _SHARED or np.ptp(passes[there]) < _EXACT:
            continue
        size = _bytes_of_a_thread(
            [each for each, has in zip(found, there, strict=True) if has], int(place), kind
        )
        if size:
            pattern, fits = conflicts(known.block, known.names, size, compiled[there], passes[there])
            gain = np.std(np.log(passes[there] / pattern[compiled[there]])) < np.std(np.log(passes[there]))
            if fits or gain:
                patterns[name] = pattern
                exact |= {f"phases.{place}.{kind}"} if fits else set()
    return patterns, frozenset(exact)


def _bytes_of_a_thread(found: Sequence[Found], place: int, kind: str) -> int:
    """That each asks for in one access; 0 if they are of several sizes."""
    sizes = set()
    for each in found:
        access = each.counts.phases[place].accesses[kind]
        size = access.bytes / access.requests / 32
        sizes.add(next((power for power in (4, 8, 16) if size <= power), 0))
    return sizes.pop() if len(sizes) == 1 else 0


def _rows(columns: Columns) -> list[Numbers]:
    lists = {name: values.tolist() for name, values in columns.items()}
    names = list(lists)
    return [dict(zip(names, row, strict=True)) for row in zip(*lists.values(), strict=True)]


@dataclass(frozen=True)
class _Kinds:
    """Which of two kinds a configuration is of."""

    process: Process  # of +1 for one, -1 for the other

    def chance(self, points: np.ndarray) -> np.ndarray:
        """[m] from 0 to 1, of the first kind."""
        return ndtr(self.process.estimate(points) / np.sqrt(self.process.variance(points) + 1e-3))

    def likely(self, points: np.ndarray) -> np.ndarray:
        return self.process.estimate(points) > 0.0

    def doubt(self, points: np.ndarray) -> np.ndarray:
        chance = self.chance(points)
        return chance * (1.0 - chance)

    @staticmethod
    def of(points: np.ndarray, first: np.ndarray) -> "_Kinds":
        return _Kinds(fitted(points, np.where(first, 1.0, -1.0)))


@dataclass(frozen=True)
class _Registers:
    """Registers of a thread: as most configurations have them, or far more."""

    found: np.ndarray  # [n]
    points: np.ndarray  # [n, d]
    border: float  # between the two kinds; infinite if there is one
    kinds: _Kinds | None
    process: Process  # of the logarithm of the low ones

    @staticmethod
    def of(points: np.ndarray, found: np.ndarray) -> "_Registers":
        logs = np.sort(np.log(found))
        jumps = np.diff(logs)
        border, kinds = np.inf, None
        if len(jumps) and jumps.max() > _JUMP:
            border = float(np.exp(logs[jumps.argmax()] + jumps.max() / 2))
            kinds = _Kinds.of(points, found > border)
        low = found < border
        return _Registers(found, points, border, kinds, fitted(points[low], np.log(found[low])))

    def is_high(self, points: np.ndarray) -> np.ndarray:
        return np.zeros(len(points), bool) if self.kinds is None else self.kinds.likely(points)

    @property
    def high(self) -> float:
        """The logarithm of the high ones, on average."""
        return float(np.log(self.found[self.found > self.border]).mean())

    def estimate(self, points: np.ndarray) -> np.ndarray:
        """[m]"""
        logs = self.process.estimate(points)
        if self.kinds is not None:
            logs = np.where(self.is_high(points), self.high, logs)
        return self._nearest(logs)

    def left_out(self) -> np.ndarray:
        """[n]: each as estimated from the others."""
        low = self.found < self.border
        logs = self.process.estimate(self.points)
        logs[low] = np.log(self.found[low]) - self.process.left_out
        if self.kinds is not None:
            signs = np.where(low, -1.0, 1.0) - self.kinds.process.left_out
            logs = np.where(signs > 0.0, self.high, logs)
        return self._nearest(logs)

    def _nearest(self, logs: np.ndarray) -> np.ndarray:
        """Compilers keep to few numbers: of those that were found the nearest."""
        values = np.unique(self.found)
        return values[np.abs(np.log(values) - logs[:, None]).argmin(1)]

    def variance(self, points: np.ndarray) -> np.ndarray:
        """[m] of the logarithm."""
        within = self.process.variance(points)
        if self.kinds is None:
            return within
        apart = self.high - self.process.estimate(points)
        chance = self.kinds.chance(points)
        return chance * (1.0 - chance) * apart**2 + (1.0 - chance) * within


def _registers_of(known: Known, found: Mapping[int, Found | Failure]) -> _Registers:
    good = {place: each.registers for place, each in found.items() if isinstance(each, Found)}
    return _Registers.of(known.code[list(good)], np.array(list(good.values())))


def _fails(known: Known, found: Mapping[int, Found | Failure]) -> _Kinds:
    failed = np.array([isinstance(each, Failure) for each in found.values()])
    return _Kinds.of(known.code[list(found)], failed)
