"""The folders that Spark itself writes and reads: our reader and our writer against the real thing."""

import uuid
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession

from include.checkpoints.seed import check_ready, make_checkpoint
from include.checkpoints.spark_log import last_committed, last_planned, read_range, read_start
from include.local_stack.stack import Stack

SENT = {0: 10, 1: 20, 2: 0}


@pytest.fixture
def topic(stack: Stack) -> str:
    """Three partitions with as many records as SENT says."""
    name = f"checkpoints-{uuid.uuid4().hex}"
    kafka = {"bootstrap.servers": stack.kafka.connection.address}
    admin = AdminClient(kafka)
    admin.create_topics([NewTopic(name, len(SENT), 1)])[name].result(10)
    producer = Producer(kafka)
    for partition, count in SENT.items():
        for number in range(count):
            producer.produce(name, str(number), partition=partition)
    assert producer.flush(10) == 0
    return name


def read_to_the_end(spark: SparkSession, stack: Stack, topic: str, checkpoint: Path, per_batch: int) -> list[tuple[int, int]]:
    """(partition, offset) of every record that Spark handed over, batch by batch."""
    seen: list[tuple[int, int]] = []
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", stack.kafka.connection.address)
    rows = source.option("subscribe", topic).option("maxOffsetsPerTrigger", per_batch).load().select("partition", "offset")
    query = rows.writeStream.foreachBatch(lambda batch, _: seen.extend((row[0], row[1]) for row in batch.collect()))
    query.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()
    return seen


def test_spark_begins_exactly_at_the_offsets_of_a_made_folder(
    spark: SparkSession, stack: Stack, topic: str, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "c000001"
    make_checkpoint(checkpoint, topic, {0: 4, 1: 20, 2: 0})
    seen = read_to_the_end(spark, stack, topic, checkpoint, per_batch=100)
    assert sorted(seen) == [(0, offset) for offset in range(4, 10)]
    check_ready(checkpoint)


def test_the_ranges_that_we_read_are_the_records_that_spark_read(
    spark: SparkSession, stack: Stack, topic: str, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "c000001"
    make_checkpoint(checkpoint, topic, dict.fromkeys(SENT, 0))
    seen = read_to_the_end(spark, stack, topic, checkpoint, per_batch=7)
    last = last_committed(checkpoint)
    assert last is not None
    assert last >= 4
    assert last == last_planned(checkpoint)
    assert read_start(checkpoint, topic) == dict.fromkeys(SENT, 0)
    ranges = [read_range(checkpoint, batch, topic) for batch in range(last + 1)]
    read = [
        (partition, offset)
        for batch in ranges
        for partition, end in batch.ends.items()
        for offset in range(batch.starts[partition], end)
    ]
    assert len(read) == sum(SENT.values())
    assert sorted(read) == sorted(seen)
