"""What a plain consumer of committed records finds in an output topic: every record once, in order, as the stream file says."""

import json
from collections import defaultdict
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from include.local_stack.stack import Stack
from jobs.failpoints import Failpoint, FailpointReached
from tests.outputs import OutputStream
from tests.streams import at, crash


def test_every_good_record_is_there_once_and_the_ledger_tells_of_all(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = OutputStream(stack, tmp_path)
    stream.send(400, bad=5, filtered=8)
    stream.run(spark)
    stream.send(300)
    stream.run(spark)
    assert stream.problems_of_outputs() == []
    assert stream.booked() == {"read": 713, "delivered": 700, "quarantined": 5, "filtered": 8}


def test_an_output_has_key_value_time_and_the_place_that_it_came_from(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = OutputStream(stack, tmp_path)
    stream.send(30)
    stream.run(spark)
    sent = {(one.partition, one.offset): one for one in stream.outputs(stream.name)}
    for output in stream.outputs():
        epoch, partition, offset, number = output.source
        source = sent[partition, offset]
        assert (epoch, number, output.time_ms) == (1, 0, source.time_ms)
        assert output.key == source.row["user_id"].encode()
        assert output.row == {
            **source.row,
            "amount": source.row["amount"],
            "ts": "2026-11-16T10:00:00.000000Z",
            "day": "2026-11-16",
            "amount_cents": 500,
        }


@pytest.mark.thorough("more partitions")
@pytest.mark.parametrize("partitions", [1, 7], ids=["fewer partitions than the source", "more partitions"])
def test_records_lie_where_the_rule_says(partitions: int, stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    """By key: all of a key in one partition. As the source: by its number. Fixed: all in one."""
    for rule in ("key", "source", partitions - 1):
        stream = OutputStream(stack, tmp_path, more={"partition": rule, "create": {"partitions": partitions}})
        stream.send(120)
        stream.run(spark)
        assert stream.problems_of_outputs() == []
        places = defaultdict(set)
        for one in stream.outputs():
            places[one.key if rule == "key" else one.source[1]].add(one.partition)
        assert all(len(found) == 1 for found in places.values())
        if rule == "source":
            assert places == {number: {number % partitions} for number in range(3)}
        if isinstance(rule, int):
            assert set().union(*places.values()) == {rule}


@pytest.mark.thorough("gzip", "snappy")
@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "zstd"])
def test_outputs_are_compressed_as_the_file_says(compression: str, stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = OutputStream(stack, tmp_path, more={"compression": compression})
    stream.send(60)
    stream.run(spark)
    assert stream.problems_of_outputs() == []


def test_one_column_is_the_value_as_it_is(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    """Bytes that are no text, a text, and NULL, which is a tombstone; without a key."""
    stream = OutputStream(stack, tmp_path, more={"value": "raw", "key": None})
    raw = "case when amount > 2 then unhex('FF00FE') when amount > 1 then encode('ä', 'UTF-8') end"
    stream.write_file(select={"raw": raw})
    for amount in (1, 2, 3):
        _send_order(stream, {"amount": amount})
    stream.run(spark)
    outputs = {one.source[2]: one for one in stream.outputs()}
    assert [outputs[offset].value for offset in range(3)] == [None, "ä".encode(), b"\xff\x00\xfe"]
    assert {one.key for one in outputs.values()} == {None}


def test_a_record_may_have_no_one_or_many_outputs(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = OutputStream(stack, tmp_path, more={"explode": "words"})
    stream.write_file(select={"words": "split(nullif(note, ''), ' ')"})
    for note in ("one", "", "first second third", None):
        _send_order(stream, {"note": note})
    stream.run(spark)
    outputs = sorted((*one.source[2:], one.row["words"]) for one in stream.outputs())
    assert outputs == [(0, 0, "one"), (2, 0, "first"), (2, 1, "second"), (2, 2, "third")]
    assert stream.booked() == {"read": 4, "delivered": 4}
    assert [line["outputs"] for note in stream.told() for line in note.get("ledger", ())] == [4]


def test_a_batch_of_which_nothing_is_left_moves_the_marks(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = OutputStream(stack, tmp_path)
    stream.send(0, filtered=50)
    stream.run(spark)
    stream.send(20)
    stream.run(spark)
    assert stream.problems_of_outputs() == []
    assert stream.booked() == {"read": 70, "delivered": 20, "filtered": 50}


@pytest.mark.thorough("quarantine.after_commit")
@pytest.mark.parametrize(
    "point",
    [Failpoint.AFTER_QUARANTINE, Failpoint.AFTER_COMMIT, Failpoint.BEFORE_TELLING, None],
    ids=lambda point: str(point or "whole"),
)
def test_beside_another_sink_each_has_its_own_tidemark(
    point: Failpoint | None, stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    """Also after a crash behind the quarantine, between the two, or when the topic has it and its log has not been told."""
    stream = OutputStream(stack, tmp_path)
    lake = {"kind": "delta_append", "table": stream.name, "partition_by": ["day"]}
    out = {"kind": "kafka", "connection": "kafka_main", "topic": stream.output, "create": {"partitions": 2}}
    stream.write_file(sinks={"lake": lake, "out": out})
    stream.send(250, bad=3)
    if point is not None:
        with at(point, crash), pytest.raises(FailpointReached):
            stream.run(spark)
        stream.send(100, bad=1)
    stream.run(spark)
    assert stream.problems() == []
    assert stream.problems_of_outputs() == []
    assert stream.booked()["read"] == len(stream.sent)


def _send_order(stream: OutputStream, changes: dict[str, object]) -> None:
    order = {"event_id": "e", "user_id": "u", "amount": 5, "ts": "2026-11-16T10:00:00Z", "note": None, **changes}
    producer = stream.producer()
    producer.produce(stream.name, json.dumps(order), partition=0)
    assert producer.flush(30) == 0
