"""Adapters to other tuners: all that Kernel Tuner, Triton, Optuna or KTT touches, one file each."""
