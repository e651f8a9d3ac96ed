"""Triton's products of matrices, dense and of experts: times in closed form."""
