"""Adapters to other tuners: Kernel Tuner, Triton, Optuna. All that a tuner touches, a file for each."""
