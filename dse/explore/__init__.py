"""Exploration of spaces of configurations: sweep, search, tune, prune, and fit."""
