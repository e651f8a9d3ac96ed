"""Runs on a real GPU: microbenchmarks, and the configurations of our kernels, timed and checked."""
