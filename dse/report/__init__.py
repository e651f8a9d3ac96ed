"""Show results as tables, charts and pages; nothing is computed here."""
