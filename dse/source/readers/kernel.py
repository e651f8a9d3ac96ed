"""Load a kernel of any kind as counts of its configurations."""

from pathlib import Path

from dse.errors import DseError
from dse.kernels.counts import Counts
from dse.kernels.description import Description
from dse.source.readers.given import Given
from dse.source.readers.read import load


def kernel(
    name: str | Path, given: Given | None = None, *, source: bool = False, compiled: int | None = None
) -> Counts:
    """Load a kernel by name or file, see `load`, with counts from its description or its source.

    **Raises:** DseError as `load` and `counts_of`.
    """
    return counts_of(load(name, given), source, compiled)


def counts_of(description: Description, source: bool = False, compiled: int | None = None) -> Counts:
    """Count a kernel from its source if `source`, or if it has no other description.

    `compiled` configurations are compiled, and the others estimated from them; None: all are compiled.

    **Raises:** DseError if `compiled` is given for a kernel that is not read from source.
    """
    if not description.described or source:
        from dse.source.kernel import SourceKernel
        from dse.source.toolchain import toolchain

        return SourceKernel(description, compiled, toolchain=toolchain)
    if compiled is not None:
        raise DseError(f"compile: found {compiled} without source, expected both")
    return description
