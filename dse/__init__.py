"""Explore the launch configurations of GPU kernels: which are fast, by model, without a GPU.

A configuration becomes a kernel and a launch on a GPU, a model turns that into cycles, and the
rest (sweep, search, fit, report) is what one does with millions of those. Importing `dse` itself
loads nothing heavy; import the modules you use.
"""

from importlib.metadata import version

__version__ = version("gpu-dse")
