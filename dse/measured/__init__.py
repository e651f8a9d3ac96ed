"""Measured times of tuning spaces: readers of what tuners and profilers write, and how predictions score."""

from dse.measured.read import Measured, load, load_space

__all__ = ["Measured", "load", "load_space"]
