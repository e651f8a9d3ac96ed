"""Draws results, computes none."""
