"""Tables, charts and pages: this room draws results, and computes none."""
