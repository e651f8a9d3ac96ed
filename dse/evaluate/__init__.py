"""Evaluate configurations × GPUs × models, and reduce the results to rankings, tables and scores."""
