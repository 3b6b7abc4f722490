"""What a start would do, from Kafka and the sinks side by side: the one function behind every start."""
