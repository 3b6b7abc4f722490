"""`make bench-kafka`: a topic into a topic, exactly once, against Spark's own Kafka sink, which is at-least-once; alternating in
one run, on the same records.

Both read the same topic, decode the same JSON, compute the same columns and write the same key, value and header. Spark's has
no tidemark, no ledger, no quarantine, and repeats a batch after a crash.
"""

import os
import statistics
import uuid
from pathlib import Path

import yaml
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from bench.delta_append import FIELDS, PARTITIONS, fill
from bench.ground import bench_ground
from include.local_stack.home import PROJECT
from include.local_stack.stack import Stack
from include.topics.topic import admin_of
from jobs.driver_arguments import parse
from jobs.run_stream import Driver

ROUNDS = 3
SIZES = {50_000: 10, 500_000: 3}  # records per batch: batches per round
SOURCE_HEADER = "array(struct('tidemark-source' AS key, cast(concat_ws('/', 1, partition, offset, 0) AS binary) AS value))"


def main() -> None:
    with bench_ground() as (stack, spark):
        for size, batches in SIZES.items():
            fill(stack.kafka.connection.address, f"bench_{size}", size * batches)
            measure(spark, stack, size)


def measure(spark: SparkSession, stack: Stack, size: int) -> None:
    """The middle of the rounds' ratios: a machine that is slower for a minute is so for both."""
    ratios = []
    for number in range(ROUNDS + 1):
        plain, ours = statistics.median(plain_sink(spark, stack, size)), statistics.median(tidemark(spark, stack, size))
        note = "" if number else "  (warm-up, not counted)"
        print(f"  {size:>9,} Spark's own {plain:6.2f} s, tidemark {ours:6.2f} s, {plain / ours:.2f}x{note}", flush=True)
        ratios += [plain / ours] if number else []
    print(f"{size:,} a batch: {statistics.median(ratios):.2f}x of Spark's own sink", flush=True)


def plain_sink(spark: SparkSession, stack: Stack, size: int) -> list[float]:
    name = f"plain_{uuid.uuid4().hex[:8]}"
    address = stack.kafka.connection.address
    admin_of(address).create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(15)
    source = {
        "kafka.bootstrap.servers": address,
        "subscribe": f"bench_{size}",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(size),
    }
    read = spark.readStream.format("kafka").options(**source).load()
    record = F.from_json(F.col("value").cast("string"), FIELDS)
    rows = read.select("partition", "offset", "timestamp", record.alias("record")).where("record.amount > 0")
    columns = ["record.*", F.expr("date(record.ts)").alias("day"), F.expr("cast(record.amount * 100 AS bigint)").alias("cents")]
    outputs = rows.select(
        F.col("record.user_id").alias("key"),
        F.to_json(F.struct(*columns), {"ignoreNullFields": "false"}).alias("value"),
        F.expr(SOURCE_HEADER).alias("headers"),
    )
    sink = {"kafka.bootstrap.servers": address, "topic": name, "includeHeaders": "true", "kafka.compression.type": "lz4"}
    place = str(stack.home.folder / "checkpoints" / name)
    stream = outputs.writeStream.format("kafka").options(**sink).option("checkpointLocation", place)
    query = stream.trigger(availableNow=True).start()
    query.awaitTermination()
    _forget(stack, name)
    return _seconds(query)


def tidemark(spark: SparkSession, stack: Stack, size: int) -> list[float]:
    name = f"ours_{uuid.uuid4().hex[:8]}"
    os.environ["TIDEMARK_CONFIG"] = str(_stream_file(stack.home.folder / "config" / name, name, size))
    driver = Driver(parse([name, "--once"]))
    driver.drive(lambda: spark)
    _forget(stack, name)
    assert driver.query is not None
    return _seconds(driver.query)


def _stream_file(config: Path, name: str, size: int) -> Path:
    for folder in ("schemas", "streams"):
        (config / folder).mkdir(parents=True, exist_ok=True)
    (config / "schemas" / "order.yaml").write_text((PROJECT / "config" / "schemas" / "order.yaml").read_text())
    content = yaml.safe_load((PROJECT / "config" / "streams" / "orders_raw.yaml").read_text())
    content["source"] |= {"topic": f"bench_{size}", "max_records_per_batch": size}
    out = {"kind": "kafka", "connection": "kafka_main", "topic": name, "key": "user_id", "create": {"partitions": PARTITIONS}}
    content |= {"sinks": {"out": out}}
    (config / "streams" / f"{name}.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    return config


def _forget(stack: Stack, topic: str) -> None:
    """Millions of records of every round would fill the disk."""
    admin_of(stack.kafka.connection.address).delete_topics([topic])[topic].result(15)


def _seconds(query: StreamingQuery) -> list[float]:
    return [one["durationMs"]["triggerExecution"] / 1000 for one in query.recentProgress if one["numInputRows"]]


if __name__ == "__main__":
    main()
