"""Samples → weights. Knows no environment and no collector."""
