"""A stateful stream of a test's own: events with chosen ids, times and partitions; and what plain arithmetic makes of them."""

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import SparkSession

from tests.streams import TrialStream

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
WITHIN = {"key": ["event_id"], "event_time": "ts", "within": "10 minutes"}
WINDOWS = {"key": ["user_id"], "window": "5 minutes", "sum": ["amount_cents"], "count": "payments"}
SELECT = {"day": "date(ts)", "amount_cents": "cast(amount * 100 as bigint)"}
Totals = dict[tuple[str, datetime], tuple[int, int]]  # per user and window: the sum and the count
TIMED = {"reconcile": {"every": "15 minutes"}, "select": SELECT, "dedupe": WITHIN}


@dataclass(frozen=True)
class Event:
    """`minute`: after noon; `late`: it comes when the watermark is certainly above it, whatever the batches."""

    id: str
    user: str
    minute: float
    cents: int = 100
    partition: int = 0
    late: bool = False

    @property
    def time(self) -> datetime:
        return NOON + timedelta(minutes=self.minute)


def windows_sink(stream: str) -> dict[str, Any]:
    return {"lake": {"kind": "delta_merge", "table": stream, "key": ["user_id", "window_start"]}}


def send(trial: TrialStream, events: Iterable[Event]) -> None:
    producer = trial.producer()
    for event in events:
        value = {"event_id": event.id, "user_id": event.user, "amount": event.cents / 100, "ts": event.time.isoformat()}
        producer.produce(trial.name, json.dumps(value).encode(), partition=event.partition)
    assert producer.flush(30) == 0


def counted_once(events: Iterable[Event]) -> dict[str, Event]:
    return {event.id: event for event in reversed([event for event in events if not event.late])}


def totals(events: Iterable[Event], minutes: float = 5) -> Totals:
    found: dict[tuple[str, datetime], list[int]] = defaultdict(lambda: [0, 0])
    for event in counted_once(events).values():
        window = NOON + timedelta(minutes=event.minute // minutes * minutes)
        found[event.user, window][0] += event.cents
        found[event.user, window][1] += 1
    return {place: (cents, count) for place, (cents, count) in found.items()}


def totals_there(trial: TrialStream, spark: SparkSession) -> Totals:
    rows = [row.asDict() for row in spark.read.format("delta").load(str(trial.table)).where("NOT _deleted").collect()]
    assert len({(row["user_id"], row["window_start"]) for row in rows}) == len(rows), "a window stands there twice"
    return {(row["user_id"], row["window_start"].replace(tzinfo=UTC)): (row["amount_cents"], row["payments"]) for row in rows}
