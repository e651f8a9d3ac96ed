"""Readers of kernels: by name, from kernel.toml, T1 problems, CUDA source or machine code."""

from dse.source.readers.given import Given
from dse.source.readers.kernel import counts_of, kernel
from dse.source.readers.read import load

__all__ = ["Given", "counts_of", "kernel", "load"]
