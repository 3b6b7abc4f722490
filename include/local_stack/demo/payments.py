"""Sends payments of which it is known what dedupe and windows must make, and keeps which of them the broker acknowledged.

All that are in time lie within nine minutes, so nothing but the late ones can be late, however batches are cut.
"""

import json
import uuid
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

TOPIC, PARTITIONS = "payments", 3
USERS = 500
WINDOW = timedelta(minutes=5)
BEFORE_THE_LOSS, AFTER_IT = (0, 240), (240, 540)  # seconds of event time
SPARED = timedelta(minutes=10)  # between the first payment and now: none may lie ahead
COPIED_EVERY = 10  # is sent again at once, to another partition
LATE_EVERY, LATE_BY = 100, timedelta(hours=1)  # the watermark is ten minutes behind the newest


@dataclass(frozen=True)
class Payment:
    identity: str
    user: str
    cents: int
    time: datetime
    is_late: bool = False

    @property
    def window(self) -> datetime:
        return self.time - (self.time - datetime.min.replace(tzinfo=UTC)) % WINDOW

    def value(self) -> bytes:
        told = {"event_id": self.identity, "user_id": self.user, "amount": self.cents / 100, "ts": self.time.isoformat()}
        return json.dumps(told).encode()


@dataclass
class SentPayments:
    acknowledged: dict[tuple[int, int], Payment] = field(default_factory=dict)

    @property
    def once(self) -> list[Payment]:
        """One of the copies of each that came in time: they are alike."""
        return list({one.identity: one for one in self.acknowledged.values() if not one.is_late}.values())

    @property
    def late(self) -> int:
        return sum(one.is_late for one in self.acknowledged.values())

    @property
    def duplicates(self) -> int:
        return len(self.acknowledged) - self.late - len(self.once)

    @property
    def ends(self) -> dict[int, int]:
        ends: Counter[int] = Counter()
        for partition, offset in self.acknowledged:
            ends[partition] = max(ends[partition], offset + 1)
        return dict(ends)


class PaymentSender:
    def __init__(self, address: str) -> None:
        admin = AdminClient({"bootstrap.servers": address})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(15)
        self.sent = SentPayments()
        self._producer = Producer({"bootstrap.servers": address, "linger.ms": 20, "log_level": 3})
        now = datetime.now(UTC) - SPARED
        self._first_window = now - (now - datetime.min.replace(tzinfo=UTC)) % WINDOW
        self._first: list[Payment] = []

    def send_first(self, payments: int) -> None:
        self._first = [self._payment(number, payments, BEFORE_THE_LOSS) for number in range(payments)]
        self._send_all(self._first)

    def send_rest(self, payments: int) -> int:
        """New ones, late ones, and one in ten of the first once more: how many that is."""
        again = self._first[::COPIED_EVERY]
        fresh = [self._payment(number, payments, AFTER_IT) for number in range(payments)]
        late = [self._late(number) for number in range(payments // LATE_EVERY)]
        self._send_all([*again, *late, *fresh], shifted_by=2)
        return len(again)

    def _send_all(self, payments: list[Payment], shifted_by: int = 0) -> None:
        for number, payment in enumerate(payments):
            self._send(payment, number + shifted_by)
            if number % COPIED_EVERY == 0 and not payment.is_late:
                self._send(payment, number + shifted_by + 1)
        self._producer.flush(60)

    def _send(self, payment: Payment, place: int) -> None:
        def heard(error: Any, message: Any) -> None:
            if error is None:
                self.sent.acknowledged[message.partition(), message.offset()] = payment

        self._producer.produce(TOPIC, payment.value(), partition=place % PARTITIONS, on_delivery=heard)
        self._producer.poll(0)

    def _payment(self, number: int, of: int, seconds: tuple[int, int]) -> Payment:
        after = seconds[0] + (seconds[1] - seconds[0]) * number // of
        time = self._first_window + timedelta(seconds=after)
        return Payment(str(uuid.uuid4()), f"user-{number % USERS}", 1 + number % 9_999, time)

    def _late(self, number: int) -> Payment:
        return Payment(str(uuid.uuid4()), f"user-{number % USERS}", 7, self._first_window - LATE_BY, is_late=True)
