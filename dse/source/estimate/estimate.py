"""Estimate configurations of a kernel from a few compiled ones.

The launch is exact, and so is shared memory if the source's text gives that of the compiled ones. The numbers
of the average warp come from Gaussian processes over the parameters and other known features, separately for
each variant of the kernel. Registers are first classified into two kinds, since they jump where a compiler
gives up on its limit, and then estimated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import jax
import numpy as np
from jaxtyping import Float
from threadpoolctl import threadpool_limits

from dse.hardware import occupancy
from dse.source.contract import Failure
from dse.source.estimate.bank_layout import conflicts
from dse.source.estimate.classify import Kinds, fails, registers_of, shared_beyond_text, spills, too_large
from dse.source.estimate.features import KnownFacts
from dse.source.estimate.partition import CodeVariant, variants
from dse.source.estimate.regression import fitted
from dse.source.profiles import KernelProfile
from dse.source.warps import NOTHING, column_names, phases_of, stacked, to_kernel
from dse.types import CLASSES, Limits, Resources

_EXACT = 1e-6  # relative
_BEYOND = 0.7  # maximum distance of estimates from the range of known values, in logs
_SHARED = ("shared load", "shared store")
_WORK = [column_names(0).index(f"work.{name}") for name in CLASSES]


@dataclass(frozen=True)
class Estimate:
    """Numbers of L configurations, of which n were compiled and are exact."""

    warps: Float[np.ndarray, "L numbers"]  # rows as in `dse.source.warps`; empty for failures
    resources: dict[str, np.ndarray]  # [L]: threads (0 for failures), blocks, registers, shared_bytes
    fails: np.ndarray  # [L]: does not compile, or is not likely to
    runs: np.ndarray  # [L] the probability that it compiles and its registers let the launch run
    compiled: np.ndarray  # [n] which were compiled, without failures
    exact_patterns: frozenset[str]  # accesses to shared memory whose bank conflicts follow from the source
    left_out: Float[np.ndarray, "n numbers"]  # each compiled one estimated from the others
    left_out_registers: np.ndarray  # [n]

    def errors(self) -> dict[str, np.ndarray]:
        """Return the relative errors of each compiled one estimated from the others: [n] by number."""
        registers = self.left_out_registers / self.resources["registers"][self.compiled] - 1.0
        compiled = self.warps[self.compiled]
        scale = np.where(compiled > 0.0, compiled, np.maximum(compiled.mean(0), 1e-300))
        off = (self.left_out - compiled) / scale
        return {"registers": registers} | dict(zip(column_names(phases_of(off)), off.T, strict=True))


@threadpool_limits.wrap(limits=1)  # on small matrices threads cost more than they save
def estimate(
    known: KnownFacts, results: Mapping[int, KernelProfile | Failure], limits: Limits, held: bool = False
) -> Estimate:
    """Estimate all configurations from those that were read, in `results`, by their indices.

    Whether a launch runs is for a GPU with these `limits` (scalars). If the compiler knows the block's size
    (`held`, by `__launch_bounds__`), registers are limited so that the launch runs.

    **Raises:** ValueError if fewer than two of these compiled.
    """
    if sum(isinstance(result, KernelProfile) for result in results.values()) < 2:
        raise ValueError("estimate: fewer than two configurations compiled")
    parts = variants(known, results)
    return _joined_estimates(
        parts, [_of_one_variant(part.known, part.results, limits, held) for part in parts]
    )


def _joined_estimates(parts: Sequence[CodeVariant], estimates: Sequence[Estimate]) -> Estimate:
    """Join the estimates of all variants, in the order of the configurations."""
    if len(parts) == 1:
        return estimates[0]
    order = np.argsort(np.concatenate([part.indices for part in parts]))
    resources = {
        name: np.concatenate([result.resources[name] for result in estimates])[order]
        for name in estimates[0].resources
    }
    return Estimate(
        warps=stacked([result.warps for result in estimates])[order],
        resources=resources,
        fails=np.concatenate([result.fails for result in estimates])[order],
        runs=np.concatenate([result.runs for result in estimates])[order],
        compiled=np.concatenate(
            [part.indices[result.compiled] for part, result in zip(parts, estimates, strict=True)]
        ),
        exact_patterns=frozenset[str]().union(*(result.exact_patterns for result in estimates)),
        left_out=stacked([result.left_out for result in estimates]),
        left_out_registers=np.concatenate([result.left_out_registers for result in estimates]),
    )


def _of_one_variant(
    known: KnownFacts, results: Mapping[int, KernelProfile | Failure], limits: Limits, held: bool
) -> Estimate:
    by_index = {index: result for index, result in results.items() if isinstance(result, KernelProfile)}
    compiled, profiles, features = np.array(list(by_index)), list(by_index.values()), known.features
    points, registers = features, registers_of(features, results)
    count, left_out_registers = registers.estimate(points), registers.left_out()
    high = registers.is_high(points)
    high[compiled] = registers.known > registers.border
    spilling = _spilling(points, compiled, profiles)
    if high.any() and not high.all():
        points = np.c_[points, 2.0 * high]
    failing = too_large(known, results)
    compiles = np.where(failing, 0.0, 1.0)
    others = {index: result for index, result in results.items() if not failing[index]}
    if len(by_index) < len(others):
        kinds = fails(features, others)
        compiles *= 1.0 - kinds.chance(features)
        failing |= kinds.likely(features)
        failing[list(results)] = [isinstance(result, Failure) for result in results.values()]

    read = stacked([profile.numbers for profile in profiles])
    parts = _taken_apart(read, profiles)
    patterns, exact = _patterns(known, parts, profiles, compiled)
    sums = _sums(parts, read)
    fits = _Fits(points, known.names, compiled, spilling)
    estimated, left_out = _estimated(parts, fits, patterns, sums)
    # The estimates are followed by the compiled ones, and an empty row for failures.
    row = np.arange(len(high))
    row[compiled] = len(row) + np.arange(len(compiled))
    row[[index for index in results if index not in by_index]] = len(row) + len(compiled)
    warps = stacked([_joined(estimated, sums), read, NOTHING])[row]
    shared_bytes = _shared_bytes(known, results, np.array([result.shared_bytes for result in profiles]), fits)
    asked: dict[str, Any] = {"threads": known.threads, "blocks": known.blocks, "registers": count}
    asked["shared_bytes"] = shared_bytes
    most = np.asarray(occupancy.most_registers(limits, Resources(**asked)))
    few_enough = np.where(most > 0, registers.within(features, most), 1.0)  # others fail in any case
    if held:
        count, few_enough = np.where(most > 0, np.minimum(count, most), count), np.ones(len(most))
        left_out_registers = np.minimum(left_out_registers, np.maximum(most[compiled], registers.known))
    runs = compiles * few_enough
    runs[list(results)] = ~failing[list(results)]  # known, not estimated
    count[compiled] = registers.known
    return Estimate(
        warps=warps,
        resources=asked | {"threads": np.where(failing, 0, known.threads), "registers": count},
        fails=failing,
        runs=runs,
        compiled=compiled,
        exact_patterns=exact,
        left_out=_joined(left_out, sums),
        left_out_registers=left_out_registers,
    )


def _shared_bytes(
    known: KnownFacts, results: Mapping[int, KernelProfile | Failure], read: np.ndarray, fits: "_Fits"
) -> np.ndarray:
    """Estimate shared memory: from the source's text, if right for all compiled ones up to a constant."""
    beyond = shared_beyond_text(known, results)
    if beyond is not None and known.shared_bytes is not None:
        return known.shared_bytes + beyond
    guess = np.rint(fits.estimate(read.astype(float))[0]).astype(int)
    guess[fits.compiled] = read
    return guess


class _Fits:
    """Estimates of numbers. Those of spilling configurations have an additional, mean factor."""

    def __init__(
        self, points: np.ndarray, names: Mapping[str, np.ndarray], compiled: np.ndarray, spills: np.ndarray
    ) -> None:
        self.points, self.compiled, self.spills = points, compiled, spills
        positive = [np.log(values) for values in names.values() if values.min() > 0]
        varying = [values for values in positive if np.ptp(values[compiled]) > 1e-9]
        pairs = [a + b for a, b in combinations_with_replacement(varying, 2)]
        self.products = np.array([*varying, *pairs, np.zeros(len(points))])

    def estimates(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Apply `estimate` to many numbers [n, ...]: ([L, ...], [n, ...])."""
        shape, columns = values.shape[1:], values.reshape(len(values), -1).T
        of_all, left_out = np.empty((len(columns), len(self.points))), np.empty(columns.shape)
        for number, column in enumerate(columns):
            of_all[number], left_out[number] = self.estimate(np.ascontiguousarray(column))
        return of_all.T.reshape(len(self.points), *shape), left_out.T.reshape(values.shape)

    def estimate(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Estimate (all [L], each compiled one from the others [n]) from the values of compiled ones [n].

        Either the values or their ratios to the best product of two known numbers are estimated, whichever is
        explained better.
        """
        lowest, odd = values.min(), self.spills[self.compiled]
        if np.ptp(values) <= _EXACT * abs(lowest):
            return np.full(len(self.points), values[0]), values
        # If there are zeros, a logarithm that is linear around them.
        unit = 0.0
        if lowest <= 0.0:
            unit = float(np.median(values[values > 0.0])) if values.max() > 0.0 else 0.0
            if unit + lowest <= 0.0:  # cycles of waiting for a pipe may be negative in a phase
                unit -= 2.0 * lowest
        logs, usual = np.log(values + unit), self.compiled[~odd]
        rest = logs[~odd] - self.products[:, usual]
        spread = np.abs(rest - np.median(rest, axis=1, keepdims=True)).mean(1)
        best = int(spread.argmin()) if not unit else -1
        if np.ptp(rest[best]) < _EXACT:
            estimated, without = self.products[best] + rest[best].mean(), logs[~odd]
        else:
            processes = {at: fitted(self.points[usual], rest[at]) for at in {best, len(spread) - 1}}
            at = max(processes, key=lambda product: processes[product].evidence)
            estimated = processes[at].estimate(self.points) + self.products[at]
            without = logs[~odd] - processes[at].left_out
        more = logs[odd] - estimated[self.compiled[odd]]
        left_out = logs.copy()
        left_out[~odd] = without
        if odd.sum() >= 8 and np.ptp(more) > _EXACT:
            factor = fitted(self.points[self.compiled[odd]], more)
            factors = np.clip(factor.estimate(self.points), more.min(), more.max())
            estimated = estimated + self.spills * factors
            left_out[odd] -= factor.left_out
        elif odd.any():
            estimated = estimated + self.spills * more.mean()
            left_out[odd] += (more.mean() - more) * len(more) / max(len(more) - 1, 1)
        limits = np.log(unit) if unit else logs.min() - _BEYOND, logs.max() + _BEYOND
        of_all = np.exp(np.clip(estimated, *limits)) - unit
        of_all[self.compiled] = values
        return of_all, np.exp(np.clip(left_out, *limits)) - unit


def _spilling(points: np.ndarray, compiled: np.ndarray, profiles: Sequence[KernelProfile]) -> np.ndarray:
    """Return which use local memory, or are likely to, if some do and some do not: [L]."""
    known = np.array([spills(profile) for profile in profiles])
    spilling = np.zeros(len(points), bool)
    if known.any() and np.sum(~known) > len(known) / 2:
        spilling = Kinds.of(points[compiled], known).likely(points)
        spilling[compiled] = known
    return spilling


@dataclass(frozen=True)
class _Parts:
    """The estimated numbers: accesses to shared memory are split into requests and passes per request."""

    warps: Float[np.ndarray, "n numbers"]  # without loads and stores in the phases' work on shared memory
    requests: np.ndarray  # [n, phases, 2] loads and stores of shared memory
    passes: np.ndarray  # [n, phases, 2] per request


def _shared_columns(rows: np.ndarray) -> list[int]:
    """Return the columns with the work on shared memory, one per phase."""
    names = column_names(phases_of(rows))
    return [names.index(f"phases.{number}.work.shared") for number in range(phases_of(rows))]


def _taken_apart(read: np.ndarray, profiles: Sequence[KernelProfile]) -> _Parts:
    warps, columns = read.copy(), _shared_columns(read)
    requests, passes = np.zeros((2, len(read), len(columns), len(_SHARED)))
    passes += 1.0
    for number, profile in enumerate(profiles):
        for number_of_phase, phase in enumerate(profile.counts.phases):
            for way, kind in enumerate(_SHARED):
                if kind in phase.accesses:
                    access, of_block = phase.accesses[kind], profile.counts.warps
                    requests[number, number_of_phase, way] = access.requests / of_block
                    passes[number, number_of_phase, way] = access.passes / access.requests
                    warps[number, columns[number_of_phase]] -= access.passes / of_block
    rest = warps[:, columns]
    warps[:, columns] = np.where(rest > 1e-9, rest, 0.0)
    return _Parts(warps, requests, passes)


def _joined(parts: _Parts, sums: np.ndarray) -> np.ndarray:
    """Join the numbers of warps; the work of classes in `sums` [classes] is that of the phases."""
    warps = parts.warps.copy()
    warps[:, _shared_columns(warps)] += (parts.requests * parts.passes).sum(-1)
    warps[:, _WORK] = np.where(sums, _over_phases(warps), warps[:, _WORK])
    return warps


def _over_phases(rows: np.ndarray) -> np.ndarray:
    """Sum the work of all passes through all phases: [n, classes]."""
    total = np.zeros((len(rows), len(CLASSES)))
    for phase in to_kernel(rows).phases:
        total += phase.passes[:, None] * np.stack(jax.tree.leaves(phase.work), 1)
    return total


def _sums(parts: _Parts, read: np.ndarray) -> np.ndarray:
    """Return the classes whose work is the sum over the phases in all compiled ones: [classes]."""
    total = _over_phases(_joined(parts, np.zeros(len(CLASSES), bool)))
    return np.all(np.isclose(total, read[:, _WORK], rtol=_EXACT, atol=0.0), axis=0)


def _estimated(parts: _Parts, fits: "_Fits", patterns: np.ndarray, sums: np.ndarray) -> tuple[_Parts, _Parts]:
    """Estimate (all configurations [L], compiled ones from each other [n]), without work that is a sum."""
    alone = parts.warps.copy()
    alone[:, _WORK] = np.where(sums, 0.0, alone[:, _WORK])
    numbers, requests = fits.estimates(alone), fits.estimates(parts.requests)
    passes = fits.estimates(parts.passes / patterns[fits.compiled])
    return (
        _Parts(numbers[0], requests[0], passes[0] * patterns),
        _Parts(numbers[1], requests[1], passes[1] * patterns[fits.compiled]),
    )


def _patterns(
    known: KnownFacts, parts: _Parts, profiles: Sequence[KernelProfile], compiled: np.ndarray
) -> tuple[np.ndarray, frozenset[str]]:
    """Return the passes per request known from the source [L, phases, 2], else 1, and which are exact."""
    patterns, exact = np.ones((len(known.threads), *parts.passes.shape[1:])), set()
    for phase, way in np.ndindex(*parts.passes.shape[1:]):
        there, passes = parts.requests[:, phase, way] > 0.0, parts.passes[:, phase, way]
        if not there.any() or np.ptp(passes[there]) < _EXACT:
            continue
        size = _bytes_of_a_thread(
            [profile for profile, has in zip(profiles, there, strict=True) if has], phase, _SHARED[way]
        )
        if size:
            pattern, fits = conflicts(known.block, known.names, size, compiled[there], passes[there])
            gain = np.std(np.log(passes[there] / pattern[compiled[there]])) < np.std(np.log(passes[there]))
            if fits or gain:
                patterns[:, phase, way] = pattern
                exact |= {f"phases.{phase}.{_SHARED[way]}"} if fits else set()
    return patterns, frozenset(exact)


def _bytes_of_a_thread(profiles: Sequence[KernelProfile], phase: int, kind: str) -> int:
    """Return the bytes of a thread's access; 0 if there are several sizes."""
    sizes = set()
    for profile in profiles:
        access = profile.counts.phases[phase].accesses[kind]
        size = access.bytes / access.requests / profile.counts.warp_size
        sizes.add(next((power for power in (4, 8, 16) if size <= power), 0))
    return sizes.pop() if len(sizes) == 1 else 0
