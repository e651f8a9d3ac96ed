"""Tables of results and measured times, their columns, and scores."""
