"""The engine of the simulator: cases as flat arrays, and the compiled loops that run them."""
