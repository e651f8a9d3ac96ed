"""What Triton says of a kernel that it has compiled: of it in memory, and in the .json beside a cubin."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field

from dse.core.files import read_json
from dse.core.validate import checked

Count = Annotated[int, Field(ge=0, lt=2**31)]
Options = Annotated[Count, BeforeValidator(lambda value: 0 if value is None else value)]  # unset is 0


class Box(BaseModel):
    """What one copy by a tensor descriptor takes."""

    block_size: tuple[Annotated[int, Field(ge=1, le=256)], ...]  # elements along each axis
    swizzle: Count = 0  # how the bytes lie in shared memory, by the driver's number


class Target(BaseModel):
    """The GPU that it is for."""

    arch: Count  # 80 for sm_80


class LaunchMetadata(BaseModel):
    """How compiled code is launched, under Triton's own names."""

    name: str
    num_warps: Annotated[int, Field(ge=1, le=64)]
    warp_size: Annotated[int, Field(ge=32, le=64)] = 32
    num_stages: Options = 0
    num_ctas: Annotated[int, Field(ge=1, le=16)] = 1
    maxnreg: Options = 0
    shared: Count  # bytes of a block
    global_scratch_size: Options = 0  # bytes of device memory, for each block
    tensordesc_meta: Annotated[tuple[Box, ...], BeforeValidator(lambda value: value or ())] = ()
    triton_version: str = ""
    hash: str = ""


class Metadata(LaunchMetadata):
    """The metadata of compiled code in a file, which names the GPU, too."""

    target: Target


def read(path: Path) -> Metadata:
    """Read such a .json. **Raises:** DseError, one line, if there is none or it has another form."""
    return checked(Metadata, read_json(path), f"{path}")
