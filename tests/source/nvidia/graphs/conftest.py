"""Stored kernels run once for all files about graphs."""

import numpy as np
import pytest
from support.sass_code import bound, launched

from dse.source.nvidia.machine.state import Machine

ROWS = np.cumsum([0, *np.random.default_rng(3).integers(0, 9, 64)]).astype(np.int32)
COLUMNS = np.arange(ROWS[-1], dtype=np.int32) * 7 % 64
LAUNCHES = {
    "nbody": (4, 256, None, None, 1024),  # two loops, one in the other, and barriers
    "walk": (3, (32, 4, 1), None, None, 500),
    "transpose_conflicts": ((4, 4, 1), (32, 8, 1), None, None, 128),  # no loop
    "scan": (2, 128, np.zeros(256, np.int32), None),
    "divergent": (2, 96, None, None, 17),
    "calls": (1, 64, None, 17),
    "spmv": (1, 64, ROWS, COLUMNS, None, None, None, 64),
}


@pytest.fixture(scope="session")
def machines() -> dict[str, Machine]:
    return {name: launched(bound(name), *launch) for name, launch in LAUNCHES.items()}


@pytest.fixture(params=LAUNCHES)
def name(request: pytest.FixtureRequest) -> str:
    return request.param
