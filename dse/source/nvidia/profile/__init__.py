"""Counts what a launch does: the average block phase by phase, one warp alone, the cost of each line."""
