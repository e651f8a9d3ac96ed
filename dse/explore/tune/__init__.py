"""Find the fastest configuration with few measurements: measure, refit, choose the next."""
