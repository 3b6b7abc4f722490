"""A record with an output that is too large for the topic goes to the rejects, in the same transaction; no other does (P3.6)."""

import json
import random
import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession

from include.contract.exit_class import ExitClass
from include.local_stack.stack import Stack
from jobs.failpoints import VARIABLE, Failpoint
from jobs.kafka.open_batch import TooManyRejects
from jobs.kafka.topics_there import OutputSettings, OutputTopics, TopicUnfit
from tests.checker import Place
from tests.integration.kafka.executors import patched_workers, workers_with
from tests.outputs import OutputStream
from tests.streams import exit_class_of

TAKES = 2_000  # bytes, by the topic
LARGE = 6_000


def small_topic(stack: Stack, folder: Path, **more: Any) -> OutputStream:
    stream = OutputStream(stack, folder, more={"compression": "none", "slots": 1, **more})
    topic = NewTopic(stream.output, 1, 1, config={"max.message.bytes": str(TAKES)})
    admin = stream.admin()
    admin.create_topics([topic])[stream.output].result(15)
    return stream


def send_noted(stream: OutputStream, notes: list[str], partition: int = 0) -> frozenset[Place]:
    """Returns the places of the large ones."""
    before = set(stream.sent)
    producer, large = stream.producer(), set()
    for note in notes:
        identity = uuid.uuid4().hex
        order = {"event_id": identity, "user_id": "u", "amount": 5, "ts": "2026-11-16T10:00:00Z", "note": note}
        producer.produce(stream.name, json.dumps(order), partition=partition, on_delivery=stream.acknowledged("good", identity))
        if len(note) >= LARGE:
            large.add(identity)
    assert producer.flush(30) == 0
    return frozenset(place for place in set(stream.sent) - before if stream.sent[place]["id"] in large)


def large_note() -> str:
    return random.Random(9).randbytes(LARGE // 2).hex()  # noqa: S311 - any bytes that do not compress well


def test_a_topic_that_takes_less_than_a_mark_is_written_all_the_same(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    """Marks go elsewhere: what the output takes is no limit for them."""
    stream = small_topic(stack, tmp_path)
    stream.configure(stream.output, max_message_bytes="900")
    send_noted(stream, ["short"] * 40)
    stream.run(spark)
    assert min(len(one.value or b"") for one in stream.marks()) > 500
    assert stream.problems_of_outputs() == []


def test_a_record_with_a_too_large_output_is_rejected_as_a_whole(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    """Also if its other outputs are small. The reject tells where it is and why, without the bytes; it is committed with the
    outputs, or not at all."""
    stream = small_topic(stack, tmp_path, explode="words")
    stream.write_file(select={"words": "split(note, ' ')"})
    large = send_noted(stream, ["one", f"two {large_note()} three", "four five"])
    with workers_with(spark, **{VARIABLE: f"{Failpoint.AFTER_MARKS}=raise"}), pytest.raises(Exception, match="FailpointReached"):
        stream.run(spark)
    assert stream.rejects() == stream.outputs() == []
    stream.run(spark)
    assert sorted(one.row["words"] for one in stream.outputs()) == ["five", "four", "one"]
    (reject,) = stream.rejects()
    assert (reject["topic"], reject["epoch"], reject["partition"], reject["offset"]) == (stream.name, 1, *next(iter(large)))
    assert f"is more than the {TAKES:,} that the topic takes" in reject["why"]
    assert large_note()[:50] not in json.dumps(reject)
    assert stream.booked() == {"read": 3, "delivered": 2, "rejected": 1}


@pytest.mark.thorough("it never sees the new limit")
@pytest.mark.parametrize("looks", [1, 1_000], ids=["the sink looks at the topic again", "it never sees the new limit"])
def test_what_only_the_broker_knows_to_be_too_large_is_found_record_by_record(
    looks: int, stack: Stack, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody lowered the topic's limit after the sink had asked for it: the broker refuses whole packs of records."""
    stream = small_topic(stack, tmp_path)
    limits = iter([1_048_588] * looks)

    def output(topics: OutputTopics) -> OutputSettings:
        return OutputSettings(1, next(limits, TAKES))

    monkeypatch.setattr(OutputTopics, "output", output)
    large = send_noted(stream, ["small"] * 20 + [large_note()] + ["small"] * 20 + [large_note()] + ["small"] * 5)
    send_noted(stream, ["small"] * 10, partition=1)
    stream.run(spark)
    assert stream.problems_of_outputs(rejected=large) == []
    assert sorted((one["partition"], one["offset"]) for one in stream.rejects()) == sorted(large)
    assert stream.booked() == {"read": 57, "delivered": 55, "rejected": 2}


def test_more_than_the_budget_stops_the_stream_with_nothing_committed(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = small_topic(stack, tmp_path)
    stream.write_file(source__max_records_per_batch=1_000)
    large = send_noted(stream, [large_note()] * 100 + ["small"] * 20)
    stream.run(spark)
    assert (len(stream.rejects()), len(stream.outputs())) == (100, 20)
    send_noted(stream, ["small"] * 20 + [large_note()] * 101)
    told = r"More than 100 records of slot 0 are too large for topic \w+: partition 0, offset 140: an output of [\d,]+ bytes"
    with pytest.raises(TooManyRejects, match=told) as stopped:
        stream.run(spark)
    assert exit_class_of(stopped.value) is ExitClass.POISON
    assert (len(stream.rejects()), len(stream.outputs())) == (100, 20)
    assert len(large) == 100


def test_a_slot_waits_when_the_client_has_no_room_for_more(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    """For outputs, for rejects and for the marks, which come last."""
    stream = small_topic(stack, tmp_path)
    room = '"queue.buffering.max.messages": '
    large = send_noted(stream, ["small", "small", large_note()] * 8 + ["small"] * 7)
    with patched_workers(spark, tmp_path / "little room", "jobs/kafka/slot_attempt.py", f"{room}500_000", f"{room}3"):
        stream.run(spark)
    assert stream.problems_of_outputs(rejected=large) == []
    assert len(stream.rejects()) == len(large) == 8


def test_rejects_that_the_broker_refuses_stop_the_stream(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    """They are no records of the source, which could be rejected."""
    stream = small_topic(stack, tmp_path)
    send_noted(stream, ["small"])
    stream.run(spark)
    stream.configure(f"{stream.output}.rejects", max_message_bytes="200")  # less, and the broker could not end a transaction
    send_noted(stream, ["small", large_note()])
    with pytest.raises(TopicUnfit, match="refuses as too large what sink out tells beside its outputs") as stopped:
        stream.run(spark)
    assert exit_class_of(stopped.value) is ExitClass.CONFIGURATION
    assert len(stream.outputs()) == 1
