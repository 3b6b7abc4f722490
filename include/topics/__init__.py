"""What Kafka itself says about a stream's topic: its id, and per partition the earliest and the next offset."""
