"""Microbenchmarks: recorded on a GPU, kept as they are, and from them λ, Λ and bandwidths as a GPU file."""
