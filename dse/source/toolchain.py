"""Choose the tools that compile and count a kernel: CUDA's compilers for NVIDIA GPUs, clang for AMD's."""

from dse.source.nvidia.source import CUDA
from dse.source.profiles import Toolchain
from dse.types import Gpu


def toolchain(gpu: Gpu) -> Toolchain:
    """Return the toolchain of a GPU with scalar fields."""
    if not int(gpu.gfx):
        return CUDA
    from dse.source.amd.source import AMD  # some 30 modules

    return AMD
