"""Measure a few configurations, refit, choose the next: the fastest one with few measurements."""
