"""How near models come to measured times, and tuning to the optimum: what `dse accuracy` tells."""
