"""Read a kernel's source for an NVIDIA GPU, and profile its configurations."""

from typing import Any

from dse.errors import DseError
from dse.kernels.description import Description
from dse.source.contract import Source
from dse.source.launches import build_of
from dse.source.nvidia.compile import nvrtc, triton, triton_cache
from dse.source.profiles import Profiler, Toolchain
from dse.types import Gpu


def source_of(description: Description) -> Any:  # a Source, whose compiler may be missing
    """Read the source file of a kernel for its compiler.

    **Raises:** DseError if it has none or cannot be read.
    """
    path, build = build_of(description)
    if path.is_dir():
        return triton_cache.read_source(path, build.kernel)
    if path.suffix == ".py":
        return triton.read_source(path, build.kernel, build.types, build.options)
    return nvrtc.read_source(path, build.kernel, options=build.options)


def architecture(gpu: Gpu, source: Source | None = None) -> int:
    """Return the architecture to compile for: 80 for a GPU of compute capability 8.0.

    **Raises:** DseError for one that the compiler of the source (default: NVRTC) does not know.
    """
    arch = int(gpu.compute_capability)
    known_ones = nvrtc.architectures() if source is None else source.architectures()
    if arch not in known_ones:
        lowest, highest = min(known_ones) / 10, max(known_ones) / 10
        compiler = nvrtc.compiler() if source is None else source.compiler
        raise DseError(
            f"gpu: compute capability: found {arch / 10 if arch else 'none'}, expected one from {lowest} to"
            f" {highest}, which {compiler} compiles for"
        )
    return arch


def _profiler() -> Profiler:
    from dse.source.nvidia.profiled import profiled  # some 30 modules, which counts from disk do not need

    return profiled


CUDA = Toolchain(source_of, architecture, _profiler)
