"""Explore spaces of configurations: sweep, search, tune, prune, and fit."""
