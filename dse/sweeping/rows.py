"""Predictions as rows of Arrow tables, in one vocabulary of columns."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dse.errors import DseError
from dse.hardware import occupancy
from dse.space.expression import one_of
from dse.sweeping.chunk import Chunk, chunk_of
from dse.sweeping.entries import Entries
from dse.sweeping.filter import RESOURCES
from dse.sweeping.product import Product

WORD = pa.dictionary(pa.int16(), pa.string())


def schema(product: Product, columns: Sequence[str] | None = None) -> pa.Schema:
    """Return the columns of a sweep, or those chosen; what a kernel lacks is null in its rows.

    **Raises:** DseError for a column that there is not.
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
    whole = pa.schema(
        [("kernel", WORD), ("gpu", WORD), ("model", WORD)]
        + [(name, numbers[name]) for name in order]
        + [(name, pa.int32()) for name in RESOURCES]
        + [("warps_per_sm", pa.float32()), ("occupancy", pa.float32()), ("limited_by", WORD)]
        + [("possible", pa.bool_()), ("cycles", pa.float64()), ("time_s", pa.float64()), ("bottleneck", WORD)]
    )
    if columns is None:
        return whole
    for name in columns:
        if name not in whole.names:
            raise DseError(f"--columns: found {name!r}, {one_of(name, whole.names)}")
    return pa.schema([whole.field(name) for name in dict.fromkeys(columns)])


def table(chunk: Chunk, columns: pa.Schema) -> pa.Table:
    """Return the rows of a chunk: GPU by GPU, model by model, configurations in order."""
    evaluation, product = chunk.evaluation, chunk.product
    problem = product.point(chunk.kernel, chunk.size)
    kernel, batches = product.kernels[chunk.kernel], []
    for g, file in enumerate(product.gpus):
        common: dict[str, Any] = {name: values[g] for name, values in evaluation.resources.items()}
        common |= {name: getattr(evaluation, name)[g] for name in ("warps_per_sm", "occupancy", "possible")}
        for model, forecast in evaluation.forecasts.items():
            some = np.flatnonzero(chunk.wanted[model][g])
            row = common | dict(chunk.parameters)
            row |= {"cycles": forecast.cycles[g], "time_s": forecast.seconds[g]}
            words = {
                "kernel": ([kernel.name], np.zeros(1, int)),
                "gpu": ([file.name], np.zeros(1, int)),
                "model": ([model], np.zeros(1, int)),
                "limited_by": (occupancy.LIMITERS, evaluation.limiter[g]),
                "bottleneck": (forecast.terms, forecast.bottleneck[g]),
            }

            def column(field: pa.Field, row: Mapping = row, words: Mapping = words, some: Any = some) -> Any:
                if field.name in words:
                    names, codes = words[field.name]
                    codes = np.broadcast_to(np.asarray(codes, np.int16), len(chunk.index))[some]
                    codes = pa.array(codes, mask=codes < 0)
                    return pa.DictionaryArray.from_arrays(codes, pa.array(names, pa.string()))
                if field.name in row:
                    return pa.array(np.asarray(row[field.name])[some]).cast(field.type)
                if field.name in problem:
                    return pa.array(np.full(len(some), problem[field.name])).cast(field.type)
                return pa.nulls(len(some), field.type)

            batches.append(pa.RecordBatch.from_arrays([column(field) for field in columns], schema=columns))
    return pa.Table.from_batches(batches, columns)


def of_entries(product: Product, found: Entries) -> list[dict[str, Any]]:
    """Return what was kept as rows, group by group, fastest first, each with its `rank` in its group.

    Their times are those of `dse.evaluate.chunks`, as in a table of all rows.
    """
    rows = []
    pairs, pair = np.unique(np.stack([found["kernel"], found["size"]], axis=1), axis=0, return_inverse=True)
    ends = np.cumsum(np.bincount(pair, minlength=len(pairs)))[:-1]
    for (kernel, size), mine in zip(
        pairs.tolist(), np.split(np.argsort(pair, kind="stable"), ends), strict=True
    ):
        index, place = np.unique(found["index"][mine], return_inverse=True)
        chunk = chunk_of(product, kernel, size, index)
        for at, column in zip(mine.tolist(), place.tolist(), strict=True):
            gpu, model = int(found["gpu"][at]), int(found["model"][at])
            rows.append((int(found["group"][at]), _row(chunk, gpu, model, column), kernel, size, gpu, column))
    rows.sort(key=lambda row: (row[0], row[1]["time_s"], *row[2:]))
    ranked, rank, last = [], 0, None
    for group, row, *_ in rows:
        rank = rank + 1 if group == last else 1
        last = group
        ranked.append({"rank": rank} | row)
    return ranked


def _row(chunk: Chunk, gpu: int, model: int, place: int) -> dict[str, Any]:
    """One prediction as a row."""
    product, evaluation = chunk.product, chunk.evaluation
    name = list(evaluation.forecasts)[model]
    forecast = evaluation.forecasts[name]
    row: dict[str, Any] = {"kernel": product.kernels[chunk.kernel].name}
    row |= {"gpu": product.gpus[gpu].name, "model": name}
    row |= product.point(chunk.kernel, chunk.size)
    row |= {name: values[place].item() for name, values in chunk.parameters.items()}
    row |= {name: int(values[gpu, place]) for name, values in evaluation.resources.items()}
    row |= {name: float(getattr(evaluation, name)[gpu, place]) for name in ("warps_per_sm", "occupancy")}
    row |= {"limited_by": occupancy.LIMITERS[int(evaluation.limiter[gpu, place])]}
    row |= {"possible": bool(evaluation.possible[gpu, place])}
    row |= {"cycles": float(forecast.cycles[gpu, place]), "time_s": float(forecast.seconds[gpu, place])}
    return row | {"bottleneck": str(forecast.bottleneck_names()[gpu, place])}
