"""Every type that a stream may have arrives in PostgreSQL as it was, NULL everywhere and every character there is."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from psycopg2.sql import SQL, Identifier
from pyspark.sql import SparkSession

from include.local_stack.stack import Stack
from jobs.postgres.wanted_table import TypeRefused
from tests.warehouse import Warehouse, WarehouseStream

FIELDS = {
    "t": "string",
    "b": "boolean",
    "i1": "tinyint",
    "i2": "smallint",
    "i4": "int",
    "i8": "bigint",
    "f4": "float",
    "f8": "double",
    "n": "decimal(20,4)",
    "d": "date",
    "ts": "timestamp",
    "texts": "array<string>",
    "numbers": "array<bigint>",
    "prices": "array<decimal(12,2)>",
    "times": "array<timestamp>",
    "deep": "array<struct<a:int,b:string>>",
    "parts": "struct<a:int,b:string>",
    "pairs": "map<string,double>",
}
VALUES: dict[str, Any] = {
    "t": "',\"\\N \\. \n\r\t\x01\x7f é 漢 \U0001f600 \\x41 {}",
    "b": True,
    "i1": -128,
    "i2": 32767,
    "i4": -(2**31),
    "i8": 2**63 - 1,
    "f4": 0.25,
    "f8": 1.7976931348623157e308,
    "n": Decimal("-1234567890123456.7890"),
    "d": date(1066, 10, 14),
    "ts": datetime(2026, 3, 29, 1, 30, 0, 123456, tzinfo=UTC),
    "texts": ["", None, "NULL", '{"a,b}', "\\"],
    "numbers": [1, None, -(2**63)],
    "prices": [Decimal("0.10"), None],
    "times": [datetime(2026, 3, 29, 1, 30, 0, 123456, tzinfo=UTC), None],
    "deep": [{"a": 1, "b": None}, None],
    "parts": {"a": None, "b": "x"},
    "pairs": {"k": 0.5, "": None},
}
NEW_TYPES = {
    **{"t": "text", "b": "boolean", "i1": "smallint", "i2": "smallint", "i4": "integer", "i8": "bigint", "f4": "real"},
    **{"f8": "double precision", "n": "numeric", "d": "date", "ts": "timestamp with time zone", "texts": "ARRAY"},
    **{
        "numbers": "ARRAY",
        "prices": "ARRAY",
        "times": "ARRAY",
        "deep": "jsonb",
        "parts": "jsonb",
        "pairs": "jsonb",
        "bytes": "bytea",
    },
}


class Typed(WarehouseStream):
    def describe(self, fields: dict[str, str], **more: Any) -> None:
        lines = "".join(f'  {name}: {{type: "{kind}"}}\n' for name, kind in {"id": "bigint", **fields}.items())
        (self.config / "schemas" / "typed.yaml").write_text(f"description: all types\nfields:\n{lines}")
        self.more = {"key": ["id"]}
        self.write_file(decode__schema="typed", where=None, select={}, reconcile__unique=["id"], **more)

    def send_values(self, *records: dict[str, Any]) -> None:
        producer = self.producer()
        for number, record in enumerate(records):
            text = json.dumps({"id": number, **record}, default=str)
            producer.produce(self.name, text.replace('"NUMBER ', "").replace(' NUMBER"', ""), partition=0)
        assert producer.flush(30) == 0


def test_every_type_arrives_as_it_was(stack: Stack, spark: SparkSession, warehouse: Warehouse, tmp_path: Path) -> None:
    stream = Typed(stack, tmp_path)
    stream.describe(FIELDS)
    stream.write_file(
        decode__schema="typed",
        where=None,
        select={"bytes": "unhex('00ff5c')", "nan": "cast('NaN' as double)"},
        reconcile__unique=["id"],
    )
    exact = {"n": f"NUMBER {VALUES['n']} NUMBER"}
    stream.send_values(VALUES | exact, dict.fromkeys(FIELDS), {"t": "", "texts": [], "pairs": {}})
    stream.run(spark)
    full, empty, odd = sorted(warehouse.rows(stream.name), key=lambda row: row["id"])
    assert {name: full[name] for name in FIELDS} == VALUES
    assert bytes(full["bytes"]) == b"\x00\xff\\"
    assert {empty[name] for name in FIELDS} == {None}
    assert (odd["t"], str(odd["nan"]), odd["texts"], odd["pairs"]) == ("", "nan", [], {})
    there = warehouse.ask("SELECT column_name, data_type FROM information_schema.columns WHERE table_name = %s", stream.name)
    assert {one["column_name"]: one["data_type"] for one in there if one["column_name"] in NEW_TYPES} == NEW_TYPES
    assert warehouse.rejects(stream) == []

    stream.run(spark)  # onto the table as it was made


def test_years_of_five_digits_arrive(stack: Stack, spark: SparkSession, warehouse: Warehouse, tmp_path: Path) -> None:
    stream = Typed(stack, tmp_path)
    stream.describe({"d": "date", "ts": "timestamp"})
    stream.send_values({"d": "12026-01-02", "ts": "12026-01-02T03:04:05Z"})
    stream.run(spark)
    asked = "SELECT d::text AS d, (ts AT TIME ZONE 'UTC')::text AS ts FROM public.{}"
    assert warehouse.ask(SQL(asked).format(Identifier(stream.name))) == [{"d": "12026-01-02", "ts": "12026-01-02 03:04:05"}]


REFUSED = {
    "zone-less": ({"select": {"t": "cast(ts as timestamp_ntz)"}}, {}, "Column t is timestamp_ntz, .* a time without a zone"),
    "sum of a double": (
        {"select": {"amount_cents": "cast(amount as double)"}},
        {"kind": "postgres_totals"},
        "only whole numbers and decimals add up",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_type_that_could_change_on_the_way_is_refused_at_the_start(
    case: str, stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    """What `select` makes; of a schema's own fields it is known when the file is loaded."""
    changes, kind, says = REFUSED[case]
    stream = WarehouseStream(stack, tmp_path, **kind)
    stream.write_file(**changes)
    with pytest.raises(TypeRefused, match=says):
        stream.run(spark)
