"""Predictions as rows of Arrow tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dse.data.columns import SHORT
from dse.data.tables import field as described
from dse.errors import DseError, one_of
from dse.evaluate.chunks import RESOURCES, evaluate_counted
from dse.explore.sweep.chunk import Chunk
from dse.explore.sweep.entries import PLACE, Entries
from dse.explore.sweep.product import SweepProduct
from dse.hardware import occupancy
from dse.kernels.counts import KnownBatch

AT_ONCE = 1 << 13  # configurations evaluated again together
WORD = pa.dictionary(pa.int16(), pa.string())


def schema(product: SweepProduct, columns: Sequence[str] | None = None) -> pa.Schema:
    """Return the schema of a sweep, or of chosen columns; parameters that a kernel lacks are null.

    **Raises:** DseError for an unknown column.
    """
    lists = [dict(space.values) for kernel in product.kernels for space in (kernel.space,)]
    lists += [dict(sizes.values) for sizes in product.sizes]
    numbers: dict[str, pa.DataType] = {}
    sizes = [name for points in product.sizes for name in points.names]
    for values in lists:
        for name, choices in values.items():
            whole = all(isinstance(value, int) for value in choices)
            if not whole or name not in numbers:
                numbers[name] = pa.int64() if whole else pa.float64()
    order = [*dict.fromkeys(sizes), *(name for name in numbers if name not in sizes)]
    fields = (
        [("kernel", WORD), ("gpu", WORD), ("model", WORD)]
        + [(name, numbers[name]) for name in order]
        + [(name, pa.int32()) for name in RESOURCES]
        + [("warps_per_sm", pa.float32()), ("occupancy", pa.float32()), ("limited_by", WORD)]
        + [("possible", pa.bool_()), ("cycles", pa.float64()), ("time_s", pa.float64()), ("bottleneck", WORD)]
    )
    whole = pa.schema([described(name, kind) for name, kind in fields])
    if columns is None:
        return whole
    full = [name if name in whole.names else SHORT.get(name, name) for name in columns]
    for name in full:
        if name not in whole.names:
            raise DseError(f"columns: found {name!r}, {one_of(name, whole.names)}")
    return pa.schema([whole.field(name) for name in dict.fromkeys(full)])


def table(chunk: Chunk, columns: pa.Schema) -> pa.Table:
    """Return the rows of a chunk: GPU by GPU, model by model, configurations in order."""
    evaluation, product = chunk.evaluation, chunk.product
    problem = product.point(chunk.kernel, chunk.size)
    kernel, batches = product.kernels[chunk.kernel], []
    for g, file in enumerate(product.gpus):
        common: dict[str, Any] = {name: values[g] for name, values in evaluation.resources.items()}
        common |= {name: getattr(evaluation, name)[g] for name in ("warps_per_sm", "occupancy", "possible")}
        for model, forecast in evaluation.forecasts.items():
            wanted = np.flatnonzero(chunk.wanted[model][g])
            row = common | dict(chunk.parameters)
            row |= {"cycles": forecast.cycles[g], "time_s": forecast.seconds[g]}
            words = {
                "kernel": ([kernel.name], np.zeros(1, int)),
                "gpu": ([file.name], np.zeros(1, int)),
                "model": ([model], np.zeros(1, int)),
                "limited_by": (occupancy.LIMITERS, evaluation.limiter[g]),
                "bottleneck": (forecast.terms, forecast.bottleneck[g]),
            }

            def column(field: pa.Field, row: Mapping = row, words: Mapping = words, at: Any = wanted) -> Any:
                if field.name in words:
                    names, codes = words[field.name]
                    codes = np.broadcast_to(np.asarray(codes, np.int16), len(chunk.index))[at]
                    codes = pa.array(codes, mask=codes < 0)
                    return pa.DictionaryArray.from_arrays(codes, pa.array(names, pa.string()))
                if field.name in row:
                    return pa.array(np.asarray(row[field.name])[at]).cast(field.type)
                if field.name in problem:
                    return pa.array(np.full(len(at), problem[field.name])).cast(field.type)
                return pa.nulls(len(at), field.type)

            batches.append(pa.RecordBatch.from_arrays([column(field) for field in columns], schema=columns))
    return pa.Table.from_batches(batches, columns)


def of_entries(product: SweepProduct, entries: Entries) -> list[dict[str, Any]]:
    """Return kept entries as rows, group by group, fastest first, with their `rank` in the group.

    Their times are recomputed by `dse.evaluate.chunks`, as in a table of all rows.
    """
    if not len(entries["kernel"]):
        return []
    pairs, pair = np.unique(np.stack([entries["kernel"], entries["size"]]), axis=1, return_inverse=True)
    ends = np.cumsum(np.bincount(pair, minlength=pairs.shape[1]))[:-1]
    of_pairs = np.split(np.argsort(pair, kind="stable"), ends)
    time = np.empty(len(pair))
    pieces: list[tuple[np.ndarray, dict[str, Any]]] = []  # indices of entries, and columns
    for (kernel, size), of_pair in zip(pairs.T.tolist(), of_pairs, strict=True):
        index, row = np.unique(entries["index"][of_pair], return_inverse=True)
        for start in range(0, len(index), AT_ONCE):
            inside = np.flatnonzero((row >= start) & (row < start + AT_ONCE))
            entry, local_row = of_pair[inside], row[inside] - start
            batch = _CountedBatch.of(product, kernel, size, index[start : start + AT_ONCE])
            for model in np.unique(entries["model"][entry]).tolist():
                of_model = np.flatnonzero(entries["model"][entry] == model)
                at = entry[of_model]
                columns = batch.columns(model, entries["gpu"][at], local_row[of_model])
                time[at] = columns["time_s"]
                pieces.append((at, columns))
    order = np.lexsort((*(entries[name] for name in reversed(PLACE)), time, entries["group"]))
    group = entries["group"][order]
    rank = np.empty(len(pair), int)
    rank[order] = np.arange(len(group)) - np.searchsorted(group, group) + 1
    rows: list[dict[str, Any]] = [{}] * len(pair)
    for at, columns in pieces:
        lists = (rank[at].tolist(), *(values.tolist() for values in columns.values()))
        names = ("rank", *columns)
        for row, values in zip(at.tolist(), zip(*lists, strict=True), strict=True):
            rows[row] = dict(zip(names, values, strict=True))
    return [rows[row] for row in order.tolist()]


@dataclass(frozen=True)
class _CountedBatch:
    """Counted configurations of one kernel and size."""

    product: SweepProduct
    kernel: int
    size: int
    parameters: Mapping[str, np.ndarray]  # [L]
    batch: KnownBatch

    @staticmethod
    def of(product: SweepProduct, kernel: int, size: int, index: np.ndarray) -> "_CountedBatch":
        """Count configurations by their indices in the kernel's space."""
        parameters = product.parameters(kernel, index)
        counted = product.kernels[kernel].count(parameters, product.stacked, product.point(kernel, size))
        batch = counted.batch.take(np.arange(len(index)))
        return _CountedBatch(product, kernel, size, parameters, batch)

    def columns(self, model: int, gpus: np.ndarray, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Predict rows on GPUs by one model, only those it needs: models rarely agree on what is fast."""
        product, kernel = self.product, self.product.kernels[self.kernel].name
        distinct, at = np.unique(rows, return_inverse=True)
        batch, models = self.batch.take(distinct), product.models[model : model + 1]
        evaluation = evaluate_counted(batch, len(distinct), kernel, models, product.stacked)
        [(name, forecast)] = evaluation.forecasts.items()
        columns: dict[str, Any] = {"kernel": np.full(len(rows), kernel, object)}
        columns["gpu"] = np.array([file.name for file in product.gpus], object)[gpus]
        columns["model"] = np.full(len(rows), name, object)
        problem = product.point(self.kernel, self.size)
        columns |= {size: np.full(len(rows), value) for size, value in problem.items()}
        columns |= {parameter: values[rows] for parameter, values in self.parameters.items()}
        columns |= {resource: values[gpus, at] for resource, values in evaluation.resources.items()}
        columns |= {field: getattr(evaluation, field)[gpus, at] for field in ("warps_per_sm", "occupancy")}
        columns["limited_by"] = np.array(occupancy.LIMITERS, object)[evaluation.limiter[gpus, at]]
        columns["possible"] = evaluation.possible[gpus, at]
        columns |= {"cycles": forecast.cycles[gpus, at], "time_s": forecast.seconds[gpus, at]}
        columns["bottleneck"] = forecast.bottleneck_names()[gpus, at]
        return columns
