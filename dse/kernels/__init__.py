"""Described kernels: a folder with a kernel.toml each, whose expressions count the work of a warp."""

from dse.kernels.find import FILE, find, known, load, names, variants

__all__ = ["FILE", "find", "known", "load", "names", "variants"]
