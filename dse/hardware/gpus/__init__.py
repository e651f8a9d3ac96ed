"""GPU files: one TOML a GPU, each value with its unit and source, read, checked and written."""

from dse.hardware.gpus.names import find, known, names
from dse.hardware.gpus.read import Fact, GpuFile, Header, column, headers, load, stack

__all__ = ["Fact", "GpuFile", "Header", "column", "find", "headers", "known", "load", "names", "stack"]
