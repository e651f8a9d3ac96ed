"""Predictions of configurations of one kernel and problem size on all GPUs by all models; their filter."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dse.core.space.expression import Expression, parse
from dse.data.columns import SHORT
from dse.errors import DseError
from dse.evaluate.chunks import RESOURCES, Evaluation, evaluate
from dse.explore.sweep import entries
from dse.explore.sweep.entries import Entries
from dse.explore.sweep.product import SweepProduct

NUMBERS = (*RESOURCES, "warps_per_sm", "occupancy", "possible", "cycles", "time_s")


@dataclass(frozen=True)
class Filter:
    """A condition on rows. Parameters and sizes that a kernel lacks are 0."""

    expression: Expression

    @staticmethod
    def of(text: str, product: SweepProduct) -> "Filter":
        """Parse a filter. **Raises:** DseError for another form, or a name unknown to all kernels."""
        if unit := re.search(r"\b\d[\d.e-]*\s*([mun]?s|µs)\b", text):
            raise DseError(f"where: found the unit {unit[1]} in {text!r}, expected seconds: time < 1e-3")
        names = {name for kernel in product.kernels for name in kernel.space.names}
        names |= {name for sizes in product.sizes for name in sizes.names}
        short = {name for name in SHORT if name not in names}
        read = parse(text, "where", {*names, *NUMBERS, *short})
        for name in short & read.names:
            text = re.sub(rf"\b{name}\b", SHORT[name], text)
        return Filter(parse(text, "where", {*names, *NUMBERS}))

    def holds(
        self, parameters: Mapping[str, np.ndarray], problem: Mapping[str, Any], evaluation: Evaluation
    ) -> dict[str, np.ndarray]:
        """Evaluate the filter by model: [G, L] each."""
        shape = evaluation.limiter.shape
        known: dict[str, Any] = dict.fromkeys(self.expression.names, np.asarray(0)) | dict(problem)
        known |= {name: values[None] for name, values in parameters.items()}
        known |= evaluation.resources
        known |= {name: getattr(evaluation, name) for name in ("warps_per_sm", "occupancy", "possible")}
        columns = {}
        for model, forecast in evaluation.forecasts.items():
            values = known | {"cycles": forecast.cycles, "time_s": forecast.seconds}
            columns[model] = np.broadcast_to(self.expression.holds(values, np), shape)
        return columns


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
