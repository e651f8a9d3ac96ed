"""Chooses which configurations of a kernel to compile, so that they tell most of the others.

By what is known of them without a compiler the first ones are near to as many others as they can: corners of
a space are often special, as sizes are that divide a problem. The others are those whose registers are least
sure, so that the border between those with few and with far more is found.
"""

from collections.abc import Mapping

import numpy as np
from threadpoolctl import threadpool_limits

from dse.source.contract import Failure
from dse.source.estimate.classify import Kinds, fails, registers_of, spills, too_large
from dse.source.estimate.features import KnownFacts
from dse.source.estimate.partition import variants
from dse.source.estimate.regression import FittedProcess
from dse.source.profiles import KernelProfile

_ROUNDS = 4  # in which the second half of them is chosen
_MOST_POINTS = 2048
_LEAST = 1e-9  # variance: what is as sure as that tells nothing more


@threadpool_limits.wrap(limits=1)  # on small matrices threads cost more than they save
def choose(known: KnownFacts, count: int, results: Mapping[int, KernelProfile | Failure]) -> list[int]:
    """Choose which configurations to compile next, until `count` of them are read; then none.

    The first half are near to as many others as they can. Then come those whose registers are least sure, or
    whether they compile at all, in several rounds. Those that declare too much shared memory come last.
    """
    total = len(known.threads)
    count = min(count, total)
    if not results:
        half, fitting = -(-count // 2), np.flatnonzero(~known.too_large)
        if len(fitting) < half:
            return _amid(known.features, half)
        return fitting[_amid(known.features[fitting], half)].tolist()
    known_ones, picked = list(results), []
    parts = [
        (variant.indices, _doubts(variant.known, variant.results)) for variant in variants(known, results)
    ]
    variance, hopeless = np.empty(total), too_large(known, results)
    while len(picked) < min(count - len(results), -(-count // (2 * _ROUNDS))):
        for indices, doubts in parts:
            variance[indices] = np.sum([doubt.variance for doubt in doubts], axis=0)
        variance[hopeless] = -1.0
        variance[known_ones + picked] = -2.0
        picked.append(int(variance.argmax()))
        for indices, doubts in parts:
            for index in np.flatnonzero(indices == picked[-1]):
                for doubt in doubts:
                    doubt.learn(int(index))
    return picked


class _Uncertainty:
    """The variance of a number, now and after configurations are compiled that are yet to be."""

    def __init__(
        self, process: FittedProcess, points: np.ndarray, variance: np.ndarray | None = None
    ) -> None:
        self.process, self.points = process, points
        self.left = np.maximum(process.variance(points), _LEAST)
        self.variance = self.left if variance is None else variance
        self.columns: list[np.ndarray] = []

    def learn(self, index: int) -> None:
        """Take that one as known, by one step of a Cholesky decomposition of the covariance."""
        if self.left[index] <= _LEAST:
            return
        column = self.process.covariance(self.points, self.points[[index]])[:, 0]
        column = column - sum(before * before[index] for before in self.columns)
        self.columns.append(column / np.sqrt(max(column[index], _LEAST)))
        explained = np.minimum(self.columns[-1] ** 2, self.left)
        self.variance = self.variance * (1.0 - explained / self.left)
        self.left = np.maximum(self.left - explained, _LEAST)


def _doubts(known: KnownFacts, results: Mapping[int, KernelProfile | Failure]) -> list[_Uncertainty]:
    points, registers = known.features, registers_of(known.features, results)
    process = registers.process if registers.kinds is None else registers.kinds.process
    doubts = [_Uncertainty(process, points, registers.variance(points))]
    hopeless = too_large(known, results)
    others = {index: result for index, result in results.items() if not hopeless[index]}
    if any(isinstance(result, Failure) for result in others.values()):
        kinds = fails(points, others)
        doubts.append(_Uncertainty(kinds.process, points, kinds.doubt(points)))
    compiled = [index for index, result in results.items() if isinstance(result, KernelProfile)]
    spilling = np.array([spills(result) for result in results.values() if isinstance(result, KernelProfile)])
    if spilling.any() and not spilling.all():
        kinds = Kinds.of(points[compiled], spilling)
        doubts.append(_Uncertainty(kinds.process, points, kinds.doubt(points)))
    return doubts


def _amid(points: np.ndarray, count: int) -> list[int]:
    """Choose each so that the mean distance from any to the nearest chosen one falls most.

    Of many points, some at random represent all.
    """
    if len(points) > _MOST_POINTS:
        some = np.sort(np.random.default_rng(0).choice(len(points), _MOST_POINTS, replace=False))
        return some[_amid(points[some], count)].tolist()
    squares = (points**2).sum(1)
    apart = np.sqrt(np.maximum(squares[:, None] + squares - 2.0 * points @ points.T, 0.0))
    nearest, picked = apart.max(1), list[int]()
    for _ in range(count):
        picked.append(int(np.minimum(nearest[:, None], apart).sum(0).argmin()))
        nearest = np.minimum(nearest, apart[:, picked[-1]])
    return picked
