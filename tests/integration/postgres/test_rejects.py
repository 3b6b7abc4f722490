"""Rows that the database refuses are kept with its own message, in the transaction of the others (P3.6)."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from psycopg2.sql import SQL, Identifier
from pyspark.sql import SparkSession

from include.contract.exit_class import ExitClass
from include.local_stack.postgres import WAREHOUSE
from include.local_stack.stack import Stack
from jobs.postgres.copied_texts import NO_TEXT
from jobs.postgres.putting_in import CODE_OF_NO_TEXT, TooManyRejects
from tests.streams import exit_class_of
from tests.warehouse import Warehouse, WarehouseStream

SELECT = {"cents": "cast(amount * 100 as int)", "details": "note"}


class Refusing(WarehouseStream):
    """Its table has rules that some orders break."""

    def make_table(self, warehouse: Warehouse) -> None:
        warehouse.ask(
            SQL(
                "CREATE TABLE public.{} (event_id text PRIMARY KEY, amount numeric(6,1), cents smallint, details jsonb,"
                " user_id varchar(5) CHECK (user_id <> 'none'), ts timestamptz, _topic text, _topic_epoch integer, _partition"
                " integer, _offset bigint, _kafka_timestamp timestamptz, _generation bigint, _batch_id bigint)"
            ).format(Identifier(self.name))
        )
        self.write_file(select=SELECT, keep=["event_id", "user_id", "amount", "ts"], decode__schema="loose")

    def send_one(self, **changes: Any) -> None:
        order = {"event_id": f"e{len(self.orders)}", "user_id": "u", "amount": 1.5, "ts": "2026-11-16T10:00:00Z", "note": "{}"}
        producer = self.producer()
        producer.produce(self.name, json.dumps(order | changes), partition=0, on_delivery=self._heard(order | changes))
        assert producer.flush(30) == 0


@pytest.fixture
def stream(stack: Stack, warehouse: Warehouse, tmp_path: Path) -> Refusing:
    stream = Refusing(stack, tmp_path, partitions=1)
    schema = (stream.config / "schemas" / "order.yaml").read_text()
    (stream.config / "schemas" / "loose.yaml").write_text(schema.replace("required: true", "required: false"))
    stream.make_table(warehouse)
    return stream


BROKEN = {
    "a value too long": ({"user_id": "much too long"}, "22001", "value too long for type character varying(5)"),
    "too many spaces": ({"user_id": "ab        "}, "22P02", "ab         has more than 5 characters"),
    "a check": ({"user_id": "none"}, "23514", "violates check constraint"),
    "an overflow": ({"amount": 400.0}, "22003", "out of range for type smallint"),
    "a number too large": ({"amount": 123456.0}, "22003", None),
    "a digit too many": ({"amount": 1.25}, "22P02", "1.25 has more than 1 digits after the point"),
    "a zero byte": ({"user_id": "a\0b"}, CODE_OF_NO_TEXT, NO_TEXT.format("0x00")),
    "bad json": ({"note": "{no"}, "22P02", "invalid input syntax for type json"),
    "a zero byte in json": ({"note": json.dumps({"a": "\0"})}, "22P05", "unsupported Unicode escape sequence"),
    "no key": ({"event_id": None}, "23502", 'null value in column "event_id"'),
}


def test_each_refused_row_is_kept_with_its_code_and_message(stream: Refusing, spark: SparkSession, warehouse: Warehouse) -> None:
    refused = list(BROKEN.values())
    for changes, _, _ in refused:
        stream.send_one()
        stream.send_one(**changes)
    stream.run(spark)
    there = warehouse.rejects(stream)
    told = [(one["code"], one["message"]) for one in there]
    assert [code for code, _ in told] == [code for _, code, _ in refused]
    for (_, message), (_, _, wanted) in zip(told, refused, strict=True):
        assert wanted is None or wanted in message
    assert [one["offset"] for one in there] == [2 * number + 1 for number in range(len(refused))]
    assert {row["event_id"] for row in warehouse.rows(stream.name)} == {f"e{2 * number}" for number in range(len(refused))}
    booked = warehouse.booked(stream)
    assert booked == {"read": 2 * len(refused), "delivered": len(refused), "rejected": len(refused)}
    assert there[0]["row_as_text"]["user_id"] == "much too long"
    assert any(one["row_as_text"]["user_id"] == "a\N{SYMBOL FOR NULL}b" for one in there)


def test_the_message_about_a_zero_byte_is_the_databases_own(stack: Stack) -> None:
    with (
        closing(stack.postgres.connect(WAREHOUSE)) as connection,
        connection.cursor() as cursor,
        pytest.raises(psycopg2.Error) as refusal,
    ):
        cursor.execute("SELECT convert_from('\\x610062', 'UTF8')")
    assert (refusal.value.pgcode, refusal.value.diag.message_primary) == (CODE_OF_NO_TEXT, NO_TEXT.format("0x00"))


def test_a_text_that_is_no_text_is_rejected_with_all_of_its_many_columns(
    stack: Stack, spark: SparkSession, warehouse: Warehouse, tmp_path: Path
) -> None:
    """Only an expression can make one. It would break off the COPY of all rows; and PostgreSQL's functions have few arguments."""
    stream = WarehouseStream(stack, tmp_path, partitions=1)
    stream.write_file(select={"odd": "cast(unhex(note) as string)", **{f"more{number}": "amount" for number in range(60)}})
    producer = stream.producer()
    for identity, note in (("good", "c3a9"), ("bad", "61ff62")):
        order = {"event_id": identity, "user_id": "u", "amount": 1.5, "ts": "2026-11-16T10:00:00Z", "note": note}
        producer.produce(stream.name, json.dumps(order), partition=0)
    assert producer.flush(30) == 0
    stream.run(spark)
    assert [(row["event_id"], row["odd"]) for row in warehouse.rows(stream.name)] == [("good", "é")]
    (reject,) = warehouse.rejects(stream)
    assert (reject["code"], reject["message"]) == (CODE_OF_NO_TEXT, NO_TEXT.format("0xff"))
    assert (reject["row_as_text"]["odd"], reject["row_as_text"]["more59"]) == ("a\ufffdb", "1.50")


def test_more_than_the_budget_stops_the_stream_and_nothing_is_written(
    stream: Refusing, spark: SparkSession, warehouse: Warehouse
) -> None:
    stream.write_file(
        select=SELECT, keep=["event_id", "user_id", "amount", "ts"], decode__schema="loose", source__max_records_per_batch=1_000
    )
    for number in range(120):
        stream.send_one(event_id=str(number), user_id="much too long" if number < 101 else "u")
    with pytest.raises(
        TooManyRejects, match="refuses more than 100 rows of batch 0: partition 0, offset 0: value too long"
    ) as stop:
        stream.run(spark)
    assert exit_class_of(stop.value) is ExitClass.POISON
    assert warehouse.rows(stream.name) == warehouse.rejects(stream) == []


def test_a_rejected_row_is_kept_once_when_its_batch_is_replayed(
    stream: Refusing, spark: SparkSession, warehouse: Warehouse
) -> None:
    stream.send_one(user_id="much too long")
    stream.send_one()
    stream.run(spark)
    stream.run(spark)
    stream.send_one(user_id="much too long")
    stream.run(spark)
    assert [one["offset"] for one in warehouse.rejects(stream)] == [0, 2]
    assert warehouse.booked(stream) == {"read": 3, "delivered": 1, "rejected": 2}


def test_a_newest_row_that_is_refused_leaves_the_one_before_it(
    stack: Stack, spark: SparkSession, warehouse: Warehouse, tmp_path: Path
) -> None:
    stream = WarehouseStream(stack, tmp_path, kind="postgres_upsert", partitions=1)
    stream.send_orders(40)
    stream.run(spark)
    warehouse.ask(SQL("ALTER TABLE public.{} ADD CHECK (amount < 990) NOT VALID").format(Identifier(stream.name)))
    stream.send_orders(60)
    late = {"event_id": "x", "user_id": "u1", "amount": "995.00", "ts": "2027-01-01T00:00:00Z", "note": None}
    producer = stream.producer()
    producer.produce(stream.name, json.dumps(late | {"amount": 995.0}), partition=0)
    assert producer.flush(30) == 0
    stream.run(spark)
    for place in [place for place, order in stream.orders.items() if float(order["amount"]) >= 990 and place[1] >= 40]:
        del stream.orders[place]
    assert warehouse.problems(stream) == []
    booked = warehouse.booked(stream)
    assert booked.pop("read") == 101 == sum(booked.values())
    assert booked["rejected"] >= 1
