"""`make demo`: a stack of its own, one Airflow run that sends records through Kafka, Spark and Delta, and a count.

The count shares no code with the job: it reads the Delta table with deltalake and the topic with a plain consumer.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from deltalake import DeltaTable

from include.local_stack.home import VAR, StackHome
from include.local_stack.progress import say, step
from include.local_stack.stack import Stack

RECORDS = 200_000
RUN_PATIENCE_SECONDS = 300
BACK = "tidemark.check.back"


def run_demo(home: StackHome | None = None, records: int = RECORDS) -> bool:
    """True only if every record is in the table once and in the topic once. Stops its stack whatever happens."""
    run = f"demo-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    stack = Stack(home or StackHome(VAR / "demo"))
    say("1. A stack of its own, in var/demo: PostgreSQL, Kafka, Airflow")
    try:
        stack.up()
        say(f"\n2. Airflow submits a Spark job that sends {records:,} records Kafka -> Delta -> Kafka")
        with step("DAG check_deployment"):
            stack.api_server.run_dag("check_deployment", run, {"records": records}, RUN_PATIENCE_SECONDS)
        say("\n3. Counted again, by code that shares nothing with the job")
        report = _count(stack, run, records)
    finally:
        say("\n4. The stack is stopped; its data stays in var/demo")
        stack.down()
    (stack.home.folder / "report.json").write_text(json.dumps(report, indent=2) + "\n")
    say("\nEvery record arrived exactly once." if report["balanced"] else "\nTHE COUNTS DIFFER: see the table above.")
    return bool(report["balanced"])


def _count(stack: Stack, run: str, records: int) -> dict[str, object]:
    places = {
        "Delta table": _ids_in_table(stack.home.lake / "check_deployment" / run / "table"),
        "Kafka topic": _ids_in_topic(stack.kafka.connection.address, run),
    }
    say(f"  {'place':14}{'sent':>10}{'arrived':>10}{'lost':>8}{'twice':>8}")
    report: dict[str, object] = {"balanced": True}
    for place, ids in places.items():
        lost, twice = len(set(range(records)) - set(ids)), len(ids) - len(set(ids))
        say(f"  {place:14}{records:>10,}{len(ids):>10,}{lost:>8,}{twice:>8,}")
        report[place] = {"sent": records, "arrived": len(ids), "lost": lost, "twice": twice}
        report["balanced"] = report["balanced"] and not lost and not twice
    return report


def _ids_in_table(table: Path) -> list[int]:
    ids: list[int] = DeltaTable(table).to_pyarrow_table(columns=["id"])["id"].to_pylist()
    return ids


def _ids_in_topic(address: str, run: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "demo", "isolation.level": "read_committed"})
    try:
        ends = _ends(consumer)
        consumer.assign([TopicPartition(BACK, partition, 0) for partition in ends])
        return [int(value) for key, value in _read_to(consumer, ends) if key == run.encode()]
    finally:
        consumer.close()


def _ends(consumer: Consumer) -> dict[int, int]:
    partitions = consumer.list_topics(BACK, timeout=10).topics[BACK].partitions
    return {number: consumer.get_watermark_offsets(TopicPartition(BACK, number), timeout=10)[1] for number in partitions}


def _read_to(consumer: Consumer, ends: dict[int, int]) -> Iterator[tuple[bytes, bytes]]:
    unread = {partition for partition, end in ends.items() if end > 0}
    while unread:
        for message in consumer.consume(10_000, timeout=10):
            if message.error():
                raise RuntimeError(f"reading {BACK}: {message.error()}")
            yield message.key() or b"", message.value() or b""
            partition, offset = message.partition() or 0, message.offset() or 0
            if offset + 1 >= ends[partition]:
                unread.discard(partition)
