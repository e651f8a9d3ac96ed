"""Sectors of a launch served by the L1, the L2 and DRAM, from the addresses that its blocks touch."""
