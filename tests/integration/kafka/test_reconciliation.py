"""Kafka against an output topic: what was delivered passes, window after window; what is wrong there is found and named (P7)."""

import json
import re
import uuid
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from pyspark.sql import SparkSession

from include.control.database import ControlDatabase
from include.control.windows import Verdict
from include.local_stack.stack import Stack
from include.tidemarks import kafka_log, kafka_records
from tests.integration.kafka.executors import patched_workers
from tests.integration.kafka.test_changed_topics import QUICKLY_COMPACTED
from tests.integration.reconciliation.trial import Trial
from tests.outputs import Output, OutputStream
from tests.running import wait_for

LOST, CHANGED, TWICE, COPIED_LATER, REJECTED = (1, 40), (1, 41), (1, 5), (1, 6), (0, 3)
AS_IT_IS = "            for number, (key, value) in enumerate(outputs):\n"
HARMED = f"""            if (partition, offset) == {CHANGED}:
                outputs = [(key, b'{{}}') for key, _ in outputs]
            for number, (key, value) in enumerate([] if (partition, offset) == {LOST} else outputs):
"""


@pytest.fixture
def trial(stack: Stack, spark: SparkSession, own_control: ControlDatabase, tmp_path: Path) -> Trial:
    stream = OutputStream(stack, tmp_path, own_control=own_control)
    return Trial(stack, spark, tmp_path, own_control, stream)


def send_notes(stream: OutputStream, *notes: str | None) -> None:
    producer = stream.producer()
    for number, note in enumerate(notes):
        order = {"event_id": uuid.uuid4().hex, "user_id": "u", "amount": 5, "ts": "2026-11-16T10:00:00Z", "note": note}
        producer.produce(stream.name, json.dumps(order), partition=number % stream.partitions)
    assert producer.flush(30) == 0


def add(stream: OutputStream, topic: str, *outputs: Output) -> None:
    """By somebody who is not the stream."""
    producer = stream.producer()
    for one in outputs:
        producer.produce(topic, one.value, one.key, one.partition, headers=list(one.headers.items()))
    assert producer.flush(30) == 0


def of_source(stream: OutputStream, place: tuple[int, int]) -> Output:
    return next(one for one in stream.outputs() if one.source[1:3] == place)


def test_every_fault_is_found_and_named(trial: Trial, spark: SparkSession, tmp_path: Path) -> None:
    stream = trial.stream
    assert isinstance(stream, OutputStream)
    trial.deliver(100)
    with patched_workers(spark, tmp_path / "harmed", "jobs/kafka/sending.py", AS_IT_IS, HARMED):
        trial.deliver(90)
    reject = json.dumps({"epoch": 1, "partition": REJECTED[0], "offset": REJECTED[1], "why": "somebody says so"}).encode()
    add(stream, stream.output, of_source(stream, TWICE), Output(2, 0, b"k", b"without a source", 0, {}))
    add(stream, f"{stream.output}.rejects", Output(0, 0, None, reject, 0, {}))
    trial.deliver(30)
    window = trial.judged()
    assert window.verdict is Verdict.FAILED
    ids = {place: stream.sent[place]["id"] for place in (LOST, CHANGED, TWICE)}
    wanted = {
        "a missing output": rf"1 lost in partition 1: offset 40 \(event_id {ids[LOST]}",
        "a changed value": rf"1 changed since they were delivered in partition 1: offset 41 \(event_id {ids[CHANGED]}",
        "a duplicated output": rf"1 delivered twice in partition 1: offset 5 \(event_id {ids[TWICE]}",
        "a record of somebody else": r"1 records in topic \w+ are none of this window's outputs, the first in its partition 2 at",
        "without a header": r"without a source",
        "a reject of somebody else": r"stands in the rejects once \(partition 0: booked_rejected 0, reject_rows 1\)",
    }
    unnamed = [fault for fault, told in wanted.items() if not re.search(told, window.told or "")]
    assert unnamed == [], window.told


@pytest.mark.thorough
def test_a_copy_behind_a_window_is_found_in_the_next(trial: Trial) -> None:
    stream = trial.stream
    assert isinstance(stream, OutputStream)
    trial.deliver(60)
    assert trial.judged().verdict is Verdict.PASSED
    add(stream, stream.output, of_source(stream, COPIED_LATER))
    trial.deliver(30)
    window = trial.judged()
    assert window.verdict is Verdict.FAILED
    assert "a copy of partition 1, offset 6" in (window.told or ""), window.told


def test_windows_pass_with_no_one_and_many_outputs_with_rejects_and_another_file(trial: Trial, spark: SparkSession) -> None:
    stream = trial.stream
    assert isinstance(stream, OutputStream)
    stream.more["explode"] = "words"
    stream.write_file(select={"words": "split(nullif(note, ''), ' ')"})
    send_notes(stream, "one", "", "first second third", None, "a b")
    stream.run(spark)
    first = trial.judged()
    assert (first.verdict, first.offsets) == (Verdict.PASSED, 5), first.told
    stream.configure(stream.output, max_message_bytes="3000")
    send_notes(stream, "x" * 4_000, "one " + "y" * 4_000, "small", "")
    stream.run(spark)
    stream.write_file(select={"words": "split(upper(note), ' ')"})
    send_notes(stream, "in capitals", None, "z" * 4_000)
    stream.run(spark)
    second = trial.judged()
    assert (second.verdict, second.offsets) == (Verdict.PASSED, 7), second.told
    assert stream.booked() == {"read": 12, "delivered": 9, "rejected": 3}
    assert {one.row["words"] for one in stream.outputs()} >= {"small", "IN", "CAPITALS"}


@pytest.mark.thorough
def test_what_the_topic_no_longer_has_is_not_judged(trial: Trial) -> None:
    stream = trial.stream
    assert isinstance(stream, OutputStream)
    trial.deliver(60)
    assert trial.judged().verdict is Verdict.PASSED
    trial.deliver(60)
    stream.configure(stream.output, cleanup_policy="compact")
    compacted = trial.judged()
    assert compacted.verdict is Verdict.NOT_JUDGED
    assert "is compacted: later outputs of a key have replaced earlier ones" in (compacted.told or "")
    stream.configure(stream.output, cleanup_policy="delete")
    trial.deliver(60)
    last = max(one.offset for one in stream.outputs() if one.partition == 2)
    place = TopicPartition(stream.output, 2, last)
    admin = stream.admin()
    admin.delete_records([place])[place].result(15)
    expired = trial.judged()
    assert expired.verdict is Verdict.NOT_JUDGED
    assert f"{stream.output} begins partition 2 at {last:,}, the window's outputs at" in (expired.told or "")


@pytest.mark.thorough
def test_a_window_whose_beginning_was_compacted_away_is_closed_and_never_passed(
    trial: Trial, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody reconciled for so long that newer commits of the log have replaced those with which it begins: what they booked
    cannot be audited, which is told, once."""
    monkeypatch.setattr(kafka_records, "KEPT_COMMITS", 8)
    stream = trial.stream
    assert isinstance(stream, OutputStream)
    trial.deliver(30)
    assert trial.judged().verdict is Verdict.PASSED
    stream.configure(f"{stream.output}.tidemarks", **QUICKLY_COMPACTED)
    for _ in range(4):
        trial.deliver(30)
    wait_for("the cleaner", lambda: min(note_versions(stream)) > 3, 60)
    kafka_log._log.cache_clear()  # who measures is another process, which has read nothing yet
    late = trial.judged()
    assert late.verdict is Verdict.FAILED
    assert "findings is" in (late.told or "")
    trial.deliver(30)
    assert trial.judged().verdict is Verdict.PASSED


def note_versions(stream: OutputStream) -> list[int]:
    return [one.row["version"] for one in stream.outputs(f"{stream.output}.tidemarks") if one.partition == 0]
