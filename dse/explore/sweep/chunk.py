"""Configurations of one kernel at one point of its sizes, on all GPUs, and what models say of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dse.evaluate.chunks import Evaluation, evaluate
from dse.explore.sweep import entries
from dse.explore.sweep.entries import Entries
from dse.explore.sweep.filter import Filter
from dse.explore.sweep.product import SweepProduct


@dataclass(frozen=True)
class Chunk:
    """A chunk with its predictions."""

    product: SweepProduct
    kernel: int
    size: int
    index: np.ndarray  # [L] in the kernel's space
    parameters: Mapping[str, np.ndarray]  # [L]
    evaluation: Evaluation  # [G, L]
    wanted: Mapping[str, np.ndarray]  # by model, [G, L]: where the filter holds

    def entries(self, per: frozenset[str], columns: Sequence[str], some: Mapping[str, np.ndarray]) -> Entries:
        """Return `some` predictions, [G, L] by model, as entries with further columns."""
        several = []
        for m, (model, forecast) in enumerate(self.evaluation.forecasts.items()):
            gpu, place = np.nonzero(some[model])
            where: dict[str, Any] = {"model": m, "kernel": self.kernel, "size": self.size}
            where = {name: np.full(len(gpu), number) for name, number in where.items()}
            where |= {"gpu": gpu, "index": self.index[place]}
            where["time_s"] = forecast.seconds[gpu, place].astype(float)
            where["group"] = self.product.group(per, self.kernel, where["size"], gpu, where["model"])
            where |= {name: self.evaluation.resources[name][gpu, place].astype(int) for name in columns}
            several.append(where)
        return entries.joined(several)


def chunk_of(
    product: SweepProduct, kernel: int, size: int, index: np.ndarray, where: Filter | None = None
) -> Chunk:
    """Evaluate some configurations, by their indices in the kernel's space."""
    problem, parameters = product.point(kernel, size), product.parameters(kernel, index)
    counts = product.kernels[kernel]
    evaluation = evaluate(counts, product.models, product.stacked, parameters, problem)
    every = {model: np.ones(evaluation.limiter.shape, bool) for model in evaluation.forecasts}
    wanted = where.holds(parameters, problem, evaluation) if where else every
    return Chunk(product, kernel, size, index, parameters, evaluation, wanted)
