"""The result of compiling a kernel for an NVIDIA GPU."""

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
    spill_bytes: int | None  # moved by a thread's spills if each such instruction runs once
    adds_shared: bool = False  # whether it uses dynamic shared memory
    listing: Listing | None = None  # instead of code
    launched: Launched | None = None  # how it is launched, if its compiler decides that
