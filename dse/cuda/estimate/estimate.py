"""Configurations of a kernel estimated from a few that were compiled.

The launch is exact, and so is shared memory if the text of the source tells that of the compiled ones. The
numbers of the average warp follow from Gaussian processes over the parameters and what else is known of all,
for each variant of the kernel by itself.
Registers come in two kinds, since they jump where a compiler gives up on its limit: first which kind, then
how many.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from dse.cuda.compile.nvrtc import Failure
from dse.cuda.estimate.bank_layout import conflicts
from dse.cuda.estimate.classify import Kinds, fails, registers_of, spills
from dse.cuda.estimate.features import Known
from dse.cuda.estimate.partition import Variant, variants
from dse.cuda.estimate.regression import fitted
from dse.cuda.profile.to_kernel import Numbers
from dse.cuda.source import Found
from dse.hardware import occupancy
from dse.types import Limits, Resources

_EXACT = 1e-6  # relative
_BEYOND = 0.7  # estimates may lie so far outside of what was found, in logs
_SHARED = ("shared load", "shared store")

Columns = dict[str, np.ndarray]


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
        for name in dict.fromkeys(name for warp in self.left_out for name in warp):
            there = np.array([self.warps[place].get(name, 0.0) for place in self.compiled])
            estimated = np.array([warp.get(name, 0.0) for warp in self.left_out])
            scale = np.where(there > 0.0, there, max(there.mean(), 1e-300))
            found[name] = (estimated - there) / scale
        return found


@threadpool_limits.wrap(limits=1)  # on small matrices threads cost more than they save
def estimate(known: Known, found: Mapping[int, Found | Failure], limits: Limits) -> Estimate:
    """All configurations from those that are `found`, by their numbers.

    What registers are estimated is at most what lets a launch run on a GPU with these `limits` (scalars).

    **Raises:** ValueError if fewer than two of these compiled.
    """
    if sum(isinstance(each, Found) for each in found.values()) < 2:
        raise ValueError("estimate: fewer than two configurations compiled")
    parts = variants(known, found)
    return _joined_estimates(parts, [_of_one_variant(part.known, part.found, limits) for part in parts])


def _joined_estimates(parts: Sequence[Variant], estimates: Sequence[Estimate]) -> Estimate:
    """Of all configurations, in their order."""
    if len(parts) == 1:
        return estimates[0]
    order = np.argsort(np.concatenate([part.places for part in parts]))
    warps = [warp for each in estimates for warp in each.warps]
    resources = {
        name: np.concatenate([each.resources[name] for each in estimates])[order]
        for name in estimates[0].resources
    }
    return Estimate(
        warps=[warps[place] for place in order],
        resources=resources,
        fails=np.concatenate([each.fails for each in estimates])[order],
        compiled=np.concatenate(
            [part.places[each.compiled] for part, each in zip(parts, estimates, strict=True)]
        ),
        exact_patterns=frozenset[str]().union(*(each.exact_patterns for each in estimates)),
        left_out=[warp for each in estimates for warp in each.left_out],
        left_out_registers=np.concatenate([each.left_out_registers for each in estimates]),
    )


def _of_one_variant(known: Known, found: Mapping[int, Found | Failure], limits: Limits) -> Estimate:
    good = {place: each for place, each in found.items() if isinstance(each, Found)}
    compiled, features = np.array(list(good)), known.features
    points, registers = features, registers_of(features, found)
    count, left_out_registers = registers.estimate(points), registers.left_out()
    high = registers.is_high(points)
    high[compiled] = registers.found > registers.border
    spilling = _spilling(points, compiled, list(good.values()))
    if high.any() and not high.all():
        points = np.c_[points, 2.0 * high]
    failing = np.zeros(len(high), bool)
    if len(good) < len(found):
        failing = fails(features, found).likely(features)
        failing[list(found)] = [isinstance(each, Failure) for each in found.values()]

    columns = _columns(list(good.values()))
    patterns, exact = _patterns(known, columns, list(good.values()), compiled)
    sums = _sums(columns)
    numbers, left_out, fits = {}, {}, _Fits(points, known.names, compiled, spilling)
    for name, values in columns.items():
        if name not in sums:
            pattern = patterns.get(name, np.ones(len(high)))
            there, without = fits.estimate(values / pattern[compiled])
            numbers[name], left_out[name] = there * pattern, without * pattern[compiled]
    whole = _rows(_joined(numbers, sums))
    for place, each in found.items():
        whole[place] = each.warp if isinstance(each, Found) else {}
    shared_bytes = _shared_bytes(known, np.array([each.shared_bytes for each in good.values()]), fits)
    asked: dict[str, Any] = {"threads": known.threads, "blocks": known.blocks, "registers": count}
    asked["shared_bytes"] = shared_bytes
    most = np.asarray(occupancy.most_registers(limits, Resources(**asked)))
    count = np.where(most > 0, np.minimum(count, most), count)
    count[compiled] = registers.found
    return Estimate(
        warps=whole,
        resources=asked | {"threads": np.where(failing, 0, known.threads), "registers": count},
        fails=failing,
        compiled=compiled,
        exact_patterns=exact,
        left_out=_rows(_joined(left_out, sums)),
        left_out_registers=np.minimum(left_out_registers, np.maximum(most[compiled], registers.found)),
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


def _spilling(points: np.ndarray, compiled: np.ndarray, found: Sequence[Found]) -> np.ndarray:
    """[L]: which go through local memory, or are likely to, if some do and some do not."""
    known = np.array([spills(each) for each in found])
    spilling = np.zeros(len(points), bool)
    if known.any() and np.sum(~known) > len(known) / 2:
        spilling = Kinds.of(points[compiled], known).likely(points)
        spilling[compiled] = known
    return spilling


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
