"""Configurations × GPUs × models: the one place with `jit`."""
