"""What hardware does with a launch, as arithmetic: occupancy, coalescing, banks, costs of an access."""
