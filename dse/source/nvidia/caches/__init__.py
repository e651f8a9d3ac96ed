"""Which sectors of a launch the L1, the L2 or DRAM serves, from the addresses that its blocks touch."""
