"""Compress the columns of a page: dictionary encoding of columns with few values, then deflate."""

import base64
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from dse.data.results.space import ResultSpace, codes

FEW = 256  # values encoded in one byte
MANY = 65_536  # and in two bytes
KEPT_BITS = 14  # of a float's 23: errors up to 3e-5, below the four digits shown
UNITS = {"shared_bytes": "B", "dram_bytes": "B"}


def packed(space: ResultSpace, more: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Pack the columns of a space and `more`: `columns` describes their layout, `blob` is base64.

    Bytes are stored in planes (all first bytes of a column, then all second ones), which compresses better.
    A column of a model is named `time_s|phase`.
    """
    arrays: dict[str, np.ndarray] = dict(space.parameters) | dict(space.facts) | dict(more)
    for model, columns in space.forecasts.items():
        arrays |= {f"{name}|{model}": values for name, values in columns.items() if name != "cycles"}
    described, planes = [], []
    for name, values in arrays.items():
        column, array = _column(values, grid=name in space.parameters)
        quantity = name.partition("|")[0]
        unit = "s" if quantity.endswith("_s") else UNITS.get(quantity)
        described.append({"name": name, "unit": unit} | column)
        planes.append(array.view(np.uint8).reshape(len(array), -1).T.tobytes())
    blob = zlib.compress(b"".join(planes), 6)
    return {"columns": described, "blob": base64.b64encode(blob).decode()}


def _column(values: np.ndarray, grid: bool) -> tuple[dict[str, Any], np.ndarray]:
    """Choose the encoding of a column. A parameter with few values keeps them exactly, in order."""
    if values.dtype == object:
        index, names = codes(values)
        if len(names) > MANY:
            index, names = np.minimum(index, MANY - 1), [*names[: MANY - 1], "…"]
        order = sorted(range(len(names)), key=lambda i: (names[i] is None, str(names[i])))
        rank = np.argsort(order)
        width = np.uint8 if len(names) <= FEW else np.uint16
        names = [names[i] if names[i] is None else str(names[i]) for i in order]
        return {"type": _TYPES[width], "word": True, "values": names}, rank[index].astype(width)
    values = values.astype(np.int64) if values.dtype == bool else values
    distinct = np.unique(values) if grid or len(values) > FEW else np.empty(FEW + 1)
    if len(distinct) <= FEW:
        index = np.searchsorted(distinct, values)
        numbers = [None if isinstance(x, float) and not np.isfinite(x) else x for x in distinct.tolist()]
        return {"type": "u1", "values": numbers}, index.astype(np.uint8)
    if np.issubdtype(values.dtype, np.integer) and np.abs(values).max() < 2**31:
        return {"type": "i4"}, values.astype("<i4")
    return {"type": "f4"}, _short(values.astype("<f4"))


def _short(values: np.ndarray) -> np.ndarray:
    """Round floats to `KEPT_BITS` of their fraction; equal ones stay equal."""
    dropped = 23 - KEPT_BITS
    bits = values.view("<u4")
    rounded = (bits + np.uint32(1 << (dropped - 1))) & np.uint32(~((1 << dropped) - 1) & 0xFFFFFFFF)
    return np.where(np.isfinite(values), rounded, bits).astype("<u4").view("<f4")


_TYPES = {np.uint8: "u1", np.uint16: "u2"}
