"""Configurations estimated from a few compiled ones: which to compile, and what the others are like."""
