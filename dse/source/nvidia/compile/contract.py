"""What compiling a kernel for an NVIDIA GPU gives."""

from dataclasses import dataclass

from dse.source.contract import Launched
from dse.source.nvidia.sass.elf import Binary
from dse.source.nvidia.sass.listing import Listing


@dataclass(frozen=True)
class Compiled:
    """One configuration of a kernel, compiled."""

    binary: Binary
    cubin: bytes
    ptx: str | None
    log: str  # warnings
    compiler: str  # and its version
    spill_bytes: int | None  # that one thread's spilled registers move if each such instruction runs once
    adds_shared: bool = False  # whether it uses shared memory whose size only the launch says
    listing: Listing | None = None  # in the place of code
    launched: Launched | None = None  # how it is launched, where its compiler decides that
