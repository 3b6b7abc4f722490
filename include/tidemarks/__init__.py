"""Reads what a sink durably knows of its source, without Spark: tidemark, generation, ledger, and what others did to it."""
