"""The kinds of files that tell of a kernel."""

import pytest

from dse import kernels
from dse.source.readers import Given, load


def test_a_described_kernel_by_name_or_file():
    described = kernels.load("reduction")
    assert load("reduction") == described == load(described.path)


@pytest.mark.parametrize("kernel", ["k", "ops::k<float, Mode::Add>", "ops::k<float*, -4>"])
def test_a_colon_parts_a_file_from_one_of_its_kernels(write, kernel: str):
    path = write("namespace ops { template <class T, int N> __global__ void k(T x) {} }\n")
    description = load(f"{path}:{kernel}", Given(block=(32,), grid=(1,)))
    assert description.build is not None
    assert description.build.kernel == kernel
