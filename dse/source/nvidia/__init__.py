"""Kernels read from CUDA source, without a GPU: compiled, executed for a few blocks, and counted.

The result is the same `Kernel` that a description gives, so no model can tell the two apart.
"""
