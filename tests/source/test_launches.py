"""What the shipped kernels are launched with is what their descriptions count by."""

import numpy as np
import pytest

from dse import kernels
from dse.hardware import gpus
from dse.kernels.description import evaluated_names
from dse.source.launches import configurations

GPU = gpus.load("a100-pcie-40gb").gpu
KERNELS = {name: kernels.load(name) for name in kernels.names()}
SOURCES = [name for name, kernel in KERNELS.items() if kernel.build is not None and kernel.described]


@pytest.mark.parametrize("name", SOURCES)
def test_shapes_of_the_shipped_kernels_are_as_described(name: str):
    kernel = kernels.load(name)
    columns = {key: values[::7] for key, values in kernel.space.configurations(kernel.sizes()).items()}
    launched = configurations(kernel, columns, kernel.sizes(), GPU)
    described = evaluated_names(kernel, columns, kernel.sizes(), GPU)
    for field, shape in (("threads", "block"), ("blocks", "grid")):
        products = [np.prod(getattr(each, shape)) for each in launched]
        np.testing.assert_array_equal(products, np.broadcast_to(described[field], len(launched)))
