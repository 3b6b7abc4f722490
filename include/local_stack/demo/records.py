"""Sends orders whose fate is known, and keeps which of them the broker acknowledged, and where."""

import json
import uuid
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

TOPIC, PARTITIONS = "orders", 4
BROKEN_EVERY = 102  # a little less than 1 %: more than that in one batch would stop the stream
FILTERED_EVERY = 50
BROKEN: list[bytes | None] = [
    None,
    b"",
    b'{"event_id": "cut off in the mid',
    b'{"event_id": "\xff\xfe"}',
    b"[1, 2, 3]",
    b'{"event_id": "e", "user_id": "u", "amount": "much", "ts": "2026-01-02T03:04:05Z"}',
    b'{"event_id": "e", "amount": 1}',
    b'{"event_id": "' + b"x" * 10_001 + b'"}',
]


@dataclass
class Sent:
    """Per place, partition and offset: the id of a good order, or why there must be no row of it."""

    good: dict[tuple[int, int], str] = field(default_factory=dict)
    broken: set[tuple[int, int]] = field(default_factory=set)
    filtered: set[tuple[int, int]] = field(default_factory=set)

    @property
    def total(self) -> int:
        return len(self.good) + len(self.broken) + len(self.filtered)

    @property
    def ends(self) -> dict[int, int]:
        places = [*self.good, *self.broken, *self.filtered]
        return {number: 1 + max(offset for partition, offset in places if partition == number) for number in range(PARTITIONS)}


def send(address: str, records: int) -> Sent:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(15)
    producer, sent = Producer({"bootstrap.servers": address, "linger.ms": 20, "log_level": 3}), Sent()
    for number in range(records):
        _send(producer, sent, number)
    producer.flush(60)
    return sent


def _send(producer: Producer, sent: Sent, number: int) -> None:
    identity = str(uuid.uuid4())
    if number % BROKEN_EVERY == 0:
        value, heard = BROKEN[number // BROKEN_EVERY % len(BROKEN)], _keep_in(sent.broken)
    elif number % FILTERED_EVERY == 1:
        value, heard = _order(identity, number, 0), _keep_in(sent.filtered)
    else:
        value, heard = _order(identity, number, 1 + number % 9_999), _keep_as(sent.good, identity)
    while True:
        try:
            producer.produce(TOPIC, value, partition=number % PARTITIONS, on_delivery=heard)
            break
        except BufferError:  # the broker is slower than we are
            producer.poll(0.1)
    if number % 1_000 == 0:
        producer.poll(0)


def _keep_in(places: set[tuple[int, int]]) -> Any:
    def heard(error: Any, message: Any) -> None:
        if error is None:
            places.add((message.partition(), message.offset()))

    return heard


def _keep_as(places: dict[tuple[int, int], str], identity: str) -> Any:
    def heard(error: Any, message: Any) -> None:
        if error is None:
            places[message.partition(), message.offset()] = identity

    return heard


def _order(identity: str, number: int, cents: int) -> bytes:
    order = {
        "event_id": identity,
        "user_id": f"user-{number % 5_000}",
        "amount": cents / 100,
        "ts": f"2026-{1 + number % 3:02d}-15T10:00:{number % 60:02d}Z",
        "note": None,
    }
    return json.dumps(order).encode()
