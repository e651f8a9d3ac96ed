"""A table cut into the spaces that it covers: a kernel's configurations on a GPU, a forecast a model."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dse.data.results.space import ResultSpace, codes, plain
from dse.data.results.vocabulary import (
    FACTS,
    MEASURED,
    NO_GPU,
    OF_A_MODEL,
    PREDICTED,
    REFIT,
    REFITTED,
    UNREAD,
    WORDS,
)
from dse.data.table import Table
from dse.errors import DseError


def cut(
    path: Path,
    table: Table,
    models: Mapping[str, str],
    kernel: str | None,
    gpu: str | None,
    notes: list[str],
) -> Iterable[ResultSpace]:
    """Cut a file into the configurations of each kernel and GPU."""

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
        some = table.table.select(others).take(pa.array(rows))  # a part at a time: files may be large
        part = replace(table, table=some)
        here = {name: _checked(path, name, part.values(name), models) for name in others}
        name, card = kernel_names[pairs[i] // len(gpu_names)], gpu_names[pairs[i] % len(gpu_names)]
        yield _space(path, name, card, here, model[rows], model_names, models, notes)


def _checked(path: Path, name: str, values: np.ndarray, models: Mapping[str, str]) -> np.ndarray:
    """Return a column of numbers or words, as its name says. **Raises:** DseError where it is not."""
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
    """Make one line a configuration of one line a configuration and model."""
    beside = {
        name: columns[name] for name in columns if name in models
    }  # of `dse rank -m a -m b`, those of b
    own = {
        name: values
        for name, values in columns.items()
        if name not in (*OF_A_MODEL, *FACTS, *UNREAD, REFIT, *beside) and not _missing(values).all()
    }
    own = {name: _whole(values) for name, values in own.items()}
    varying = {name: values for name, values in own.items() if len(codes(values)[1]) > 1}
    fixed = {name: plain(values[0]) for name, values in own.items() if name not in varying}
    present = np.unique(model)
    of = [np.flatnonzero(model == number) for number in present]
    first = of[0]
    alike = all(
        len(rows) == len(first)
        and all(np.array_equal(values[rows], values[first]) for values in varying.values())
        for rows in of[1:]
    )
    if alike:
        places = [np.arange(len(first))] * len(of)
        lead, count = first, len(first)
    else:
        keys = np.stack([codes(values)[0] for values in (model * 0, *varying.values())], axis=1)
        _, lead, index = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        rank = np.argsort(np.argsort(lead))  # configurations in the order of the file
        index, lead, count = rank[index.ravel()], np.sort(lead), len(lead)
        places = [index[rows] for rows in of]
        if any(len(np.unique(place)) < len(place) for place in places):
            notes.append(f"{path.name}: configurations that come twice are shown once, by their last row.")
    forecasts: dict[str, dict[str, np.ndarray]] = {}
    for number, rows, place in zip(present, of, places, strict=True):
        forecast = {name: _at(columns[name][rows], place, count) for name in OF_A_MODEL if name in columns}
        if REFIT in columns:  # the interval is of the refitted time
            interval = {name: forecast.pop(name) for name in ("low_s", "high_s") if name in forecast}
            forecasts[REFITTED] = {"time_s": _at(columns[REFIT][rows], place, count)} | interval
        if "time_s" in forecast:
            forecasts[model_names[number] or PREDICTED] = forecast
    for name, values in beside.items():
        forecasts[models[name]] = {"time_s": values[lead].astype(float)}
    facts = {name: columns[name][lead] for name in FACTS if name in columns}
    if "measured_s" in facts:
        forecasts[MEASURED] = {"time_s": facts["measured_s"].astype(float)}
    parameters = {name: values[lead] for name, values in varying.items()}
    if not parameters and not facts:
        parameters = {"configuration": np.arange(1, count + 1)}
    return ResultSpace(kernel, gpu, path.name, parameters, fixed, facts, _finite(forecasts))


def _finite(forecasts: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, dict[str, np.ndarray]]:
    """Infinite times, of what cannot run, become NaN."""

    def finite(values: np.ndarray) -> np.ndarray:
        if values.dtype == object:
            return values
        return np.where(np.isfinite(values), values, np.nan)

    return {
        model: {name: finite(values) for name, values in columns.items()}
        for model, columns in forecasts.items()
    }


def _at(values: np.ndarray, places: np.ndarray, count: int) -> np.ndarray:
    if len(values) == count and np.array_equal(places, np.arange(count)):
        return values
    full = np.full(count, None, object) if values.dtype == object else np.full(count, np.nan)
    full[places] = values
    return full


def _missing(values: np.ndarray) -> np.ndarray:
    return values == np.array(None, object) if values.dtype == object else np.isnan(values.astype(float))


def _whole(values: np.ndarray) -> np.ndarray:
    """Whole numbers that came as floats, as empty cells of other kernels make them."""
    whole = values.dtype.kind == "f" and np.isfinite(values).all() and np.all(values == np.floor(values))
    return values.astype(np.int64) if whole else values
