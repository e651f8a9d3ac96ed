"""Microbenchmarks: raw recordings on a GPU, from which λ, Λ and bandwidths become a GPU file."""
