"""Triton's metadata of a compiled kernel, in memory and in the .json file beside its code."""

import re
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field

from dse.core.files import read_json
from dse.core.validate import checked

Count = Annotated[int, Field(ge=0, lt=2**31)]
Options = Annotated[Count, BeforeValidator(lambda value: 0 if value is None else value)]  # 0: unset


_AMD = 0x700  # the lowest number of an AMD target, which no compute capability reaches


def _numbered(arch: object) -> object:
    """Return a target's number: `arch` is one for NVIDIA, and gfx942 or gfx942:sramecc+ for AMD."""
    match = re.match(r"gfx([0-9a-f]{3,4})(?:[:]|$)", str(arch))
    return int(match[1], 16) if match else arch


Architecture = Annotated[Count, BeforeValidator(_numbered)]


class Box(BaseModel):
    """The box that one copy by a tensor descriptor moves."""

    block_size: tuple[Annotated[int, Field(ge=1, le=256)], ...]  # elements along each axis
    swizzle: Count = 0  # layout of the bytes in shared memory, by the driver's number


class CompileTarget(BaseModel):
    """The GPU that code was compiled for."""

    arch: Architecture  # 80 for sm_80, 0x942 for gfx942

    def __str__(self) -> str:
        """Its usual name."""
        return f"gfx{self.arch:x}" if self.arch >= _AMD else f"sm_{self.arch}"


class LaunchMetadata(BaseModel):
    """The launch of compiled code, under Triton's names."""

    name: str
    num_warps: Annotated[int, Field(ge=1, le=64)]
    warp_size: Annotated[int, Field(ge=32, le=64)] = 32
    num_stages: Options = 0
    num_ctas: Annotated[int, Field(ge=1, le=16)] = 1
    maxnreg: Options = 0
    waves_per_eu: Options = 0
    matrix_instr_nonkdim: Options = 0
    kpack: Options = 0
    shared: Count  # bytes of a block
    global_scratch_size: Options = 0  # bytes of device memory, for each block
    tensordesc_meta: Annotated[tuple[Box, ...], BeforeValidator(lambda value: value or ())] = ()
    triton_version: str = ""


class Metadata(LaunchMetadata):
    """The metadata of compiled code in a file, which also names the GPU."""

    target: CompileTarget


def read(path: Path) -> Metadata:
    """Read such a .json file. **Raises:** DseError, one line, if there is none or it is malformed."""
    return checked(Metadata, read_json(path), f"{path}")
