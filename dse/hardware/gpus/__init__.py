"""GPU files: one TOML a GPU, each value with its unit and source, read, checked and written."""

from dse.hardware.gpus.read import Fact, GpuFile, Header, column, load, stack
from dse.hardware.gpus.table import find, known, names

__all__ = ["Fact", "GpuFile", "Header", "column", "find", "known", "load", "names", "stack"]
