"""Each kind of sink, from Kafka to its table: what the table holds is what plain arithmetic says, however the batches fall."""

import json
from contextlib import closing
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from include.contract.places import DatabaseTable
from include.local_stack.postgres import WAREHOUSE
from include.local_stack.stack import Stack
from include.tidemarks.postgres_log import BOOKS
from include.tidemarks.sink_state import read_sink
from include.tidemarks.sink_watch import SinkWatch
from jobs.failpoints import Failpoint, FailpointReached
from jobs.postgres.staging import Staged, Staging
from jobs.postgres.wanted_table import TypeRefused
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


def test_totals_of_values_that_are_not_there(stack: Stack, spark: SparkSession, warehouse: Warehouse, tmp_path: Path) -> None:
    """NULL adds nothing, and is what nothing adds up to; texts are ordered byte by byte, however the batches fall."""
    totals = {"sum": ["points", "amount"], "count": "orders", "min": ["note", "day"], "max": ["note", "points"]}
    stream = WarehouseStream(stack, tmp_path, kind="postgres_totals", more=totals, partitions=1)
    stream.write_file(select={"points": "try_cast(note as int)", "day": "date(ts)"}, source__max_records_per_batch=2)
    producer = stream.producer()
    notes = {"a": [None, None], "b": ["7", None, "-2"], "c": ["B", "a", "Z", "b"]}
    for user, found in notes.items():
        for number, note in enumerate(found):
            order = {"event_id": f"{user}{number}", "user_id": user, "amount": 0.1, "ts": "2026-11-16T10:00:00Z", "note": note}
            producer.produce(stream.name, json.dumps(order), partition=0)
    assert producer.flush(30) == 0
    stream.run(spark)
    day, amount = date(2026, 11, 16), Decimal("0.10")
    wanted = {
        "a": {"points": None, "orders": 2, "note_min": None, "note_max": None, "points_max": None},
        "b": {"points": 5, "orders": 3, "note_min": "-2", "note_max": "7", "points_max": 7},
        "c": {"points": None, "orders": 4, "note_min": "B", "note_max": "b", "points_max": None},
    }
    there = {row.pop("user_id"): row for row in warehouse.rows(stream.name)}
    assert there == {user: {**one, "amount": one["orders"] * amount, "day_min": day} for user, one in wanted.items()}


def test_an_attempt_that_was_repeated_is_staged_once(stack: Stack, warehouse: Warehouse) -> None:
    """Its rows were committed, but its task never said so: nobody asks for them."""
    warehouse.ask(BOOKS)
    staging = Staging(stack.postgres.connection(WAREHOUSE), "tests", "staging_tests_1", 1)
    with closing(stack.postgres.connect(WAREHOUSE)) as connection, connection:
        staging.make(connection.cursor())
    batch = pa.record_batch({"partition": pa.array([0, 0], pa.int32()), "offset": pa.array([1, 2], pa.int64()), "c0": ["a", "b"]})
    _, (told,) = list(staging._copy([batch])), list(staging._copy([batch]))
    staged = Staged(told["token"].to_pylist(), 2, 2, has_places=True)
    assert len(warehouse.ask(staging.rows_of(staged))) == 2
    assert warehouse.ask("SELECT count(*) AS n FROM tidemark.staging_tests_1") == [{"n": 4}]
    staging.drop()


@pytest.mark.parametrize("type_", ["boolean", "array<int>"])
def test_a_least_value_of_a_type_without_order_is_refused_at_the_start(
    type_: str, stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    stream = WarehouseStream(stack, tmp_path, kind="postgres_totals", more={"min": ["odd"]})
    stream.write_file(select={"odd": f"cast(null as {type_})", "amount_cents": "1L"})
    with pytest.raises(TypeRefused, match="does not know the lower and the higher"):
        stream.run(spark)


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
