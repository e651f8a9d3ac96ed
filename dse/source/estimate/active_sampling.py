"""Choose the configurations to compile from which the others are estimated best.

The first ones are near to as many others as possible, in features known without a compiler: corners of a
space are often special, as are sizes that divide a problem. The rest are those with the most uncertain
registers, to find the border between those with few and with far more.
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

_ROUNDS = 4  # in which the second half is chosen
_MOST_POINTS = 2048
_LEAST = 1e-9  # variance below which a configuration adds no information


@threadpool_limits.wrap(limits=1)  # threads do not pay on small matrices
def choose(known: KnownFacts, count: int, results: Mapping[int, KernelProfile | Failure]) -> list[int]:
    """Choose which configurations to compile next, until `count` of them are read; then none.

    The first half are near to as many others as possible. Then come, in several rounds, those with the most
    uncertain registers or success of compilation. Those that declare too much shared memory come last.
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
    """The variance of a number, before and after further configurations are compiled."""

    def __init__(
        self, process: FittedProcess, points: np.ndarray, variance: np.ndarray | None = None
    ) -> None:
        self.process, self.points = process, points
        self.left = np.maximum(process.variance(points), _LEAST)
        self.variance = self.left if variance is None else variance
        self.columns: list[np.ndarray] = []

    def learn(self, index: int) -> None:
        """Condition on a configuration, by one step of a Cholesky decomposition of the covariance."""
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
    """Choose points greedily to minimise the mean distance from all points to the nearest chosen one.

    Many points are represented by a random sample.
    """
    if len(points) > _MOST_POINTS:
        sample = np.sort(np.random.default_rng(0).choice(len(points), _MOST_POINTS, replace=False))
        return sample[_amid(points[sample], count)].tolist()
    squares = (points**2).sum(1)
    apart = np.sqrt(np.maximum(squares[:, None] + squares - 2.0 * points @ points.T, 0.0))
    nearest, picked = apart.max(1), list[int]()
    for _ in range(count):
        picked.append(int(np.minimum(nearest[:, None], apart).sum(0).argmin()))
        nearest = np.minimum(nearest, apart[:, picked[-1]])
    return picked
