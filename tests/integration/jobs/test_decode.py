"""Decoding on the real Spark: each kind of bad record is told apart, and no record is ever lost or stops a batch."""

import json
import random
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from include.contract.catalog import Stream, load_streams
from include.contract.stream_spec import SchemaField
from jobs.decode import decode
from jobs.explain import Reason, explain
from tests.streams import damaged

GOOD = {"event_id": "e1", "user_id": "u1", "amount": 12.5, "ts": "2026-01-02T03:04:05Z", "note": "hi"}


@pytest.fixture(scope="module")
def stream() -> Stream:
    return load_streams()["orders_raw"]


def with_extra_fields_quarantined(stream: Stream) -> Stream:
    decode_settings = stream.spec.decode.model_copy(update={"extra_fields": "quarantine"})
    return Stream(stream.name, stream.spec.model_copy(update={"decode": decode_settings}), stream.schema)


def records(spark: SparkSession, values: list[bytes | None]) -> DataFrame:
    rows = [(number, bytearray(value) if value is not None else None) for number, value in enumerate(values)]
    return spark.createDataFrame(rows, "number long, value binary")


def decoded(spark: SparkSession, stream: Stream, values: list[bytes | None]) -> list[Row]:
    """Every record, bad ones with their reason."""
    judged = decode(records(spark, values), stream)
    bad = explain(judged.where("_record is null"), stream)
    good = judged.where("_record is not null").withColumns({"_reason": F.lit(None), "_detail": F.lit(None)})
    return good.unionByName(bad).orderBy("number").collect()


def changed(**fields: object) -> bytes:
    return json.dumps({**GOOD, **fields}).encode()


def test_a_good_record_becomes_typed_columns(spark: SparkSession, stream: Stream) -> None:
    (row,) = decoded(spark, stream, [changed()])
    assert row._reason is None
    assert row._record.asDict() | {"ts": None} == {**GOOD, "amount": Decimal("12.50"), "ts": None}
    assert row._record.ts.astimezone(UTC) == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize("kind", ["decimal(38,8)", "numeric(30,8)", "dec(20,8)"])
def test_a_decimal_keeps_every_digit(kind: str, spark: SparkSession, stream: Stream) -> None:
    """Spark's parser reads a number as text by way of a double, which holds 15 digits."""
    fields = stream.schema.fields | {"amount": SchemaField(type=kind, required=True)}
    long = Stream(stream.name, stream.spec, stream.schema.model_copy(update={"fields": fields}))
    values = ["123456789012.12345678", "-123456789012.00000001", "1e3", "7", '"999999999999.99999999"']
    texts = [changed(amount="HERE").replace(b'"HERE"', value.encode()) for value in values]
    rows = decoded(spark, long, [*texts, changed(amount="much"), changed(amount=None)])
    assert [row._record.amount for row in rows[:-2]] == [Decimal(value.strip('"')) for value in values]
    assert [row._reason for row in rows[-2:]] == [Reason.WRONG_TYPE, Reason.MISSING_FIELD]


BAD: dict[str, tuple[bytes | None, Reason, str]] = {
    "tombstone": (None, Reason.TOMBSTONE, "null"),
    "empty": (b"", Reason.EMPTY, "no bytes"),
    "too big": (changed(note="x" * 1_000_000), Reason.TOO_BIG, "at most 1000000"),
    "invalid UTF-8": (b'{"event_id": "\xff\xfe"}', Reason.INVALID_UTF8, "UTF-8"),
    "not JSON": (b"{event_id: ", Reason.NOT_JSON, "JSON"),
    "blanks": (b"   ", Reason.NOT_JSON, "JSON"),
    "two values": (b"{} {}", Reason.NOT_JSON, "JSON"),
    "the end of a frame": (b"]}", Reason.NOT_JSON, "JSON"),
    "a value and the end of a frame": (changed() + b"]}", Reason.NOT_JSON, "JSON"),
    "two values, one comma": (changed() + b", {}", Reason.NOT_JSON, "JSON"),
    "rubbish behind": (changed() + b"]", Reason.NOT_JSON, "JSON"),
    "a frame of its own": (changed() + b',"d41d8cd98f00b204e9800998ecf8427e"],[{}', Reason.NOT_JSON, "JSON"),
    "a key twice": (b'{"event_id": "a", "event_id": "b"}', Reason.NOT_JSON, "key twice"),
    "nested deeply": (b"[" * 100_000, Reason.NOT_JSON, "JSON"),
    "a list": (b"[1, 2]", Reason.NOT_AN_OBJECT, "ARRAY"),
    "a number": (b"7", Reason.NOT_AN_OBJECT, "type"),
    "null": (b"null", Reason.NOT_AN_OBJECT, "VOID"),
    "text as number": (changed(amount="much"), Reason.WRONG_TYPE, "field amount"),
    "object as text": (changed(ts={"a": 1}), Reason.WRONG_TYPE, "field ts"),
    "no date": (changed(ts="yesterday"), Reason.WRONG_TYPE, "field ts"),
    "number too large": (changed(amount=10**15), Reason.WRONG_TYPE, "field amount"),
    "a number with a huge exponent": (changed()[:-1] + b', "amount": 1e20000000}', Reason.NOT_JSON, "key twice"),
    "only a number with a huge exponent": (b'{"amount": 1e20000000}', Reason.WRONG_TYPE, "field amount"),
    "a time without a date": (changed(ts="12:34:56"), Reason.WRONG_TYPE, "field ts"),
    "a number as a time": (changed(ts=1_700_000_000), Reason.WRONG_TYPE, "field ts"),
    "true as a number": (changed(amount=True), Reason.WRONG_TYPE, "field amount"),
    "missing": (json.dumps({"event_id": "e1", "amount": 1}).encode(), Reason.MISSING_FIELD, "field user_id, ts"),
    "null for required": (changed(user_id=None), Reason.MISSING_FIELD, "field user_id"),
}


def test_each_kind_of_bad_record_is_told_apart(spark: SparkSession, stream: Stream) -> None:
    rows = decoded(spark, stream, [value for value, _, _ in BAD.values()])
    told = {name: (row._reason, row._record) for name, row in zip(BAD, rows, strict=True)}
    assert told == {name: (reason.value, None) for name, (_, reason, _) in BAD.items()}
    assert [name for (name, (_, _, words)), row in zip(BAD.items(), rows, strict=True) if words not in row._detail] == []


def test_of_a_key_that_is_there_twice_the_last_value_counts(spark: SparkSession, stream: Stream) -> None:
    (row,) = decoded(spark, stream, [changed()[:-1] + b', "note": "last"}'])
    assert row._record.note == "last"


def test_extra_fields_are_ignored_or_quarantined_as_the_file_says(spark: SparkSession, stream: Stream) -> None:
    value = changed(surprise=1, another=2)
    assert decoded(spark, stream, [value])[0]._reason is None
    (row,) = decoded(spark, with_extra_fields_quarantined(stream), [value])
    assert (row._reason, row._detail) == (Reason.EXTRA_FIELD.value, "field another, surprise")


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
ANY_VALUE = st.one_of(
    st.none(),
    st.binary(max_size=60),
    ANY_JSON.map(lambda value: json.dumps(value).encode()),
    st.dictionaries(st.sampled_from(list(GOOD)), ANY_JSON).map(lambda fields: json.dumps(fields).encode()),
    st.dictionaries(st.sampled_from(list(GOOD)), ANY_JSON, max_size=2).map(lambda fields: changed(**fields)),
)


@settings(max_examples=10_000 // 2_000, deadline=None, suppress_health_check=list(HealthCheck), database=None, derandomize=True)
@given(drawn=st.lists(ANY_VALUE, min_size=150, max_size=150))
def test_of_10000_fuzzed_records_each_is_decoded_or_quarantined(
    spark: SparkSession, stream: Stream, drawn: list[bytes | None]
) -> None:
    chance = random.Random(len(drawn))  # noqa: S311 - not a secret
    values = drawn + [damaged(chance, chance.choice([*drawn, changed()]) or b"{") for _ in range(1_850)]
    rows = decoded(spark, stream, values)
    assert [row.number for row in rows] == list(range(len(values)))
    assert [row.number for row in rows if (row._record is None) == (row._reason is None)] == []
    assert [row.number for row in rows if row._record and _lacks_required(row)] == []


def _lacks_required(row: Row) -> bool:
    return any(row._record[name] is None for name in ("event_id", "user_id", "amount", "ts"))
