"""Kernels read from source without a GPU: compiled, executed for a few blocks, and counted."""
