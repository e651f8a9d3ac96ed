"""Kernels read from source for AMD GPUs, without a GPU and without ROCm: compiled, executed for a few blocks, counted."""
