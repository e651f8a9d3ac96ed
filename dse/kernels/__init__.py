"""Described kernels: a folder with a kernel.toml each, of which expressions count what a warp does."""

from dse.kernels.read import FILE, find, load, names, summaries, variants

__all__ = ["FILE", "find", "load", "names", "summaries", "variants"]
