"""Configurations × GPUs × models, reduced to rankings, tables and scores."""
