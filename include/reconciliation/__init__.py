"""Proves that Kafka and the sinks agree: window, measure, judge, explain."""
