"""Closed-form times of Triton's matrix products, dense and of experts."""
