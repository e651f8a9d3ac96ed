"""What a launch does, counted: the average block phase by phase, one warp alone, the cost of each line."""
