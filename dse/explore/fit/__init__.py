"""Parameters of a GPU fitted to measured times, with their spread; and what those times say of others."""
