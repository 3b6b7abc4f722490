"""`make orders`, `make payments`: something to read for `make run STREAM=orders_raw` or `STREAM=payment_totals`. Makes the topic
if it is not there, and sends to it.

One in a thousand cannot be decoded. Of orders one in fifty is filtered by the stream file; of payments one in ten is sent again.
"""

import json
import random
import uuid
from collections.abc import Callable
from datetime import UTC, datetime

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

TOPIC, PAYMENTS, PARTITIONS = "orders", "payments", 4
USERS = 5_000
Make = Callable[[str, random.Random], bytes]


def send_orders(address: str, records: int) -> None:
    _send(address, TOPIC, records, _order)


def send_payments(address: str, records: int) -> None:
    _send(address, PAYMENTS, records, _payments())


def _send(address: str, topic: str, records: int, make: Make) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    if topic not in admin.list_topics(timeout=10).topics:
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(10)
    producer = Producer({"bootstrap.servers": address, "linger.ms": 50, "compression.type": "lz4", "enable.idempotence": True})
    chance = random.Random()  # noqa: S311 - not a secret
    for _ in range(records):
        user = f"user-{chance.randrange(USERS)}"
        while True:
            try:
                producer.produce(topic, make(user, chance), user.encode())
                break
            except BufferError:  # the broker is slower than we are
                producer.poll(0.1)
    producer.flush()


def _payments() -> Make:
    """One in ten is the one before it, under the key of another user: it may lie in another partition."""
    last = b""

    def make(user: str, chance: random.Random) -> bytes:
        nonlocal last
        if not last or chance.random() >= 0.1:
            last = _payment(user, chance)
        return last

    return make


def _payment(user: str, chance: random.Random) -> bytes:
    return _sent(_paid(user, chance), chance)


def _order(user: str, chance: random.Random) -> bytes:
    order = _paid(user, chance) | {"note": chance.choice([None, "leave it at the door", "a gift"])}
    return _sent(order | {"amount": 0} if chance.random() < 0.02 else order, chance)


def _paid(user: str, chance: random.Random) -> dict[str, object]:
    return {
        "event_id": str(uuid.UUID(int=chance.getrandbits(128))),
        "user_id": user,
        "amount": chance.randrange(1, 100_000) / 100,
        "ts": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }


def _sent(event: dict[str, object], chance: random.Random) -> bytes:
    return b'{"event_id": "cut off in the mid' if chance.random() < 0.001 else json.dumps(event).encode()
