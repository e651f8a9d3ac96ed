"""Machine code run without a GPU: what addresses and branches depend on, loops skipped where exact."""
