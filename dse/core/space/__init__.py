"""Tuning spaces: parameters, constraints, and their expression language."""

from dse.core.space.expression import Expression, parse
from dse.core.space.space import Space, values_of

__all__ = ["Expression", "Space", "parse", "values_of"]
