"""Fits of GPU parameters to measured times, with uncertainties, and surrogates for unmeasured times."""
