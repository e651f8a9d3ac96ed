"""Split a table into spaces: a kernel's configurations on a GPU, with a forecast for each model."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dse.data.results.space import (
    FACTS,
    MEASURED,
    NO_GPU,
    OF_A_MODEL,
    PREDICTED,
    REFIT,
    REFITTED,
    UNREAD,
    WORDS,
    ResultSpace,
    codes,
    plain,
)
from dse.data.table import Table, as_integers
from dse.errors import DseError


def split_by_kernel_and_gpu(
    path: Path,
    table: Table,
    models: Mapping[str, str],
    kernel: str | None,
    gpu: str | None,
    notes: list[str],
) -> Iterable[ResultSpace]:
    """Yield the configurations of each kernel and GPU in a file."""

    def coded(name: str, absent: str | None) -> tuple[np.ndarray, list[Any]]:
        if name in table.names:
            numbers, names = codes(table.values(name))
            return numbers, [absent if value is None or value != value else str(value) for value in names]
        return np.zeros(table.rows, np.int64), [absent]

    kernels, kernel_names = coded("kernel", kernel or path.name.partition(".")[0])
    gpus, gpu_names = coded("gpu", gpu or NO_GPU)
    model, model_names = coded("model", None)
    pairs, first, number = np.unique(kernels * len(gpu_names) + gpus, return_index=True, return_inverse=True)
    others = [name for name in table.names if name not in ("kernel", "gpu", "model")]
    for i in np.argsort(first):  # in the order of the file
        rows = np.flatnonzero(number == i)
        part = table.table.select(others).take(pa.array(rows))  # one part at a time: files may be large
        part = replace(table, table=part)
        columns = {name: _checked(path, name, part.values(name), models) for name in others}
        kernel_name, gpu_name = kernel_names[pairs[i] // len(gpu_names)], gpu_names[pairs[i] % len(gpu_names)]
        yield _space(path, kernel_name, gpu_name, columns, model[rows], model_names, models, notes)


def _checked(path: Path, name: str, values: np.ndarray, models: Mapping[str, str]) -> np.ndarray:
    """Return a column of numbers or words, as its name implies. **Raises:** DseError for words as numbers."""
    if name in WORDS and values.dtype != object:
        return np.array([str(value) for value in values.tolist()], object)
    if (
        name not in WORDS
        and (name in (*OF_A_MODEL, *FACTS, REFIT) or name in models)
        and values.dtype == object
    ):
        wrong = next((value for value in values if value is not None and not _is_number(value)), values[0])
        raise DseError(f"{path}: {name}: found {str(wrong)[:40]!r}, expected numbers")
    return values


def _is_number(word: Any) -> bool:
    try:
        return bool(float(word) or True)
    except ValueError:
        return False


def _space(
    path: Path,
    kernel: str,
    gpu: str,
    columns: dict[str, np.ndarray],
    model: np.ndarray,
    model_names: list[str | None],
    models: Mapping[str, str],
    notes: list[str],
) -> ResultSpace:
    """Pivot rows of configuration and model into one row a configuration."""
    further = {name: columns[name] for name in columns if name in models}  # model b of `dse rank -m a -m b`
    parameters = {
        name: _whole(values)
        for name, values in columns.items()
        if name not in (*OF_A_MODEL, *FACTS, *UNREAD, REFIT, *further) and not _missing(values).all()
    }
    varying = {name: values for name, values in parameters.items() if len(codes(values)[1]) > 1}
    fixed = {name: plain(values[0]) for name, values in parameters.items() if name not in varying}
    present = np.unique(model)
    rows_of_models = [np.flatnonzero(model == number) for number in present]
    first = rows_of_models[0]
    same_order = all(
        len(rows) == len(first)
        and all(np.array_equal(values[rows], values[first]) for values in varying.values())
        for rows in rows_of_models[1:]
    )
    if same_order:
        indices = [np.arange(len(first))] * len(rows_of_models)
        lead, count = first, len(first)
    else:
        keys = np.stack([codes(values)[0] for values in (model * 0, *varying.values())], axis=1)
        _, lead, index = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        rank = np.argsort(np.argsort(lead))  # configurations in the order of the file
        index, lead, count = rank[index.ravel()], np.sort(lead), len(lead)
        indices = [index[rows] for rows in rows_of_models]
        if any(len(np.unique(index)) < len(index) for index in indices):
            notes.append(f"{path.name}: duplicate configurations are shown once, by their last row.")
    forecasts: dict[str, dict[str, np.ndarray]] = {}
    for number, rows, index in zip(present, rows_of_models, indices, strict=True):
        forecast = {
            name: _scatter(columns[name][rows], index, count) for name in OF_A_MODEL if name in columns
        }
        if REFIT in columns:  # the interval is of the refitted time
            interval = {name: forecast.pop(name) for name in ("low_s", "high_s") if name in forecast}
            forecasts[REFITTED] = {"time_s": _scatter(columns[REFIT][rows], index, count)} | interval
        if "time_s" in forecast:
            forecasts[model_names[number] or PREDICTED] = forecast
    for name, values in further.items():
        forecasts[models[name]] = {"time_s": values[lead].astype(float)}
    facts = {name: columns[name][lead] for name in FACTS if name in columns}
    if "measured_s" in facts:
        forecasts[MEASURED] = {"time_s": facts["measured_s"].astype(float)}
    parameters = {name: values[lead] for name, values in varying.items()}
    if not parameters and not facts:
        parameters = {"configuration": np.arange(1, count + 1)}
    return ResultSpace(kernel, gpu, path.name, parameters, fixed, facts, _finite(forecasts))


def _finite(forecasts: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, dict[str, np.ndarray]]:
    """Replace infinite times, of impossible launches, by NaN."""

    def finite(values: np.ndarray) -> np.ndarray:
        if values.dtype == object:
            return values
        return np.where(np.isfinite(values), values, np.nan)

    return {
        model: {name: finite(values) for name, values in columns.items()}
        for model, columns in forecasts.items()
    }


def _scatter(values: np.ndarray, index: np.ndarray, count: int) -> np.ndarray:
    if len(values) == count and np.array_equal(index, np.arange(count)):
        return values
    full = np.full(count, None, object) if values.dtype == object else np.full(count, np.nan)
    full[index] = values
    return full


def _missing(values: np.ndarray) -> np.ndarray:
    return values == np.array(None, object) if values.dtype == object else np.isnan(values.astype(float))


def _whole(values: np.ndarray) -> np.ndarray:
    """Restore integers read as floats because other kernels' rows have empty cells."""
    return as_integers(values) if values.dtype.kind == "f" else values
