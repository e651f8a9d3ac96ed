"""The table of formats: which one a file is, its content says."""

import gzip

import pytest

from dse.data.measured import formats
from dse.data.measured.formats import MeasuredFormat, read
from dse.data.table import Table
from dse.errors import DseError


def test_each_format_has_a_name_of_its_own():
    names = [form.name for form in formats.FORMATS]
    assert len(names) == len(set(names))


def test_an_object_of_no_format(tmp_path):
    path = tmp_path / "file.json"
    path.write_text('{"rows": [], "b": 1}')
    expected = r"'cache' \(Kernel Tuner\), 'Results' \(KTT\) or 'results' \(T4\)$"
    with pytest.raises(DseError, match=f"file.json: top level: found rows, b, expected {expected}"):
        read(path)


def test_another_format_is_a_row(tmp_path, monkeypatch):
    """A reader makes a table of a file; neither its suffix nor gzip matters to it."""

    def lines(file):
        return Table.of_rows(file.path, [{"x": 1, "time_ms": float(line)} for line in file.text.split()[1:]])

    bare = MeasuredFormat("bare times", lambda file: file.text.startswith("times:"), lines)
    monkeypatch.setattr(formats, "FORMATS", (bare, *formats.FORMATS))
    path = tmp_path / "times.log"
    path.write_bytes(gzip.compress(b"times: 2 3"))
    table = read(path)
    assert (table.numbers("x").tolist(), table.numbers("time_ms").tolist()) == ([1, 1], [2, 3])
