"""The kinds of files that tell of a kernel."""

import os
from dataclasses import replace

import pytest

from dse import kernels
from dse.errors import DseError
from dse.source.readers import Given, load, read


def test_a_described_kernel_by_name_or_file():
    described = kernels.load("reduction")
    assert load("reduction") == described == load(described.path)


def test_a_name_in_a_current_folder_without_rights(monkeypatch):
    look = os.stat

    def refused(path, **options):
        if not os.path.isabs(path):
            raise PermissionError(13, "Permission denied", path)
        return look(path, **options)

    monkeypatch.setattr(os, "stat", refused)
    assert load("reduction").name == "reduction"


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("")
    expected = r"expected one of \.cu, \.cuh, \.hip, \.ptx, \.cubin, \.sass, \.py \(Triton\), \.json \(T1, or"
    with pytest.raises(DseError, match=rf"notes.txt: suffix: found '.txt', {expected}"):
        load(path)


def test_another_kind_of_file_is_a_row(tmp_path, monkeypatch):
    """What a front door for another language takes: a function of a path and what is given."""

    def another(path, given):
        return replace(kernels.load("reduction"), name=f"{path.stem} {given.function}")

    monkeypatch.setattr(read, "KINDS", (*read.KINDS, read.Kind((".metal",), another)))
    assert load(tmp_path / "softmax.METAL", Given(function="row")).name == "softmax row"
