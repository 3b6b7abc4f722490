"""Bad records are kept with all they came with, once, before the sinks; and a flood of them stops the stream (P3.3, P3.6)."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from include.contract.exit_class import ExitClass
from include.local_stack.stack import Stack
from jobs.failpoints import Failpoint, FailpointReached
from jobs.quarantine import TooManyBadRecords
from tests.streams import BAD_VALUES, TrialStream, at, crash, damaged, exit_class_of, order

REASONS = ["tombstone", "empty", "not_json", "invalid_utf8", "not_an_object", "wrong_type", "missing_field", "too_big"]


def kept(stream: TrialStream) -> list[dict[str, Any]]:
    rows = DeltaTable(stream.quarantine).to_pyarrow_table().to_pylist()
    return sorted(rows, key=lambda row: (row["_spec_hash"], row["_partition"], row["_offset"]))


def test_each_kind_is_kept_with_bytes_key_headers_time_and_reason(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = TrialStream(stack, tmp_path, partitions=1)
    producer = stream.producer()
    for value in BAD_VALUES:
        producer.produce(
            stream.name, value, b"a key", partition=0, headers=[("h", b"\xff"), ("h", None)], timestamp=1_700_000_000_123
        )
    producer.flush(15)
    stream.run(spark)
    rows = kept(stream)
    assert [row["_reason"] for row in rows] == REASONS
    assert [row["_value"] for row in rows] == BAD_VALUES
    assert [row["_offset"] for row in rows] == list(range(len(BAD_VALUES)))
    assert {row["_key"] for row in rows} == {b"a key"}
    assert rows[0]["_headers"] == [{"key": "h", "value": b"\xff"}, {"key": "h", "value": None}]
    assert {row["_kafka_timestamp"].timestamp() for row in rows} == {1_700_000_000.123}
    assert "field amount" in rows[5]["_detail"]
    assert stream.rows() == []
    assert [line["quarantined"] for note in stream.notes() for line in note.get("ledger", ())] == [len(BAD_VALUES)]


def test_tombstones_and_extra_fields_follow_the_policy_of_the_file(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = TrialStream(stack, tmp_path, partitions=1)
    stream.write_file(decode__tombstones="filter", decode__extra_fields="quarantine")
    stream.send(2)
    producer = stream.producer()
    extra = {"event_id": "e", "user_id": "u", "amount": 1, "ts": "2026-01-02T03:04:05Z", "surprise": 1}
    for value in (None, json.dumps(extra).encode()):
        producer.produce(stream.name, value, partition=0)
    producer.flush(15)
    stream.run(spark)
    (line,) = [line for note in stream.notes() for line in note.get("ledger", ())]
    assert line == {"partition": 0, "start": 0, "end": 4, "read": 4, "delivered": 2, "quarantined": 1, "filtered": 1}
    assert [(row["_reason"], row["_detail"]) for row in kept(stream)] == [("extra_field", "field surprise")]


def test_more_than_the_budget_stops_the_stream_and_writes_nothing(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = TrialStream(stack, tmp_path, partitions=1)
    stream.send(99, bad=101)
    with pytest.raises(TooManyBadRecords, match=r"101 of 200 records cannot be decoded.*first: partition 0, offset") as stopped:
        stream.run(spark)
    assert exit_class_of(stopped.value) is ExitClass.POISON
    assert stopped.value.evidence["partition"] == 0
    assert stream.rows() == []
    assert kept(stream) == []


def test_exactly_the_budget_passes(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = TrialStream(stack, tmp_path, partitions=1)
    stream.send(50, bad=100)
    stream.run(spark)
    assert stream.problems() == []


def test_of_500_fuzzed_records_each_is_delivered_filtered_or_quarantined(
    stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    """Through the whole driver: whatever bytes come, no batch fails and the books are exact."""
    stream = TrialStream(stack, tmp_path, partitions=1, changes={"source__max_records_per_batch": 100})
    chance, producer = random.Random(4), stream.producer()  # noqa: S311 - not a secret
    for number in range(500):
        producer.produce(stream.name, damaged(chance, order(f"e{number}", 5)), partition=0)
    assert producer.flush(30) == 0
    stream.run(spark)
    lines = [line for note in stream.notes() for line in note.get("ledger", ())]
    read, delivered, quarantined, filtered = (
        sum(line.get(name, 0) for line in lines) for name in ("read", "delivered", "quarantined", "filtered")
    )
    assert read == delivered + quarantined + filtered == 500
    assert min(delivered, quarantined), "the damage is neither nothing nor everything"
    offsets = [row["_offset"] for row in (*stream.rows(), *kept(stream))]
    assert (len(offsets), len(set(offsets))) == (500 - filtered, 500 - filtered)


def test_a_file_that_changed_between_crash_and_restart_judges_the_records_anew(
    stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    """Quarantined under the old file, then a crash before the sink: under the new file the same record is good."""
    stream = TrialStream(stack, tmp_path, partitions=1)
    stream.write_file(decode__max_value_bytes="130 B")
    stream.send(20, bad=8)
    longer = {"event_id": "long", "user_id": "u", "amount": 1, "ts": "2026-01-02T03:04:05Z", "note": "n" * 100}
    producer = stream.producer()
    producer.produce(stream.name, json.dumps(longer).encode(), partition=0)
    producer.flush(15)
    with pytest.raises(FailpointReached), at(Failpoint.AFTER_QUARANTINE, crash):
        stream.run(spark)
    assert (len(kept(stream)), len(stream.rows())) == (9, 0)
    stream.write_file()
    stream.run(spark)
    assert len(stream.rows()) == 21
    assert [len({row["_spec_hash"] for row in kept(stream) if row["_generation"] == number}) for number in (1, 2)] == [1, 1]
    assert [sum(row["_generation"] == number for row in kept(stream)) for number in (1, 2)] == [9, 8]
    (line,) = [line for note in stream.notes() if note["kind"] == "batch" for line in note["ledger"]]
    assert (line["read"], line["delivered"], line["quarantined"]) == (29, 21, 8)
