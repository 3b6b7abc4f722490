"""Sends orders whose fate is known, and keeps which of them the broker acknowledged, and where."""

import json
import uuid
from collections import Counter
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
    orders_of: Counter[str] = field(default_factory=Counter)  # by user, as the cents
    cents_of: Counter[str] = field(default_factory=Counter)
    newest_of: dict[str, tuple[str, tuple[int, int], str]] = field(default_factory=dict)  # by user: time, place and id

    @property
    def total(self) -> int:
        return len(self.good) + len(self.broken) + len(self.filtered)

    @property
    def ends(self) -> dict[int, int]:
        places = [*self.good, *self.broken, *self.filtered]
        return {number: 1 + max(offset for partition, offset in places if partition == number) for number in range(PARTITIONS)}


class Sender:
    """Sends portion after portion to one topic."""

    def __init__(self, address: str) -> None:
        admin = AdminClient({"bootstrap.servers": address})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(15)
        self.sent = Sent()
        self._producer = Producer({"bootstrap.servers": address, "linger.ms": 20, "log_level": 3})
        self._next = 0

    def send(self, records: int) -> None:
        for number in range(self._next, self._next + records):
            _send(self._producer, self.sent, number)
        self._next += records
        self._producer.flush(60)


def _send(producer: Producer, sent: Sent, number: int) -> None:
    identity = str(uuid.uuid4())
    if number % BROKEN_EVERY == 0:
        value, heard = BROKEN[number // BROKEN_EVERY % len(BROKEN)], _keep_in(sent.broken)
    elif number % FILTERED_EVERY == 1:
        value, heard = _order(identity, number, 0), _keep_in(sent.filtered)
    else:
        cents = 1 + number % 9_999
        value, heard = _order(identity, number, cents), _keep_as(sent, identity, number, cents)
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


def _keep_as(sent: Sent, identity: str, number: int, cents: int) -> Any:
    user = _user(number)

    def heard(error: Any, message: Any) -> None:
        if error is None:
            place = message.partition(), message.offset()
            sent.good[place] = identity
            sent.orders_of[user] += 1
            sent.cents_of[user] += cents
            newest = (_time(number), place, identity)
            sent.newest_of[user] = max(newest, sent.newest_of.get(user, newest))

    return heard


def _user(number: int) -> str:
    return f"user-{number % 5_000}"


def _time(number: int) -> str:
    return f"2026-{1 + number % 3:02d}-15T10:00:{number % 60:02d}Z"


def _order(identity: str, number: int, cents: int) -> bytes:
    order = {
        "event_id": identity,
        "user_id": _user(number),
        "amount": cents / 100,
        "ts": _time(number),
        "note": None,
    }
    return json.dumps(order).encode()
