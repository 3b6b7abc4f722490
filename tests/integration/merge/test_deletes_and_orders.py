"""Deletes, and orders that are no column of the record."""

import json
from pathlib import Path

import pytest
from confluent_kafka.admin import NewPartitions
from delta.tables import DeltaTable
from deltalake import DeltaTable as Reader
from pyspark.sql import SparkSession

from include.local_stack.stack import Stack
from jobs.merge_table import PartitionsChanged
from tests.latest import LatestStream, rows_of
from tests.running import wait_for

ORDER = {"event_id": "e", "amount": 1, "ts": "2026-11-16T10:00:00Z"}


def _send(stream: LatestStream, key: str | None, value: dict[str, object] | None) -> None:
    producer = stream.producer()
    text = None if value is None else json.dumps(ORDER | value)
    producer.produce(stream.name, text, key, partition=0)
    assert producer.flush(30) == 0


def _there(stream: LatestStream) -> dict[str, bool]:
    return {row["user_id"]: row["_deleted"] for row in rows_of(stream.table)}


def test_a_tombstone_deletes_and_its_key_may_come_back(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    """One without a key that can be read is quarantined. `where` and `select` have nothing to say about a tombstone."""
    stream = LatestStream(stack, tmp_path, partitions=1, sink={"order": "offset"})
    stream.write_file(decode__tombstones="delete")
    for key in ("a", "b", "c"):
        _send(stream, key, {"user_id": key})
    for key in ("a", "b", "never there", None):
        _send(stream, key, None)
    _send(stream, "b", {"user_id": "b"})
    stream.run(spark)
    assert _there(stream) == {"a": True, "b": False, "c": False, "never there": True}
    _send(stream, "a", {"user_id": "a"})
    _send(stream, "c", None)
    stream.run(spark)
    assert _there(stream) == {"a": False, "b": False, "c": True, "never there": True}
    assert [(row["_reason"], row["_sink"]) for row in stream.kept_aside()] == [("tombstone", None)]
    assert stream.booked() == {"read": 10, "delivered": 6, "quarantined": 1, "superseded": 3}


def test_a_late_older_record_does_not_bring_a_deleted_key_back(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = LatestStream(stack, tmp_path, partitions=1)
    _send(stream, None, {"user_id": "a", "ts": "2026-11-16T10:00:00Z", "gone": True})
    stream.run(spark)
    _send(stream, None, {"user_id": "a", "ts": "2026-11-16T09:00:00Z"})
    stream.run(spark)
    assert _there(stream) == {"a": True}
    assert stream.booked() == {"read": 2, "delivered": 1, "superseded": 1}
    _send(stream, None, {"user_id": "a", "ts": "2026-11-16T11:00:00Z"})
    stream.run(spark)
    assert _there(stream) == {"a": False}


def test_offsets_are_no_order_any_more_when_the_topic_gets_partitions(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    """Found at a start, and by a driver that runs; another order goes on."""
    stream = LatestStream(stack, tmp_path, partitions=1, sink={"order": "offset"})
    _send(stream, "a", {"user_id": "a"})
    with stream.running(spark) as running:
        wait_for("the first row", lambda: Reader.is_deltatable(str(stream.table)) and _there(stream) == {"a": False}, 60)
        _add_partition(stream, 2)
        assert isinstance(running.wait_until_it_fails(), PartitionsChanged)
    with pytest.raises(PartitionsChanged, match="the topic has 2 partitions instead of 1"):
        stream.run(spark)
    stream.sink = {"order": "_kafka_timestamp"}
    stream.write_file()
    stream.run(spark)
    assert _there(stream) == {"a": False, "b": False}


def _add_partition(stream: LatestStream, partitions: int) -> None:
    admin = stream.admin()  # kept until its answer has come
    admin.create_partitions([NewPartitions(stream.name, partitions)])[stream.name].result(15)
    producer = stream.producer()
    producer.produce(stream.name, json.dumps(ORDER | {"user_id": "b"}), "b", partition=1)
    assert producer.flush(30) == 0


def test_only_files_that_may_hold_the_keys_are_read(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    """By partition and by range of keys: of four files, one; and the commit names no other."""
    stream = LatestStream(stack, tmp_path, partitions=1, sink={"key": ["note", "user_id"], "partition_by": ["note"]})
    for user in ("a", "z"):
        for day in ("monday", "tuesday"):
            _send(stream, None, {"user_id": user, "note": day})
        stream.run(spark)
    for file in stream.table.glob("note=monday/*.parquet"):
        file.unlink()
    _send(stream, None, {"user_id": "z", "note": "tuesday", "ts": "2026-11-16T11:00:00Z"})
    stream.run(spark)
    newest = max((stream.table / "_delta_log").glob("*.json")).read_text().splitlines()
    removed = [action["remove"]["path"] for line in newest if "remove" in (action := json.loads(line))]
    assert [path.partition("/")[0] for path in removed] == ["note=tuesday"]


def test_a_plain_write_after_a_merge_is_not_skipped(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    """Delta skips a write whose transaction number is in the session's settings: a merge leaves none there."""
    stream = LatestStream(stack, tmp_path)
    stream.send_orders(50)
    stream.run(spark)
    left = [key for key, _ in spark.sql("SET").collect() if "txn" in key.lower() or "userMetadata" in key]
    assert left == []
    place = str(tmp_path / "plain")
    for _ in range(2):
        spark.range(5).write.format("delta").mode("append").save(place)
    assert DeltaTable.forPath(spark, place).toDF().count() == 10
