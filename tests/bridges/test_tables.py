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


def test_programs_read_what_is_written():
    pytest.importorskip("triton")
    by_json, by_csv, python = (form(style, "gemm").text(TABLE) for style in ("json", "csv", "triton"))
    sizes, configuration = {"m": 4096, "n": 64}, {"BLOCK": 128, "num_warps": 8}
    assert json.loads(by_json)[1] == {"size": sizes, "configuration": configuration, "time_s": 1e-3}
    rows = list(csv.DictReader(io.StringIO(by_csv)))
    assert [list(map(float, row.values())) for row in rows] == [list(row.values()) for row in TABLE.rows]
    names: dict = {}
    exec(python, names)
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
