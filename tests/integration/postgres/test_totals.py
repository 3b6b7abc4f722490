"""Totals are added up by Spark, per key; where the database refuses some, it judges every record by itself (P3.6)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from psycopg2.sql import SQL, Identifier
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from include.contract.stream_spec import PostgresTotals
from include.local_stack.stack import Stack
from jobs.failpoints import Failpoint
from jobs.postgres.books import digest_of
from jobs.postgres.copied_texts import NO_TEXT
from jobs.postgres.partial_totals import RECORDS, added_up, can_be_added_up, each_by_itself
from tests.streams import at
from tests.warehouse import Warehouse, WarehouseStream

ONE_BY_ONE = "it takes record by record, for"


@pytest.fixture
def stream(stack: Stack, tmp_path: Path) -> WarehouseStream:
    return WarehouseStream(stack, tmp_path, kind="postgres_totals", partitions=2)


def rows_staged(stream: WarehouseStream, warehouse: Warehouse, run: Callable[[], None]) -> int:
    """When the first batch is about to commit."""
    found: list[int] = []

    def count() -> None:
        (table,) = warehouse.ask(
            "SELECT relname FROM pg_class WHERE starts_with(relname, %s)", f"staging_{digest_of(f'public.{stream.name}')}"
        )
        found.append(warehouse.ask(SQL("SELECT count(*) FROM tidemark.{}").format(Identifier(table["relname"])))[0]["count"])

    with at(Failpoint.BEFORE_COMMIT, count):
        run()
    return found[0]


def test_a_row_for_each_key_is_staged(stream: WarehouseStream, spark: SparkSession, warehouse: Warehouse) -> None:
    stream.send_orders(200)
    assert rows_staged(stream, warehouse, lambda: stream.run(spark)) == 20
    assert warehouse.problems(stream) == []
    assert warehouse.booked(stream) == {"read": 200, "delivered": 200}


def test_a_record_that_is_refused_is_kept_and_the_others_are_added(
    stream: WarehouseStream, spark: SparkSession, warehouse: Warehouse, capsys: pytest.CaptureFixture[str]
) -> None:
    stream.send_orders(40)
    stream.run(spark)
    stream.send_orders(60)
    send(stream, user_id="a\0b")
    warehouse.ask(SQL("ALTER TABLE public.{} ADD CHECK (amount_cents < 900000000)").format(Identifier(stream.name)))
    send(stream, user_id="u1", amount=9_999_999.99)
    stream.run(spark)
    assert ONE_BY_ONE in capsys.readouterr().out
    assert warehouse.problems(stream) == []
    no_text, too_much = (one["message"] for one in warehouse.rejects(stream))
    assert no_text == NO_TEXT.format("0x00")
    assert "violates check constraint" in too_much
    assert warehouse.booked(stream) == {"read": 102, "delivered": 100, "rejected": 2}


def test_a_value_that_the_table_cannot_hold_does_not_hide_in_a_total(
    stream: WarehouseStream, spark: SparkSession, warehouse: Warehouse, capsys: pytest.CaptureFixture[str]
) -> None:
    """The least amount of the key fits; the one with a digit too many is not the least."""
    warehouse.ask(
        SQL(
            "CREATE TABLE public.{} (user_id text PRIMARY KEY, amount_cents bigint, orders bigint NOT NULL,"
            " amount_min numeric(12,1), amount_max numeric)"
        ).format(Identifier(stream.name))
    )
    for _ in range(2):
        send(stream, amount=1.5)
        send(stream, amount=2.25)
        stream.run(spark)
    assert ONE_BY_ONE not in capsys.readouterr().out, "that was known from the start"
    (row,) = warehouse.rows(stream.name)
    assert (row["amount_cents"], row["orders"]) == (300, 2)
    assert [one["offset"] for one in warehouse.rejects(stream)] == [1, 3]


def send(stream: WarehouseStream, **changes: Any) -> None:
    order = {"event_id": "e", "user_id": "u", "amount": 1.5, "ts": "2026-11-16T10:00:00Z", "note": None} | changes
    producer = stream.producer()
    producer.produce(stream.name, json.dumps(order), partition=0)
    assert producer.flush(30) == 0


SINK = PostgresTotals(
    kind="postgres_totals", connection="warehouse", table="t", key=["k"], sum=["v"], count="n", min=["v"], max=["t"]
)
SHAPE = "_partition int, _offset bigint, k string, v bigint, t timestamp"


def test_sums_beyond_a_bigint_are_exact(spark: SparkSession) -> None:
    greatest = 2**63 - 1
    rows = spark.createDataFrame([(0, 0, "a", greatest, None), (1, 7, "a", greatest, None), (0, 1, "b", None, None)], SHAPE)
    assert can_be_added_up(SINK, rows.schema)
    there = {row["k"]: (row["v"], row["v_min"], row["t_max"], row[RECORDS]) for row in added_up(rows, SINK).collect()}
    assert there == {"a": (2 * greatest, greatest, None, 2), "b": (None, None, None, 1)}
    assert added_up(rows, SINK).columns == each_by_itself(rows, SINK).columns


def test_a_time_that_postgresql_does_not_know_does_not_hide_behind_another(spark: SparkSession) -> None:
    times = ("2026-11-16 10:00:00", "0000-06-01 00:00:00", "2025-01-01 00:00:00")
    rows = spark.createDataFrame([(0, number, "a", 1, time) for number, time in enumerate(times)], f"{SHAPE[:-9]} string")
    added = added_up(rows.withColumn("t", F.col("t").cast("timestamp")), SINK)
    assert [row["t_max"] for row in added.select(F.col("t_max").cast("string")).orderBy("t_max").collect()] == [
        times[1],
        times[0],
    ]


@pytest.mark.parametrize(
    "shape",
    ["k string, v decimal(38,2), t timestamp", "k string, v bigint, t string", "k string collate UTF8_LCASE, v bigint, t date"],
)
def test_what_could_overflow_hide_or_be_taken_for_another_is_judged_one_by_one(spark: SparkSession, shape: str) -> None:
    assert not can_be_added_up(SINK, spark.createDataFrame([], shape).schema)
