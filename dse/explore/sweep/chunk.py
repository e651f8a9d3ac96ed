"""Predictions for configurations of one kernel at one problem size, on all GPUs by all models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
    wanted: Mapping[str, np.ndarray]  # by model, [G, L]: whether the filter holds

    def entries(self, per: frozenset[str], columns: Sequence[str], mask: Mapping[str, np.ndarray]) -> Entries:
        """Return the predictions of a `mask` [G, L] by model, as entries with further columns."""
        parts = []
        for m, (model, forecast) in enumerate(self.evaluation.forecasts.items()):
            gpu, row = np.nonzero(mask[model])
            index, seconds = self.index[row], forecast.seconds[gpu, row].astype(float)
            more = {name: self.evaluation.resources[name][gpu, row].astype(int) for name in columns}
            place = (per, self.kernel, self.size, gpu, m)
            parts.append(self.product.entries(*place, index=index, time_s=seconds, **more))
        return entries.joined(parts)


def chunk_of(
    product: SweepProduct, kernel: int, size: int, index: np.ndarray, where: Filter | None = None
) -> Chunk:
    """Evaluate configurations by their indices in the kernel's space."""
    problem, parameters = product.point(kernel, size), product.parameters(kernel, index)
    counts = product.kernels[kernel]
    evaluation = evaluate(counts, product.models, product.stacked, parameters, problem)
    if where:
        wanted = where.holds(parameters, problem, evaluation)
    else:
        wanted = {model: np.ones(evaluation.limiter.shape, bool) for model in evaluation.forecasts}
    return Chunk(product, kernel, size, index, parameters, evaluation, wanted)
