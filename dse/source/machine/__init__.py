"""The launch that code runs in, of either vendor: blocks, arguments, memory, threads, trips of loops."""
