"""Reads what any sink knows of its source, without Spark."""
