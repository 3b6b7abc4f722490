"""Each kind of sink, from Kafka to its table: what the table holds is what plain arithmetic says, however the batches fall."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from include.contract.places import DatabaseTable
from include.local_stack.stack import Stack
from include.tidemarks.sink_state import read_sink
from include.tidemarks.sink_watch import SinkWatch
from jobs.failpoints import Failpoint, FailpointReached
from tests.streams import at, crash
from tests.warehouse import KINDS, Warehouse, WarehouseStream


@pytest.mark.parametrize("kind", KINDS)
def test_the_table_holds_what_plain_arithmetic_says(
    kind: str, stack: Stack, spark: SparkSession, warehouse: Warehouse, tmp_path: Path
) -> None:
    stream = WarehouseStream(stack, tmp_path, kind=kind)
    stream.send_orders(700)
    stream.send(0, bad=3, filtered=5)
    stream.run(spark)
    assert warehouse.problems(stream) == []
    stream.send_orders(200)
    with at(Failpoint.AFTER_COMMIT, crash), pytest.raises(FailpointReached):
        stream.run(spark)
    stream.write_file(source__max_records_per_batch=1_000)
    stream.send_orders(50)
    stream.run(spark)
    assert warehouse.problems(stream) == []
    booked = warehouse.booked(stream)
    assert booked.pop("read") == 958 == sum(booked.values())
    assert (booked["quarantined"], booked["filtered"]) == (3, 5)
    assert ("duplicates" in booked, "superseded" in booked) == (kind == "postgres_insert_new", kind == "postgres_upsert")


def test_a_watch_sees_what_a_full_read_sees(
    stack: Stack, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = WarehouseStream(stack, tmp_path)
    place = DatabaseTable("warehouse", "public", stream.name)
    for name, value in stream.variables().items():
        monkeypatch.setenv(name, value)
    watch = SinkWatch(place, stream.name, "rows")
    assert watch.look() == read_sink(place, stream.name, "rows")
    for _ in range(2):
        stream.send_orders(30)
        stream.run(spark)
        assert watch.look() == read_sink(place, stream.name, "rows")
        assert watch.look().tidemark is not None
