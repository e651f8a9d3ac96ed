"""A space cut down to the configurations of a file."""

import pytest

from dse import kernels
from dse.data.measured.listed import is_table, with_configurations
from dse.errors import DseError


def configurations(description):
    actual = description.space.configurations(dict(description.problem))
    return set(zip(*(column.tolist() for column in actual.values()), strict=True))


def test_only_what_is_listed_is_left(toy_kernel, tmp_path):
    """A parameter that is not listed keeps its values."""
    description, path = kernels.load(toy_kernel), tmp_path / "few.csv"
    path.write_text("items,block\n1,64\n2,128\n2,64\n")
    assert configurations(with_configurations(description, path)) == {(64, 1), (128, 2), (64, 2)}
    path = tmp_path / "few.json"
    path.write_text('[{"block": 64}, {"block": 128}]')
    assert is_table(path)
    some = configurations(with_configurations(description, path))
    assert some == {row for row in configurations(description) if row[0] in (64, 128)}
    path.write_text('{"ConfigurationSpace": {}}')  # a T1 problem
    assert not is_table(path)


def test_rows_of_other_kernels_are_passed_over(toy_kernel, tmp_path):
    description, path = kernels.load(toy_kernel), tmp_path / "found.csv"
    path.write_text("kernel,block,items\ntoy,64,1\nother,128,1\n")
    assert configurations(with_configurations(description, path)) == {(64, 1)}
    path.write_text("kernel,block,items\nother,128,1\n")
    with pytest.raises(DseError, match=r"found\.csv: kernel: found other, expected toy"):
        with_configurations(description, path)


def test_mistakes(toy_kernel, tmp_path):
    description, path = kernels.load(toy_kernel), tmp_path / "few.csv"
    path.write_text("blok,item\n1,64\n")
    with pytest.raises(DseError, match=r"few\.csv: columns: found none of block, items, expected them"):
        with_configurations(description, path)
    path.write_text("block,items\n64,\n")
    with pytest.raises(DseError, match=r"items, row 1: found an empty cell"):
        with_configurations(description, path)
