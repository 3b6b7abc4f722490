"""A table that holds the newest row of each key: what plain arithmetic says, however the records come."""

from pathlib import Path

from pyspark.sql import SparkSession

from include.local_stack.stack import Stack
from tests.latest import LatestStream


def test_the_table_holds_the_newest_row_of_each_key(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    """Several rows of a key in one batch, later and earlier ones in the next, ties, deletes; over three starts."""
    stream = LatestStream(stack, tmp_path)
    for _ in range(3):
        stream.send_orders(400)
        stream.run(spark)
        assert stream.wrong_keys() == []
    booked = stream.booked()
    assert booked.pop("read") == 1200 == sum(booked.values())


def test_a_record_without_a_key_is_rejected_and_kept(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = LatestStream(stack, tmp_path)
    stream.send_orders(100, without_key=3)
    stream.run(spark)
    assert stream.wrong_keys() == []
    assert stream.booked()["rejected"] == 3
    kept = stream.kept_aside()
    assert {(row["_sink"], row["_reason"], row["_detail"]) for row in kept} == {("lake", "rejected", "key user_id has no value")}
    assert {(row["_partition"], row["_offset"]) for row in kept} == {
        place for place, one in stream.records.items() if one["user_id"] is None
    }
