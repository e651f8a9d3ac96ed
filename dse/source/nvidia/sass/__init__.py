"""Machine code read: binaries, their listings, opcodes and operands, programs cut into basic blocks."""
