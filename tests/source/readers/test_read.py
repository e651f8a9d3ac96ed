"""The kinds of files that tell of a kernel."""

import pytest

from dse import kernels
from dse.errors import DseError
from dse.source.readers import load


def test_a_described_kernel_by_name_or_file():
    described = kernels.load("reduction")
    assert load("reduction") == described == load(described.path)


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("")
    expected = r"expected one of \.cu, \.cuh, \.hip, \.ptx, \.cubin, \.sass, \.py \(Triton\), \.json \(T1, or"
    with pytest.raises(DseError, match=rf"notes.txt: suffix: found '.txt', {expected}"):
        load(path)
