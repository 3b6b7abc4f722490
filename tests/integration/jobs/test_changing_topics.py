"""What happens to a topic while a stream reads it, or between two starts: partitions, transactions, compaction, retention."""

import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.cimpl import NewPartitions
from pyspark.sql import SparkSession

from include.contract.exit_class import ExitClass
from include.local_stack.stack import Stack
from jobs import run_stream
from jobs.take_over import StartRefused
from tests.checker import Place
from tests.running import wait_for
from tests.streams import TrialStream, exit_class_of, order


def add_partitions(stream: TrialStream, number: int) -> None:
    admin = stream.admin()
    admin.create_partitions([NewPartitions(stream.name, number)])[stream.name].result(15)
    stream.partitions = number


def delete_records(stream: TrialStream, partition: int, before: int) -> None:
    admin = stream.admin()
    place = TopicPartition(stream.name, partition, before)
    admin.delete_records([place])[place].result(15)


def still_there(stream: TrialStream) -> set[Place]:
    """By a plain consumer."""
    consumer = Consumer(
        {"bootstrap.servers": stream.stack.kafka.connection.address, "group.id": "t", "isolation.level": "read_committed"}
    )
    found: set[Place] = set()
    try:
        consumer.assign([TopicPartition(stream.name, number, 0) for number in range(stream.partitions)])
        while messages := consumer.consume(1000, timeout=2):
            found |= {(message.partition(), message.offset()) for message in messages}
    finally:
        consumer.close()
    return found


def test_a_partition_added_while_stopped_is_read_from_its_beginning(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = TrialStream(stack, tmp_path, partitions=2)
    stream.send(100)
    stream.run(spark)
    add_partitions(stream, 4)
    stream.send(100)
    stream.run(spark)
    assert stream.problems() == []


def test_a_partition_added_while_running_is_read_from_its_beginning(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = TrialStream(stack, tmp_path, partitions=1)
    stream.send(50)
    with stream.running(spark):
        stream.wait_until_delivered()
        add_partitions(stream, 3)
        wait_for("the broker to know the new partitions", lambda: _accepts(stream), 30)
        stream.send(60)
        stream.wait_until_delivered()


def _accepts(stream: TrialStream) -> bool:
    return len(stream.producer().list_topics(stream.name, timeout=10).topics[stream.name].partitions) == stream.partitions


def test_aborted_records_are_not_delivered_and_an_open_transaction_is_waited_for(
    stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    stream = TrialStream(stack, tmp_path, partitions=1)
    stream.send(20)
    aborted = stream.producer(**{"transactional.id": f"{stream.name}-aborted"})
    aborted.init_transactions(15)
    aborted.begin_transaction()
    aborted.produce(stream.name, b"{}", partition=0)
    aborted.flush(15)
    aborted.abort_transaction(15)
    stream.send(20)
    hanging = stream.producer(**{"transactional.id": f"{stream.name}-hanging"})
    hanging.init_transactions(15)
    hanging.begin_transaction()
    hanging.produce(stream.name, b"[]", partition=0)
    hanging.flush(15)
    behind = dict(stream.sent)
    stream.send(20)
    stream.run(spark)
    delivered = {(row["_partition"], row["_offset"]) for row in stream.rows()}
    assert delivered == set(behind)
    hanging.abort_transaction(15)
    stream.run(spark)
    assert stream.problems() == []


def test_a_start_from_latest_begins_below_an_open_transaction(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    """Its records are not there yet, so they are still to come."""
    stream = TrialStream(stack, tmp_path, partitions=1)
    stream.write_file(source__start="latest")
    stream.send(20)
    stream.sent.clear()
    open_one = stream.producer(**{"transactional.id": f"{stream.name}-open"})
    open_one.init_transactions(15)
    open_one.begin_transaction()
    open_one.produce(stream.name, order("open", 5), partition=0, on_delivery=stream.acknowledged("good", "open"))
    open_one.flush(15)
    with stream.running(spark) as running:
        wait_for("the stream to begin", lambda: running.driver.query is not None, 60)
        open_one.commit_transaction(15)
        stream.wait_until_delivered()


def test_a_compacted_topic_is_delivered_as_far_as_it_is_there(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    compacting = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.001",
        "max.compaction.lag.ms": "100",
    }
    stream = TrialStream(stack, tmp_path, partitions=1, topic_settings=compacting)
    stream.key = b"one"
    for _ in range(5):
        stream.send(30)
        time.sleep(0.2)  # longer than segment.ms: the next send begins a segment
    sent = len(stream.sent)
    wait_for("the broker to compact", lambda: len(still_there(stream)) < sent - 60, 120)
    there_before = still_there(stream)
    stream.run(spark)
    delivered = [(row["_partition"], row["_offset"]) for row in stream.rows()]
    assert len(delivered) == len(set(delivered)) < sent
    assert still_there(stream) <= set(delivered) <= there_before
    lines = [line for note in stream.notes() for line in note.get("ledger", ())]
    assert sum(line["read"] for line in lines) == len(delivered)
    assert max(line["end"] for line in lines) == max(offset for _, offset in stream.sent) + 1


def test_a_retention_gap_in_one_partition_is_refused_with_its_numbers_and_goes_on_after_an_approval(
    stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    stream = TrialStream(stack, tmp_path)
    stream.send(90)
    stream.run(spark)
    stream.send(90)
    delete_records(stream, 1, 45)
    with pytest.raises(StartRefused, match=r"partition 1 up to 30, but Kafka begins at 45: 15 offsets are lost") as refused:
        stream.run(spark)
    assert exit_class_of(refused.value) is ExitClass.RETENTION_GAP
    with pytest.raises(StartRefused, match="15 offsets are lost"):
        stream.run(spark, "--approve-loss", "1:30:44")  # less than what is lost
    stream.run(spark, "--approve-loss", "1:30:45")
    assert stream.problems(lost=frozenset((1, offset) for offset in range(30, 45))) == []
    assert "the ledger jumps from 30 to 45 in partition 1" in stream.problems(
        lost=frozenset((1, offset) for offset in range(30, 44))
    )
    (adoption,) = [note for note in stream.notes() if note["kind"] == "adopt" and note.get("ledger")]
    assert adoption["ledger"] == [{"partition": 1, "start": 30, "end": 45, "lost": 15}]
    stream.send(30)
    stream.run(spark)  # the approval was for one start, and is not needed again


@pytest.mark.parametrize("records", [20, 200], ids=["smaller", "larger"])
def test_a_topic_made_anew_under_a_running_stream_stops_it(
    records: int, stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    stream = TrialStream(stack, tmp_path, partitions=1)
    stream.send(50)
    with stream.running(spark) as running:
        stream.wait_until_delivered()
        before = stream.rows()
        stream.remake_topic()
        stream.send(records)  # if more than before, the offsets alone would look like a continuation
        failure = running.wait_until_it_fails()
    assert exit_class_of(failure) is ExitClass.TOPIC_CHANGED
    assert stream.rows() == before


def test_a_topic_that_is_gone_when_its_lag_is_asked_counts_as_changed(
    stack: Stack, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch is whole, and no check of the topic's id is near."""
    stream = TrialStream(stack, tmp_path, partitions=1)
    stream.send(50)
    ask_lag = run_stream._latest

    def delete_then_ask(*arguments: Any) -> dict[int, int]:
        stream.delete_topic()
        return ask_lag(*arguments)

    monkeypatch.setattr(run_stream, "_latest", delete_then_ask)
    with stream.running(spark) as running:
        failure = running.wait_until_it_fails()
    assert exit_class_of(failure) is ExitClass.TOPIC_CHANGED
    assert stream.problems() == []
