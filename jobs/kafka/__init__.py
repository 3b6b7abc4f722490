"""Kafka as a sink: outputs, rejects and marks in one transaction per slot (P5)."""
