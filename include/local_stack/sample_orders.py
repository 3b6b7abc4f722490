"""`make orders`: something to read for `make run STREAM=orders_raw`. Makes the topic if it is not there, and sends orders to it.

One in a thousand cannot be decoded, one in fifty is filtered by the stream file.
"""

import json
import random
import uuid
from datetime import UTC, datetime

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

TOPIC, PARTITIONS = "orders", 4
USERS = 5_000


def send_orders(address: str, records: int) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    if TOPIC not in admin.list_topics(timeout=10).topics:
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(10)
    producer = Producer({"bootstrap.servers": address, "linger.ms": 50, "compression.type": "lz4", "enable.idempotence": True})
    chance = random.Random()  # noqa: S311 - not a secret
    for _ in range(records):
        user = f"user-{chance.randrange(USERS)}"
        while True:
            try:
                producer.produce(TOPIC, _order(user, chance), user.encode())
                break
            except BufferError:  # the broker is slower than we are
                producer.poll(0.1)
    producer.flush()


def _order(user: str, chance: random.Random) -> bytes:
    if chance.random() < 0.001:
        return b'{"event_id": "cut off in the mid'
    order = {
        "event_id": str(uuid.UUID(int=chance.getrandbits(128))),
        "user_id": user,
        "amount": 0 if chance.random() < 0.02 else chance.randrange(1, 100_000) / 100,
        "ts": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "note": chance.choice([None, "leave it at the door", "a gift"]),
    }
    return json.dumps(order).encode()
