"""Spark's checkpoint folders: read, verify, make with an explicit start, back up, expire."""
