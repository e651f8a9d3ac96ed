"""Kernels read from source for AMD GPUs, without a GPU or ROCm: compiled, executed and counted."""
