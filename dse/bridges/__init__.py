"""Adapters to tuners and compilers of others: all that one of them touches is in one file each."""
