"""Measured times of tuning spaces: a reader for each format."""

from dse.data.measured.read import Measured, load, load_space

__all__ = ["Measured", "load", "load_space"]
