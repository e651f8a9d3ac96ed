"""Search spaces that are too large to sweep, and compare variants, with Optuna."""
