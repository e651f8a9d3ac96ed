"""Compile Triton kernels to AMDGPU assembly, with the AMD backend in Triton's package."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dse.core.files import read_text
from dse.errors import DseError
from dse.source.amd.compile.source import Built, without_debug
from dse.source.contract import Launched
from dse.source.nvidia.compile import nvrtc, triton, triton_cache
from dse.source.nvidia.compile.absent import Platform

# Targets whose matrix instructions Triton's backend supports, and RDNA2, which has none.
TARGETS = (0x908, 0x90A, 0x942, 0x950, 0x1030, 0x1032, 0x1100, 0x1101, 0x1102, 0x1150, 0x1151, 0x1200, 0x1201)


@dataclass(frozen=True)
class HipTritonSource(triton.TritonSource):
    """A Triton kernel, to be compiled for AMD GPUs."""

    platform = Platform("hip", 64)

    def architectures(self) -> tuple[int, ...]:
        """List the targets it can be compiled for: 0x942 for gfx942."""
        return TARGETS

    def target(self, arch: int) -> triton.Target:
        """Return what Triton compiles for: gfx`arch`, with line information."""
        return triton.Target("hip", f"gfx{arch:x}", 64 if arch < 0x1000 else 32, triton.HIP_OPTIONS, "amdgcn")

    def made(self, code: bytes, launched: Launched) -> Built:
        """Return compiled code and its launch without debug information."""
        return Built(without_debug(code.decode()), self.compiler, launched)


@dataclass(frozen=True)
class HipTritonCache(triton_cache.TritonCache):
    """A folder of Triton's cache for AMD GPUs."""

    suffix = triton_cache.CODE[1]

    def made(self, code: Path, launched: Launched) -> Built:
        """Read assembly."""
        text = read_text(code, nvrtc.MOST_BYTES)
        if ".amdgcn_target" not in text:
            raise DseError(f"{code}: found no .amdgcn_target, expected assembly of Triton's AMD backend")
        return Built(without_debug(text), self.compiler, launched)


def read_folder(path: Path, kernel: str = "") -> HipTritonCache:
    """Read a folder of Triton's cache, as `dse.source.nvidia.compile.triton_cache.read_source` does."""
    return HipTritonCache(**vars(triton_cache.read_source(path, kernel)))


HipTriton = HipTritonSource | HipTritonCache


def read_source(
    path: Path, kernel: str = "", types: Sequence[str] = (), options: Sequence[str] = ()
) -> HipTritonSource:
    """Find a kernel of a Python file, as `dse.source.nvidia.compile.triton.read_source` does."""
    made = triton.read_source(path, kernel, types, options, HipTritonSource.platform)
    return HipTritonSource(**vars(made))
