"""Runs the waves of a few blocks through AMDGCN code, as vectors: what addresses and branches depend on."""
