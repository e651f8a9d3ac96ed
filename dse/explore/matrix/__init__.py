"""Triton's products of matrices, dense and of experts: times and best configurations, in closed form."""
