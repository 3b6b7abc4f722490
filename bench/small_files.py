"""`make bench-small-files`: an hour of small batches, as a 5 s trigger makes them, before and after maintenance.

An append table and one that holds the newest row of each key, each written by the sinks' own code, without Kafka. BATCHES= for
another number than 720. Ratios within one run count; the seconds are this machine's.
"""

import os
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.ground import bench_ground
from include.contract.environment import load_environment
from include.contract.stream_spec import DeltaMerge
from include.control.generations import Generation
from include.tidemarks.note import ADOPTED, LedgerLine, Tidemark
from jobs.fenced_table import FencedTable
from jobs.maintenance.maintain import maintain
from jobs.maintenance.tables import AS_THEY_CAME, MaintainedTable
from jobs.merge_table import MergeTable, merge_shape
from jobs.table_shape import TableShape

BATCHES = int(os.environ.get("BATCHES") or 720)
ROWS, KEYS = 500, 200_000  # of a batch, and of the merged table
MERGE = DeltaMerge(kind="delta_merge", table="bench", key=["user_id"], order="ts")


def main() -> None:
    with bench_ground() as (stack, spark):
        for name in ("append", "merge"):
            bench(spark, table_of(spark, name, str(stack.home.lake / f"small_{name}_{uuid.uuid4().hex[:8]}")))


def table_of(spark: SparkSession, name: str, path: str) -> FencedTable:
    schema, generation = rows_of_batch(spark, 0).drop("_deleted").schema, Generation(1, str(uuid.uuid4()), "bench")
    if name == "merge":
        return MergeTable(MERGE, spark, path, "bench", name, merge_shape(MERGE, schema), generation, "bench")
    return FencedTable(spark, path, "bench", name, TableShape(schema), generation, "bench")


def rows_of_batch(spark: SparkSession, batch: int) -> DataFrame:
    number = F.col("id") + batch * ROWS
    return spark.range(ROWS, numPartitions=1).select(
        F.lit("orders").alias("_topic"),
        F.lit(1).alias("_topic_epoch"),
        F.lit(0).alias("_partition"),
        number.alias("_offset"),
        F.timestamp_seconds(number + 1_760_000_000).alias("_kafka_timestamp"),
        F.lit(1).cast("bigint").alias("_generation"),
        F.lit(batch).cast("bigint").alias("_batch_id"),
        F.lit(False).alias("_deleted"),
        F.concat(F.lit("user-"), F.abs(F.hash(number)) % KEYS).alias("user_id"),
        (number % 99_999 / 100).cast("decimal(12,2)").alias("amount"),
        F.timestamp_seconds(number + 1_750_000_000).alias("ts"),
    )


def bench(spark: SparkSession, sink: FencedTable) -> None:
    sink.fence()
    sink.adopt(sink.state(), Tidemark(generation=1, batch=ADOPTED, offsets={0: 0}, topic_id="t", epoch=1), pinned=False)
    for batch in range(BATCHES):
        deliver(spark, sink, batch)
    before = measured(spark, sink, BATCHES)
    cluster_by = tuple(MERGE.key) if isinstance(sink, MergeTable) else AS_THEY_CAME
    table = MaintainedTable("bench", sink.sink, sink.path, cluster_by, is_merged=False)  # nobody else is at work
    print(maintain(spark, table, load_environment("local").maintenance).line())
    after = measured(spark, sink, BATCHES + 3)
    for what, seconds in before.items():
        print(f"  {what:<28}{seconds:9.2f} -> {after[what]:7.2f}  {seconds / max(after[what], 0.001):6.1f}x", flush=True)


def deliver(spark: SparkSession, sink: FencedTable, batch: int) -> None:
    opened, end = sink.open_batch(), (batch + 1) * ROWS
    opened.write(rows_of_batch(spark, batch).select(*sink.columns))
    line = LedgerLine(partition=0, start=end - ROWS, end=end, read=ROWS, delivered=ROWS)
    opened.commit(sink.tidemark.raised_to(1, batch, {0: end}), [line])
    if batch % 50 == 0:
        print(f"  {sink.sink}: batch {batch} of {BATCHES}", flush=True)


def measured(spark: SparkSession, sink: FencedTable, next_batch: int) -> dict[str, float]:
    return {
        "files": float(len(DeltaTable(sink.path).file_uris())),
        "snapshot opened, s": best(lambda: snapshot(spark, sink.path)),
        "a sum over all rows, s": best(lambda: spark.read.format("delta").load(sink.path).agg(F.sum("amount")).collect()),
        "the next batch, s": best(deliver_next(spark, sink, next_batch)),
        "megabytes on disk": sum(file.stat().st_size for file in Path(sink.path).rglob("*") if file.is_file()) / 1e6,
    }


def deliver_next(spark: SparkSession, sink: FencedTable, first: int) -> Callable[[], object]:
    numbers = iter(range(first, first + 3))
    return lambda: deliver(spark, sink, next(numbers))


def snapshot(spark: SparkSession, path: str) -> object:
    """As a process that has never seen the table."""
    log = spark._jvm.org.apache.spark.sql.delta.DeltaLog  # type: ignore[union-attr]
    log.clearCache()
    return log.forTable(spark._jsparkSession, path).unsafeVolatileSnapshot().allFiles().count()


def best(act: Callable[[], object]) -> float:
    taken = []
    for _ in range(3):
        began = time.monotonic()
        act()
        taken.append(time.monotonic() - began)
    return min(taken)


if __name__ == "__main__":
    main()
