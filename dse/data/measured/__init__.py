"""Measured times of tuning spaces: a reader for each format, and how predictions score against them."""

from dse.data.measured.read import Measured, load, load_space

__all__ = ["Measured", "load", "load_space"]
