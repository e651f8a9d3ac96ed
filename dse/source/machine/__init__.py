"""The launch that code runs in: grid, blocks, arguments, memory, and sets of threads, of either vendor."""
