"""Tables of the best configuration by size, read again as programs read them."""

import csv
import importlib.util
import io
import json
import sys
from types import ModuleType, SimpleNamespace

import pytest

from dse.bridges.size_table import text
from dse.errors import DseError

SIZES, PARAMETERS = ("m", "n"), ("BLOCK", "num_warps")
ROWS = [
    {"m": 1, "n": 64, "BLOCK": 16, "num_warps": 2, "time_s": 1e-6},
    {"m": 4096, "n": 64, "BLOCK": 128, "num_warps": 8, "time_s": 1e-3},
]


def test_json():
    table = json.loads(text(ROWS, SIZES, PARAMETERS, "json"))
    assert table[1] == {
        "size": {"m": 4096, "n": 64},
        "configuration": {"BLOCK": 128, "num_warps": 8},
        "time_s": 1e-3,
    }


def test_csv():
    rows = list(csv.DictReader(io.StringIO(text(ROWS, SIZES, PARAMETERS, "csv"))))
    assert [list(map(float, row.values())) for row in rows] == [list(row.values()) for row in ROWS]


def test_python_for_triton(monkeypatch):
    if importlib.util.find_spec("triton") is None:
        triton = ModuleType("triton")
        vars(triton)["Config"] = lambda kwargs, num_warps: SimpleNamespace(kwargs=kwargs, num_warps=num_warps)
        monkeypatch.setitem(sys.modules, "triton", triton)
    names: dict = {}
    exec(text(ROWS, SIZES, PARAMETERS, "triton"), names)
    assert list(names["configs"]) == [(1, 64), (4096, 64)]
    found = names["nearest"](m=1000, n=64)
    assert (found.kwargs, found.num_warps) == ({"BLOCK": 128}, 8)


def test_another_style():
    with pytest.raises(DseError, match="format: found 'yaml', expected one of json, csv, triton"):
        text(ROWS, SIZES, PARAMETERS, "yaml")
