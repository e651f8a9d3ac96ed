"""Searches of spaces that are too large to sweep, and of variants against one another, by Optuna."""
