"""Tables of configurations by size, read again as programs read them."""

import csv
import importlib.util
import io
import json

import pytest

from dse.bridges.tables import FORMATS, PRODUCT, BestConfigurations, form

ROWS = [
    {"m": 1, "n": 64, "BLOCK": 16, "num_warps": 2, "time_s": 1e-6},
    {"m": 4096, "n": 64, "BLOCK": 128, "num_warps": 8, "time_s": 1e-3},
]
TABLE = BestConfigurations(
    "gemm", "NVIDIA RTX A4000", ("m", "n"), ("BLOCK", "num_warps"), [[row] for row in ROWS]
)


def text(style: str) -> str:
    return form(style, "gemm").text(TABLE)


def test_json():
    sizes, configuration = {"m": 4096, "n": 64}, {"BLOCK": 128, "num_warps": 8}
    assert json.loads(text("json"))[1] == {"size": sizes, "configuration": configuration, "time_s": 1e-3}


def test_csv():
    rows = list(csv.DictReader(io.StringIO(text("csv"))))
    assert [list(map(float, row.values())) for row in rows] == [list(row.values()) for row in TABLE.rows]


def test_python_for_triton():
    pytest.importorskip("triton")
    names: dict = {}
    exec(text("triton"), names)
    assert list(names["configs"]) == [(1, 64), (4096, 64)]
    nearest = names["nearest"](m=1000, n=64)
    assert (nearest.kwargs, nearest.num_warps) == ({"BLOCK": 128}, 8)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_has_a_reader_and_a_writer(name):
    actual = FORMATS[name]
    if actual.write is None:
        writer = importlib.import_module(actual.module)
        assert callable(getattr(writer, "text", None) or writer.configuration)
    assert actual.reader
    assert actual.first == 1 or (actual.several and PRODUCT in actual.kernels)
