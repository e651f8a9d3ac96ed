"""Cases of the simulator: programs and cores, made from graphs, traces and counts."""
