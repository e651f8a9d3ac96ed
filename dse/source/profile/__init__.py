"""What a launch does, of either vendor: one warp alone, and counts of the average block by phase."""
