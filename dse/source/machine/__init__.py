"""The launch that code runs in, of either vendor: blocks, arguments, memory, sets of threads, trips of loops."""
