"""Rows that lie in the files of a shuffle: made once, then read from there, whole partitions at a time, as often as is needed.

Where each partition is read by itself this is cheaper than `kept_rows`: they are written once instead of kept, read and shuffled.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

ADAPTIVE = "spark.sql.adaptive.enabled"


def shuffled(rows: DataFrame) -> DataFrame:
    """`rows` end in a repartition by a number of partitions. What comes before it is done now, so what is observed of them is
    known; what comes back begins behind it. If files are lost with an executor, Spark reads the same records again."""
    spark = rows.sparkSession
    with _stage_by_stage(spark):
        copied = rows.localCheckpoint(eager=False)._jdf.logicalPlan().rdd()
    behind = copied.dependencies().apply(0).rdd()  # the copy is never made, so nothing is kept twice
    return DataFrame(spark._jsparkSession.internalCreateDataFrame(behind, rows._jdf.schema(), False), spark)


@contextmanager
def _stage_by_stage(spark: SparkSession) -> Iterator[None]:
    """Then Spark runs all stages but the last before it says what that one is."""
    before = str(spark.conf.get(ADAPTIVE))
    spark.conf.set(ADAPTIVE, "true")
    try:
        yield
    finally:
        spark.conf.set(ADAPTIVE, before)
