"""Predictions as rows of Arrow tables."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dse.data.columns import SHORT
from dse.data.tables import field as described
from dse.data.tables import rows_of
from dse.errors import check_names
from dse.evaluate.chunks import RESOURCES, evaluate_counted
from dse.explore.sweep.chunk import Chunk
from dse.explore.sweep.entries import PLACE, Entries, taken
from dse.explore.sweep.product import SweepProduct
from dse.hardware import occupancy

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
    check_names("columns", whole.names, *full)
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
    rows: list[dict[str, Any]] = [{}] * len(pair)
    for (kernel, size), of_pair in zip(pairs.T.tolist(), of_pairs, strict=True):
        index, row = np.unique(entries["index"][of_pair], return_inverse=True)
        for start in range(0, len(index), AT_ONCE):
            inside = np.flatnonzero((row >= start) & (row < start + AT_ONCE))
            places, batch = of_pair[inside], index[start : start + AT_ONCE]
            own = taken(entries, places)
            for at, columns in _again(product, kernel, size, batch, own, row[inside] - start):
                for place, values in zip(places[at].tolist(), rows_of(columns), strict=True):
                    rows[place] = values
    time = np.array([row["time_s"] for row in rows])
    order = np.lexsort((*(entries[name] for name in reversed(PLACE)), time, entries["group"]))
    group = entries["group"][order]
    ranks = np.arange(len(group)) - np.searchsorted(group, group) + 1
    return [{"rank": rank} | rows[row] for rank, row in zip(ranks.tolist(), order.tolist(), strict=True)]


def _again(
    product: SweepProduct, kernel: int, size: int, index: np.ndarray, entries: Entries, rows: np.ndarray
) -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
    """Predict entries again, which are `rows` of the configurations `index` of a kernel's space.

    By each model only its own: models rarely agree on what is fast. Yields places of entries, and columns.
    """
    counts, problem = product.kernels[kernel], product.point(kernel, size)
    parameters = product.parameters(kernel, index)
    counted = counts.count(parameters, product.stacked, problem).batch.take(np.arange(len(index)))
    gpu_names = np.array([file.name for file in product.gpus], object)
    for model in np.unique(entries["model"]).tolist():
        own = np.flatnonzero(entries["model"] == model)
        gpus, of_model = entries["gpu"][own], product.models[model : model + 1]
        distinct, row = np.unique(rows[own], return_inverse=True)
        evaluation = evaluate_counted(
            counted.take(distinct), len(distinct), counts.name, of_model, product.stacked
        )
        same = {"kernel": counts.name, "gpu": None, "model": of_model[0].name} | problem
        columns = {name: np.full(len(own), value, object) for name, value in same.items()}
        columns["gpu"] = gpu_names[gpus]
        columns |= {name: values[rows[own]] for name, values in parameters.items()}
        yield own, columns | evaluation.columns(of_model[0].name, gpus, row)
