"""Every way in which a kernel comes in: by name, as kernel.toml, T1 problem, CUDA source or machine code."""

from dse.sources.given import Given
from dse.sources.kernel import counts_of, kernel
from dse.sources.read import load

__all__ = ["Given", "counts_of", "kernel", "load"]
