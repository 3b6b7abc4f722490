"""`make demo`: a stack of its own, one Airflow run that sends records through Kafka, Spark and Delta, and a count.

The count shares no code with the job: it reads the Delta table with deltalake and the topic with a plain consumer.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from deltalake import DeltaTable

from include.contract.errors import TidemarkError
from include.local_stack.home import VAR, StackHome
from include.local_stack.progress import say, step
from include.local_stack.stack import Stack
from include.processes.interruptions import held_back

RECORDS = 200_000
RUN_PATIENCE_SECONDS = 300
SILENCE_SECONDS = 10
BACK = "tidemark.check.back"


class TopicSilent(TidemarkError):
    """A topic that could not be read to its end."""


def run_demo() -> bool:
    """True only if every record is in the table once and in the topic once. Stops its stack whatever happens."""
    stack = Stack(StackHome(VAR / "demo"))
    say("1. A stack of its own, in var/demo: PostgreSQL, Kafka, Airflow")
    try:
        stack.up()
        report = send_and_count(stack, f"demo-{datetime.now(UTC):%Y%m%d-%H%M%S}", RECORDS)
    finally:
        say("\n4. The stack is stopped; its data stays in var/demo")
        with held_back():
            stack.down()
    (stack.home.folder / "report.json").write_text(json.dumps(report, indent=2) + "\n")
    say("\nEvery record arrived exactly once." if report["balanced"] else "\nTHE COUNTS DIFFER: see the table above.")
    return bool(report["balanced"])


def send_and_count(stack: Stack, run: str, records: int) -> dict[str, object]:
    say(f"\n2. Airflow submits a Spark job that sends {records:,} records Kafka -> Delta -> Kafka")
    with step("DAG check_deployment"):
        stack.api_server.run_dag("check_deployment", run, {"records": records}, RUN_PATIENCE_SECONDS)
    say("\n3. Counted again, by code that shares nothing with the job")
    return _count(stack, run, records)


def _count(stack: Stack, run: str, records: int) -> dict[str, object]:
    first_try = f"{run}-1"
    places = {
        "Delta table": _ids_in_table(stack.home.lake / "check_deployment" / first_try / "table"),
        "Kafka topic": ids_in_topic(stack.kafka.connection.address, first_try),
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


def ids_in_topic(address: str, run: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "demo", "isolation.level": "read_committed"})
    try:
        return [int(value) for key, value in _read_all(consumer) if key == run.encode()]
    finally:
        consumer.close()


def _read_all(consumer: Consumer) -> Iterator[tuple[bytes, bytes]]:
    """From what retention has left to what is there now."""
    numbers = consumer.list_topics(BACK, timeout=10).topics[BACK].partitions
    ranges = {number: consumer.get_watermark_offsets(TopicPartition(BACK, number), timeout=10) for number in numbers}
    unread = {number for number, (low, end) in ranges.items() if low < end}
    consumer.assign([TopicPartition(BACK, number, ranges[number][0]) for number in unread])
    while unread:
        messages = consumer.consume(10_000, timeout=SILENCE_SECONDS)
        if not messages:
            raise TopicSilent(
                f"Partitions {sorted(unread)} of {BACK} gave nothing for {SILENCE_SECONDS} s before their end.",
                state="The records are counted nowhere; the stack's data is kept.",
                next_step="Run `make demo` again; if it repeats, read var/demo/logs/kafka.log.",
            )
        for message in messages:
            yield message.key() or b"", message.value() or b""
            partition, offset = message.partition() or 0, message.offset() or 0
            if offset + 1 >= ranges[partition][1]:
                unread.discard(partition)
