"""Hardware arithmetic of a launch: occupancy, coalescing, banks, costs of an access."""
