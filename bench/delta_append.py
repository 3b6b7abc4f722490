"""`make bench`: our driver against the plain `format("delta")` stream with default settings, alternating in one run.

Both read the same topic, decode the same JSON, compute the same columns and write a table partitioned by day. The plain one
is at-least-once in what it knows: it has no tidemark, no ledger, no quarantine (a bad record becomes a row of NULLs).
"""

import json
import os
import random
import shutil
import statistics
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from bench.ground import bench_ground
from include.local_stack.home import PROJECT
from include.local_stack.stack import Stack
from jobs.driver_arguments import parse
from jobs.run_stream import Driver

PARTITIONS, ROUNDS = 4, 3
SIZES = {50_000: 10, 500_000: 3}  # records per batch: batches per round
FIELDS = "event_id string, user_id string, amount decimal(12,2), ts timestamp, note string"
OURS = ("spark.databricks.delta.snapshotPartitions", "spark.sql.shuffle.partitions")  # settings that the plain stream lacks


def main() -> None:
    with bench_ground() as (stack, spark):
        for size, batches in SIZES.items():
            fill(stack.kafka.connection.address, _topic(size), size * batches)
            measure(spark, stack, size)


def _topic(size: int) -> str:
    return f"bench_{size}"


def fill(address: str, topic: str, records: int, more: Mapping[str, Any] | None = None) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    if topic in admin.list_topics(timeout=10).topics:
        return
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(15)
    send(address, topic, range(records), more)


def send(address: str, topic: str, numbers: range, more: Mapping[str, Any] | None = None) -> None:
    """`more`: fields that every record has beside its own."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 50, "compression.type": "lz4"})
    chance = random.Random(7)  # noqa: S311 - not a secret
    for number in numbers:
        while True:
            try:
                producer.produce(topic, json.dumps({**order(number, chance), **(more or {})}), partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def order(number: int, chance: random.Random) -> dict[str, Any]:
    return {
        "event_id": f"e-{number:09d}",
        "user_id": f"u{chance.randrange(50_000)}",
        "amount": chance.randrange(1, 100_000) / 100,
        "ts": f"2026-11-16T{chance.randrange(24):02d}:{chance.randrange(60):02d}:00Z",
        "note": None if chance.random() < 0.5 else "leave it at the door",
    }


def measure(spark: SparkSession, stack: Stack, size: int) -> None:
    seconds: dict[str, list[float]] = {"plain": [], "tidemark": []}
    for number in range(ROUNDS + 1):
        taken = {"plain": plain(spark, stack, size), "tidemark": tidemark(spark, stack, size)}
        for way, times in taken.items():
            note = "" if number else "  (warm-up, not counted)"
            print(f"  {size:>9,} {way:9} " + " ".join(f"{one:6.2f}" for one in times) + note, flush=True)
            seconds[way] += times if number else []
    middle = {way: statistics.median(times) for way, times in seconds.items()}
    ratio = middle["plain"] / middle["tidemark"]
    print(f"{size:,} a batch: plain {middle['plain']:.2f} s, tidemark {middle['tidemark']:.2f} s, {ratio:.2f}x", flush=True)


def plain(spark: SparkSession, stack: Stack, size: int) -> list[float]:
    session = spark.newSession()
    for setting in OURS:
        session.conf.unset(setting)
    place = stack.home.lake / f"plain_{uuid.uuid4().hex[:8]}"
    source = session.readStream.format("kafka").options(**_plain_source(stack, size)).load()
    record = F.from_json(F.col("value").cast("string"), FIELDS)
    coordinates = [F.col(name).alias(f"_{name}") for name in ("topic", "partition", "offset")]
    rows = (
        source.select(*coordinates, record.alias("record"))
        .select("_topic", "_partition", "_offset", "record.*")
        .where("amount > 0")
        .withColumns({"day": F.expr("date(ts)"), "amount_cents": F.expr("cast(amount * 100 as bigint)")})
    )
    stream = rows.writeStream.format("delta").partitionBy("day").option("checkpointLocation", f"{place}_checkpoint")
    query = stream.trigger(availableNow=True).start(str(place))
    query.awaitTermination()
    shutil.rmtree(place)
    return _seconds(query)


def _seconds(query: StreamingQuery) -> list[float]:
    return [progress["durationMs"]["triggerExecution"] / 1000 for progress in query.recentProgress if progress["numInputRows"]]


def _plain_source(stack: Stack, size: int) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": stack.kafka.connection.address,
        "subscribe": _topic(size),
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(size),
    }


def tidemark(spark: SparkSession, stack: Stack, size: int) -> list[float]:
    name = f"bench_{uuid.uuid4().hex[:8]}"
    os.environ["TIDEMARK_CONFIG"] = str(_stream_file(stack.home.folder / "config" / name, name, size))
    driver = Driver(parse([name, "--once"]))
    driver.drive(lambda: spark)
    shutil.rmtree(stack.home.lake / name)
    assert driver.query is not None
    return _seconds(driver.query)


def _stream_file(config: Path, name: str, size: int) -> Path:
    shutil.copytree(PROJECT / "config" / "schemas", config / "schemas")
    (config / "streams").mkdir()
    content = yaml.safe_load((PROJECT / "config" / "streams" / "orders_raw.yaml").read_text())
    content["source"] |= {"topic": _topic(size), "max_records_per_batch": size}
    content["sinks"]["lake"]["table"] = name
    (config / "streams" / f"{name}.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    return config


if __name__ == "__main__":
    main()
