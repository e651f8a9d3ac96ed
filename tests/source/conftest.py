"""Small launches of listed kernels, of which several files look at what goes past the caches; and files."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from support.sass_code import bound

from dse.source.caches.cache_model import Caches, Traffic, misses
from dse.source.machine.blocks import Sample, representative
from dse.source.machine.launch import LaunchArguments
from dse.source.nvidia.execute.interpret import run
from dse.source.nvidia.machine.state import Machine

LAUNCHES = {
    "vector_add": LaunchArguments((40, 1, 1), (256, 1, 1), (None, None, None, 10**6)),
    "strided_copy": LaunchArguments((40, 1, 1), (128, 1, 1), (None, None, 10**6, 3)),
    "transpose_padded": LaunchArguments((8, 8, 1), (32, 8, 1), (None, None, 256)),
    "grid_stride": LaunchArguments((8, 1, 1), (128, 1, 1), (None, None, 50_000)),
    "walk": LaunchArguments((3, 1, 1), (32, 4, 1), (None, None, 1000)),
    "nbody": LaunchArguments((8, 1, 1), (256, 1, 1), (None, None, 2048)),
    "local_array": LaunchArguments((8, 1, 1), (64, 1, 1), (None, None, 4)),
}


@cache
def _run(kernel: str, every: bool) -> tuple[Machine, Sample]:
    launch = LAUNCHES[kernel]
    sample = representative(launch.grid, inside=max(launch.grid) if every else 1)
    return run(bound(kernel), launch, sample.blocks), sample


class Launched:
    """Kernels by name, each run once."""

    launches = LAUNCHES
    bound = staticmethod(bound)

    def __call__(self, kernel: str, every: bool = False) -> tuple[Machine, Sample]:
        """`every` block of the grid, or those that stand for all."""
        return _run(kernel, every)

    def traffic(self, kernel: str, caches: Caches) -> Traffic:
        return sum(misses(*self(kernel), caches).values(), Traffic())

    def touched(self, machine: Machine, place: int, way: str) -> set[int]:
        """Sectors of global memory, one thread at a time."""
        actual = set()
        for stream in machine.streams:
            step = machine.program.steps[stream.step]
            if step.opcode.startswith("ST") == (way == "store"):
                base = np.broadcast_to(stream.base, machine.shape)[place]
                mask = np.broadcast_to(stream.lanes.mask, machine.shape)[place]
                for address in base[mask].tolist():
                    for start in (address + stream.offsets()).tolist():
                        actual.update(range(start // 32, (start + step.bytes - 1) // 32 + 1))
        return actual


@pytest.fixture(scope="session")
def launched() -> Launched:
    return Launched()


@pytest.fixture(params=LAUNCHES)
def kernel(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """`write(text)`: a file with this text."""

    def write(text: str, name: str = "k.cu") -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    return write
