"""Cases of the simulator: programs and cores, and the graphs, traces and counts that they are made of."""
