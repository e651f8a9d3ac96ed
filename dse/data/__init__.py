"""Tables: the columns of results, tables of results and of measured times, and scores."""
