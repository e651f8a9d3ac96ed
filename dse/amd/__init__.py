"""Kernels read from source for AMD GPUs, without GPU and ROCm: compiled, executed for a few blocks, counted."""
