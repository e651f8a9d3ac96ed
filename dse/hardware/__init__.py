"""Hardware rules: occupancy, coalescing, bank conflicts and memory costs; GPU files."""
