"""GPU files: one TOML a GPU, each value with its unit and source, read, checked and written."""

from dse.hardware.gpus.read import Fact, GpuFile, Header, column, find, headers, load, names, stack

__all__ = ["Fact", "GpuFile", "Header", "column", "find", "headers", "load", "names", "stack"]
