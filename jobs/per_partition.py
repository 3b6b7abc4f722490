"""The sides of a window, counted per partition: one small row each, whatever the window."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from include.control.window_contents import Counted
from jobs.measuring import BAD, DUPLICATE, FILTERED, GOOD, LATE, REJECTED

PerPartition = Mapping[int, Mapping[str, Any]]


def rows_per_partition(rows: DataFrame) -> PerPartition:
    counted = rows.groupBy("_partition").agg(
        F.count("*").alias("table_rows"),
        F.count_distinct("_offset").alias("table_coordinates"),
        F.sum(F.col("hash").cast("decimal(20,0)")).cast("string").alias("table_checksum"),
    )
    return _by_partition(counted)


def records_per_partition(records: DataFrame) -> PerPartition:
    good_hash = F.when(F.col("_fate") == GOOD, F.col("hash").cast("decimal(20,0)")).otherwise(F.lit(0))
    counted = records.groupBy("_partition").agg(
        F.count("*").alias("kafka_read"),
        F.count_if(F.col("_fate").isin(GOOD, REJECTED)).alias("kafka_good"),
        F.count_if(F.col("_fate") == REJECTED).alias("kafka_rejected"),
        F.count_if(F.col("_fate") == BAD).alias("kafka_bad"),
        F.count_if(F.col("_fate") == FILTERED).alias("kafka_filtered"),
        F.count_if(F.col("_fate") == LATE).alias("kafka_late"),
        F.count_if(F.col("_fate") == DUPLICATE).alias("kafka_duplicates"),
        F.sum(good_hash).cast("string").alias("kafka_checksum"),
    )
    return _by_partition(counted)


def quarantined_per_partition(quarantined: DataFrame) -> PerPartition:
    counted = quarantined.groupBy("_partition").agg(
        F.count("*").alias("quarantine_rows"), F.count_distinct("_offset").alias("quarantine_coordinates")
    )
    return _by_partition(counted)


def rejects_per_partition(rejected: DataFrame) -> PerPartition:
    return _by_partition(rejected.groupBy("_partition").agg(F.count("*").alias("reject_rows")))


def _by_partition(counted: DataFrame) -> PerPartition:
    """One row per partition: small, whatever the window."""
    rows = [row.asDict() for row in counted.collect()]
    return {row.pop("_partition"): row for row in rows}


def add_up(one: Counted, other: Counted) -> Counted:
    """Of two specs within one partition."""
    pairs = {name: (getattr(one, name), getattr(other, name)) for name in Counted.model_fields}
    return Counted.model_validate({name: str(int(a) + int(b)) if isinstance(a, str) else a + b for name, (a, b) in pairs.items()})
