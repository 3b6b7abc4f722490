"""A stream of a test's own into PostgreSQL: orders whose fate is known, and what the table must hold, computed plainly from what
the broker acknowledged. Shares no code with the product.
"""

import json
import random
import uuid
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from psycopg2.extras import RealDictCursor
from psycopg2.sql import SQL, Identifier

from include.local_stack.postgres import WAREHOUSE
from include.local_stack.stack import Stack
from tests.checker import Place
from tests.streams import TrialStream

KINDS: dict[str, dict[str, Any]] = {
    "postgres_insert_new": {"key": ["event_id"]},
    "postgres_upsert": {"key": ["user_id"], "order": "ts"},
    "postgres_totals": {"key": ["user_id"], "sum": ["amount_cents"], "count": "orders", "min": ["amount"], "max": ["amount"]},
}
FIRST_TIME = datetime(2026, 11, 16, tzinfo=UTC)


@dataclass
class WarehouseStream(TrialStream):
    kind: str = "postgres_insert_new"
    more: dict[str, Any] = field(default_factory=dict)  # of the sink
    orders: dict[Place, dict[str, Any]] = field(default_factory=dict)  # acknowledged, good and not filtered
    chance: random.Random = field(default_factory=lambda: random.Random(7))  # noqa: S311 - repeatable on purpose

    def __post_init__(self) -> None:
        super().__post_init__()
        self.write_file()

    def write_file(self, **changes: Any) -> None:
        sink = {"kind": self.kind, "connection": WAREHOUSE, "table": self.name, **KINDS[self.kind], **self.more}
        unique = ["event_id"] if self.kind == "postgres_insert_new" else []
        super().write_file(**{"sinks": {"rows": sink}, "reconcile__unique": unique, **changes})

    def send_orders(self, count: int) -> None:
        """Of 20 users; times in no order; each tenth has the id of one before it, in the same partition."""
        producer = self.producer()
        known: list[dict[str, Any]] = []
        for number in range(count):
            again = known[-1]["event_id"] if known and number % 10 == 9 else uuid.UUID(int=self.chance.getrandbits(128)).hex
            order = {
                "event_id": again,
                "user_id": f"u{self.chance.randrange(20)}",
                "amount": f"{self.chance.randrange(1, 100_000) / 100:.2f}",
                "ts": (FIRST_TIME + timedelta(hours=self.chance.randrange(24))).isoformat(),  # so that there are ties
                "note": None,
            }
            known.append(order)
            value = json.dumps(order | {"amount": float(order["amount"])})
            producer.produce(self.name, value, partition=(number // 10) % self.partitions, on_delivery=self._heard(order))
            producer.poll(0)
        assert producer.flush(30) == 0

    def _heard(self, order: dict[str, Any]) -> Any:
        def heard(error: Any, message: Any) -> None:
            assert error is None, error
            self.orders[message.partition(), message.offset()] = order

        return heard


@dataclass
class Warehouse:
    stack: Stack

    def problems(self, stream: WarehouseStream) -> list[str]:
        """What the table holds and should not, or the other way round."""
        rows = self.rows(stream.name)
        if stream.kind == "postgres_totals":
            return _differences(_totals(stream), {row.pop("user_id"): row for row in rows})
        key = KINDS[stream.kind]["key"][0]
        there = {row[key]: {"place": (row["_partition"], row["_offset"]), "amount": row["amount"]} for row in rows}
        return _differences(_first(stream) if stream.kind == "postgres_insert_new" else _newest(stream), there)

    def rows(self, table: str) -> list[dict[str, Any]]:
        schema, _, name = table.rpartition(".")
        return self.ask(SQL("SELECT * FROM {}.{}").format(Identifier(schema or "public"), Identifier(name)))

    def rejects(self, stream: TrialStream) -> list[dict[str, Any]]:
        return self.ask('SELECT * FROM tidemark.reject WHERE target = %s ORDER BY partition, "offset"', f"public.{stream.name}")

    def booked(self, stream: TrialStream) -> dict[str, int]:
        """The sums of the sink's own ledger."""
        notes = self.ask("SELECT note FROM tidemark.sink_commit WHERE target = %s", f"public.{stream.name}")
        lines = [line for row in notes for line in json.loads(row["note"]).get("ledger", [])]
        names = ("read", "delivered", "quarantined", "rejected", "filtered", "superseded", "duplicates")
        return {name: total for name in names if (total := sum(line.get(name, 0) for line in lines))}

    def ask(self, query: Any, *values: Any) -> list[dict[str, Any]]:
        with (
            closing(self.stack.postgres.connect(WAREHOUSE)) as connection,
            connection,
            connection.cursor(cursor_factory=RealDictCursor) as cursor,
        ):
            cursor.execute(query, values or None)
            return [dict(row) for row in cursor.fetchall()] if cursor.description else []


def _first(stream: WarehouseStream) -> dict[str, Any]:
    """The same id is only ever sent to one partition, so offsets tell which came first."""
    found: dict[str, Any] = {}
    for place, order in sorted(stream.orders.items()):
        found.setdefault(order["event_id"], {"place": place, "amount": Decimal(order["amount"])})
    return found


def _newest(stream: WarehouseStream) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for place, order in sorted(stream.orders.items(), key=lambda one: (one[1]["ts"], one[0])):
        found[order["user_id"]] = {"place": place, "amount": Decimal(order["amount"])}
    return found


def _totals(stream: WarehouseStream) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for order in stream.orders.values():
        amount = Decimal(order["amount"])
        there = found.setdefault(order["user_id"], {"amount_cents": 0, "orders": 0, "amount_min": amount, "amount_max": amount})
        there["amount_cents"] += int(amount * 100)
        there["orders"] += 1
        there["amount_min"], there["amount_max"] = min(amount, there["amount_min"]), max(amount, there["amount_max"])
    return found


def _differences(wanted: dict[str, Any], there: dict[str, Any]) -> list[str]:
    keys = sorted({*wanted, *there})
    return [f"{key}: {there.get(key)} instead of {wanted.get(key)}" for key in keys if wanted.get(key) != there.get(key)]
