"""Described kernels: a folder with a kernel.toml each, of which expressions count what a warp does."""

from dse.kernels.find import FILE, find, known, names, summaries, variants
from dse.kernels.read import load

__all__ = ["FILE", "find", "known", "load", "names", "summaries", "variants"]
