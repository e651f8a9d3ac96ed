"""Results of the simulator beyond makespans: profiles, critical paths, shares and gradients."""
