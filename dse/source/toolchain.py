"""Chooses what compiles and counts a kernel for a GPU: CUDA's compilers for NVIDIA's, clang for AMD's."""

from dse.source.amd.source import AMD
from dse.source.kernel import CUDA, Toolchain
from dse.types import Gpu


def toolchain(gpu: Gpu) -> Toolchain:
    """Return the one of a GPU, whose fields are scalars."""
    return AMD if int(gpu.gfx) else CUDA
