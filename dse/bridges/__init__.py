"""Adapters to other tuners and compilers, one file each."""
