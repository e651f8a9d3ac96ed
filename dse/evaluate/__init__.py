"""Configurations × GPUs × models, reduced to rankings, tables and scores: the one place with `jit`."""
