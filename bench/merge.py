"""`make bench-merge`: what a batch into a delta_merge table costs over a history of one day and of twenty, in one run.

Every batch changes orders of the newest day. With the day in the key and the table partitioned by it, only that day's files are
read; without, all files may hold the keys, and the cost follows the history.
"""

import json
import os
import random
import statistics
import uuid

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession

from bench.delta_append import PARTITIONS
from bench.fan_out import stream_file
from bench.ground import bench_ground
from include.local_stack.stack import Stack
from jobs.driver_arguments import parse
from jobs.run_stream import Driver

ORDERS_A_DAY, CHANGES, BATCHES = 50_000, 10_000, 7
PRUNED = {"key": ["day", "event_id"], "partition_by": ["day"]}
UNPRUNED = {"key": ["event_id"]}


def main() -> None:
    with bench_ground() as (stack, spark):
        for title, keyed in (("pruned by day", PRUNED), ("not pruned", UNPRUNED)):
            middle = {days: measure(spark, stack, days, keyed) for days in (1, 20)}
            told = ", ".join(f"{days} days of {ORDERS_A_DAY:,} orders {seconds:.2f} s" for days, seconds in middle.items())
            print(f"{title}, {CHANGES:,} changes a batch: {told}, {middle[20] / middle[1]:.2f}x", flush=True)


def measure(spark: SparkSession, stack: Stack, days: int, keyed: dict[str, list[str]]) -> float:
    name = f"merge_{uuid.uuid4().hex[:8]}"
    address = stack.kafka.connection.address
    admin = AdminClient({"bootstrap.servers": address})  # kept until its answer has come
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(15)
    sink = {"kind": "delta_merge", "table": name, "order": "ts", **keyed}
    config = stream_file(stack.home.folder / "config" / name, name, name, 200_000, {"latest": sink})
    file = config / "streams" / f"{name}.yaml"
    file.write_text(file.read_text().replace("select:\n", "select:\n  day: date(ts)\n"))
    os.environ["TIDEMARK_CONFIG"] = str(config)
    for day in range(days):
        send(address, name, day, range(ORDERS_A_DAY))
    run(spark, name)
    seconds = []
    for _ in range(BATCHES):
        send(address, name, days - 1, random.Random(_).sample(range(ORDERS_A_DAY), CHANGES))  # noqa: S311
        seconds += run(spark, name)
    print(f"  {days:2} days: " + " ".join(f"{one:5.2f}" for one in seconds), flush=True)
    return statistics.median(seconds[1:])


def run(spark: SparkSession, name: str) -> list[float]:
    driver = Driver(parse([name, "--once"]))
    driver.drive(lambda: spark)
    assert driver.query is not None
    return [one["durationMs"]["triggerExecution"] / 1000 for one in driver.query.recentProgress if one["numInputRows"]]


def send(address: str, topic: str, day: int, numbers: range | list[int]) -> None:
    producer = Producer({"bootstrap.servers": address, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000})
    for number in numbers:
        order = {"event_id": f"d{day:02}-{number:09}", "user_id": "u", "amount": 1, "ts": f"2026-10-{day + 1:02}T10:00:00Z"}
        producer.produce(topic, json.dumps(order), partition=number % PARTITIONS)
        producer.poll(0)
    producer.flush()


if __name__ == "__main__":
    main()
