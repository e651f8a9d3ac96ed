"""How well predictions fit measurements."""
