"""Sends records through everything Tidemark stands on, and counts them: Kafka, Spark, Python workers, Delta, Kafka.

Submitted by the DAG check_deployment. Each run has a folder of its own in the lake; its topics forget after an hour.
"""

import argparse
import re
import sys
import uuid
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from include.contract.connections import read_connection
from include.contract.environment import load_environment
from include.contract.errors import TidemarkError
from jobs.session import open_session
from jobs.source import READ_COMMITTED

THERE, BACK = "tidemark.check.there", "tidemark.check.back"
TOPIC_SETTINGS = {"retention.ms": "3600000"}
PARTITIONS = 3


class RecordsMissing(TidemarkError):
    """Not every record came through exactly once."""


@dataclass(frozen=True)
class Check:
    run: str
    records: int
    kafka: str
    folder: str


def main(arguments: list[str]) -> None:
    check = _parse(arguments)
    make_topics(check)
    spark = open_session(f"check_deployment {check.run}")
    send(spark, check)
    stream_into_delta(spark, check)
    send_back(spark, check)
    judge(check, count_what_came_back(spark, check))


def make_topics(check: Check) -> None:
    admin = AdminClient({"bootstrap.servers": check.kafka})
    there = admin.list_topics(timeout=10).topics
    missing = [NewTopic(name, PARTITIONS, 1, config=TOPIC_SETTINGS) for name in (THERE, BACK) if name not in there]
    for made in admin.create_topics(missing).values() if missing else []:
        made.result(10)


def send(spark: SparkSession, check: Check) -> None:
    _write_topic(spark.range(check.records, numPartitions=PARTITIONS), check, THERE)


def stream_into_delta(spark: SparkSession, check: Check) -> None:
    """As a stream, so that offsets, checkpoint and the Delta sink are all used; ends when the topic is read to its end."""
    source = spark.readStream.format("kafka").options(**_source(check, THERE)).load()
    rows = _of_this_run(source, check).mapInArrow(pass_through_python, "id long, worker string")
    stream = rows.writeStream.format("delta").option("checkpointLocation", f"{check.folder}/checkpoint")
    stream.trigger(availableNow=True).start(f"{check.folder}/table").awaitTermination()


def pass_through_python(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    """Notes which daemon the worker was forked from: `prepare_for_fork` leaves a lambda behind."""
    import zipimport

    forked_from_ours = zipimport.zipimporter.invalidate_caches.__name__ == "<lambda>"
    for batch in batches:
        worker = pa.array(["jobs.python_daemon" if forked_from_ours else "pyspark.daemon"] * batch.num_rows)
        yield pa.RecordBatch.from_arrays([batch.column("id"), worker], ["id", "worker"])


def send_back(spark: SparkSession, check: Check) -> None:
    _write_topic(spark.read.format("delta").load(f"{check.folder}/table"), check, BACK)


def count_what_came_back(spark: SparkSession, check: Check) -> tuple[int, int]:
    came_back = _of_this_run(spark.read.format("kafka").options(**_source(check, BACK)).load(), check)
    counted = came_back.agg(F.count("id"), F.count_distinct("id")).first()
    return (counted[0], counted[1]) if counted else (0, 0)


def judge(check: Check, counted: tuple[int, int]) -> None:
    rows, distinct = counted
    print(f"check_deployment {check.run}: sent {check.records:,}, came back {rows:,}, of them distinct {distinct:,}")
    if (rows, distinct) != (check.records, check.records):
        raise RecordsMissing(
            f"{check.records:,} records were sent; {rows:,} came back, {distinct:,} of them distinct.",
            state=f"What arrived stands in {check.folder}/table.",
            next_step="Run `make status`; if every part is healthy, read this run's log from the top.",
        )


def _of_this_run(topic: DataFrame, check: Check) -> DataFrame:
    is_ours = F.col("key").cast("string") == check.run
    return topic.where(is_ours).select(F.col("value").cast("string").cast("long").alias("id"))


def _write_topic(ids: DataFrame, check: Check, topic: str) -> None:
    records = ids.select(
        F.lit(check.run).alias("key"),
        F.col("id").cast("string").alias("value"),
        (F.col("id") % PARTITIONS).cast("int").alias("partition"),  # all have one key: they would share one partition
    )
    records.write.format("kafka").option("kafka.bootstrap.servers", check.kafka).option("topic", topic).save()


def _source(check: Check, topic: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": check.kafka,
        **READ_COMMITTED,
        "subscribe": topic,
        "startingOffsets": "earliest",
    }


def _parse(arguments: list[str]) -> Check:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--run", default=uuid.uuid4().hex, help="names the folder and marks the records of this run")
    parsed = parser.parse_args(arguments)
    run = re.sub(r"[^A-Za-z0-9]+", "-", parsed.run)
    environment = load_environment()
    kafka = read_connection(environment.kafka.connection).address
    return Check(run, parsed.records, kafka, environment.lake_path("check_deployment", run))


if __name__ == "__main__":
    main(sys.argv[1:])
