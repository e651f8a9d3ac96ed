"""Triton's products of matrices (dense, of experts, block-scaled): times and best configurations, closed form."""
