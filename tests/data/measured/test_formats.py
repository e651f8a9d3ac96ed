"""Measured files before their format is known, and the table of formats."""

import gzip
from pathlib import Path

import pytest

from dse.data.measured.file import File
from dse.data.measured.formats import FORMATS, read
from dse.errors import DseError


def test_each_format_has_a_name_of_its_own():
    names = [form.name for form in FORMATS]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_is_read_no_further_than_it_may_be(tmp_path, packed):
    path = tmp_path / "a.csv"
    content = b"0" * 1_000
    path.write_bytes(gzip.compress(content) if packed else content)
    assert File.of(path, 1_000).content == content
    path.write_bytes(gzip.compress(content + b"0") if packed else content + b"0")
    with pytest.raises(DseError, match=r"a\.csv: found more than 1,000 bytes, expected a smaller file"):
        File.of(path, 1_000)


def test_a_file_without_end():
    with pytest.raises(DseError, match=r"^/dev/zero: found more than"):
        File.of(Path("/dev/zero"), 1 << 20)


def test_neither_suffix_nor_packing_matters(tmp_path):
    (tmp_path / "times.log").write_bytes(gzip.compress(b"x,time_ms\n1,2\n1,3\n"))
    table = read(tmp_path / "times.log")
    assert (table.numbers("x").tolist(), table.numbers("time_ms").tolist()) == ([1, 1], [2, 3])
