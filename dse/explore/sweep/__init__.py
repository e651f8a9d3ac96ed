"""Sweeps of kernels × problem sizes × GPUs × launches, reduced or written as they stream, on many cores."""
