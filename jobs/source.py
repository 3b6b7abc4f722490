"""Kafka records under our own names: coordinates and everything a quarantined record is kept with."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

READ_COMMITTED = {"kafka.isolation.level": "read_committed"}  # Spark's default shows records of aborted transactions
OUR_NAMES = {
    "topic": "_topic",
    "partition": "_partition",
    "offset": "_offset",
    "timestamp": "_kafka_timestamp",
    "key": "_key",
    "headers": "_headers",
    "value": "value",
}


def as_records(kafka: DataFrame) -> DataFrame:
    """For frames that were read with `includeHeaders`."""
    return kafka.select(*(F.col(theirs).alias(ours) for theirs, ours in OUR_NAMES.items()))
