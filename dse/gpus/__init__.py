"""GPU files: one TOML a GPU, each value with its unit and source, read, checked and written."""

from dse.gpus.read import GpuFile, Header, Record, find, headers, load, names, stack

__all__ = ["GpuFile", "Header", "Record", "find", "headers", "load", "names", "stack"]
