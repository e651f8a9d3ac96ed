"""Times and best configurations of Triton's matrix products, dense and of experts, in closed form."""
