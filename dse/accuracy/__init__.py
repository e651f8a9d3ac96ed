"""Accuracy of models on measured times, and of tuning: the scores that `dse accuracy` reports."""
