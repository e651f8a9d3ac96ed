"""The kinds of files that tell of a kernel."""

from dse import kernels
from dse.source.readers import load


def test_a_described_kernel_by_name_or_file():
    described = kernels.load("reduction")
    assert load("reduction") == described == load(described.path)
