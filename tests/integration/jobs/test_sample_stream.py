"""What `make check STREAM=x` shows, and the transformation behind it."""

import json
import uuid
from decimal import Decimal

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession

from include.contract.catalog import Stream, load_streams
from include.local_stack.stack import Stack
from include.topics.topic import Topic, TopicMissing
from jobs.decode import decode
from jobs.sample_stream import ROWS, newest, sample
from jobs.transform import transform
from tests.running import stack_command

ORDER = {"event_id": "e1", "user_id": "u1", "amount": 12.5, "ts": "2026-01-02T03:04:05Z"}


def with_spec(stream: Stream, **changes: object) -> Stream:
    return Stream(stream.name, stream.spec.model_copy(update=changes), stream.schema)


@pytest.fixture
def stream(stack: Stack) -> Stream:
    """orders_raw on a topic of its own: 20 good orders, then one that is filtered, one that is no JSON."""
    orders = load_streams()["orders_raw"]
    topic = f"sample-{uuid.uuid4().hex}"
    kafka = {"bootstrap.servers": stack.kafka.connection.address}
    admin = AdminClient(kafka)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(10)
    producer = Producer(kafka)
    for value in (*([json.dumps(ORDER)] * 20), json.dumps({**ORDER, "amount": -1}), "not JSON"):
        producer.produce(topic, value)
    assert producer.flush(10) == 0
    return with_spec(orders, source=orders.spec.source.model_copy(update={"topic": topic}))


def test_the_newest_records_are_shown_with_their_fate(spark: SparkSession, stack: Stack, stream: Stream) -> None:
    address = stack.kafka.connection.address
    starts = newest(Topic(address, stream.spec.source.topic).state())
    assert starts == {0: 22 - ROWS}
    rows = sample(spark, stream, address, starts).collect()
    assert [row.offset for row in rows] == list(range(21, 11, -1))
    assert [row.fate for row in rows] == ["not_json", "filtered", *["delivered"] * 8]
    assert json.loads(rows[2].row)["day"] == "2026-01-02"
    assert json.loads(rows[2].row)["amount_cents"] == 1250


def test_a_topic_that_is_not_there_is_named(stack: Stack) -> None:
    with pytest.raises(TopicMissing, match="no-such-topic"):
        Topic(stack.kafka.connection.address, "no-such-topic").state()


def test_an_unknown_stream_is_refused_with_the_nearest_name(stack: Stack) -> None:
    refused = stack_command(stack.home, "module", "jobs.sample_stream", "orders_row")
    assert refused.returncode == 1
    assert "Did you mean 'orders_raw'?" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize(
    ("where", "is_filtered"), [("amount > 1", False), ("amount > 100", True), ("note = 'x'", True), (None, False)]
)
def test_where_filters_what_is_not_true(spark: SparkSession, where: str | None, is_filtered: bool) -> None:
    """An order without a note makes `note = 'x'` NULL, which is not true. What is filtered is not computed."""
    stream = with_spec(load_streams()["orders_raw"], where=where, keep=["event_id", "amount"])
    row = ("t", 3, 7, None, bytearray(json.dumps(ORDER).encode()))
    columns = "_topic string, _partition int, _offset long, _kafka_timestamp timestamp, value binary"
    (result,) = transform(decode(spark.createDataFrame([row], columns), stream), stream).collect()
    assert result._filtered is is_filtered
    assert (result._topic, result._partition, result._offset) == ("t", 3, 7)
    shown = [name for name in result.asDict() if not name.startswith("_")]
    assert shown == ["event_id", "amount", "day", "amount_cents"]
    assert (result.amount, result.amount_cents) == (Decimal("12.50"), None if is_filtered else 1250)
