"""Kernels read from CUDA source, without a GPU: compiled, executed for a few blocks, and counted.

The result is a `Kernel`, as from a description, so models cannot distinguish the two.
"""
