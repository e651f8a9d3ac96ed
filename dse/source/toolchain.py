"""Chooses what compiles and counts a kernel for a GPU: CUDA's compilers for NVIDIA's, clang for AMD's."""

from dse.source.nvidia.source import CUDA
from dse.source.profiles import Toolchain
from dse.types import Gpu


def toolchain(gpu: Gpu) -> Toolchain:
    """Return the one of a GPU, whose fields are scalars."""
    if not int(gpu.gfx):
        return CUDA
    from dse.source.amd.source import AMD  # some 30 modules

    return AMD
