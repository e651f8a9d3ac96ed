"""Measured files before their format is known."""

import gzip
from pathlib import Path

import pytest

from dse.data.measured.file import File
from dse.data.measured.formats import read
from dse.errors import DseError


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_is_read_no_further_than_it_may_be(tmp_path, packed):
    path = tmp_path / "a.csv"
    content = b"0" * 1_000
    path.write_bytes(gzip.compress(content) if packed else content)
    assert File.of(path, 1_000).content == content
    path.write_bytes(gzip.compress(content + b"0") if packed else content + b"0")
    with pytest.raises(DseError, match=r"a\.csv: found more than 1,000 bytes, expected a smaller file"):
        File.of(path, 1_000)


def test_a_packed_file_that_is_cut_off_is_one_line(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"block,time_ms\n64,1\n" * 100)[:-9])
    with pytest.raises(DseError, match=r"a\.csv\.gz: cannot read: "):
        read(path)


def test_what_has_no_end():
    with pytest.raises(DseError, match=r"^/dev/zero: found more than"):
        File.of(Path("/dev/zero"), 1 << 20)
