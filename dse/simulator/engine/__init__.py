"""The engine of the simulator: batches of cases, and the compiled loop that runs them."""
