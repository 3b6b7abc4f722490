"""Measurements, each a ratio of two ways within one run."""
