"""The machine that code runs on: launches, blocks, sets of threads, registers, memory and its accesses."""
