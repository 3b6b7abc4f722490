"""A stream of a test's own into a table that holds the newest row of each key; and what that table must hold, computed plainly
from what the broker acknowledged. Shares no code with the product, and reads the table by deltalake.
"""

import json
import random
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from tests.checker import Place
from tests.running import PROJECT, wait_for
from tests.streams import TrialStream

FIRST_TIME = datetime(2026, 11, 16, tzinfo=UTC)
USERS = 20
SCHEMA_LINES = "  gone: {type: boolean}\n"


@dataclass
class LatestStream(TrialStream):
    """Orders of a few users, times in no order and often the same; some delete their user."""

    sink: dict[str, Any] = field(default_factory=dict)  # more of it
    records: dict[Place, dict[str, Any]] = field(default_factory=dict)  # acknowledged
    chance: random.Random = field(default_factory=lambda: random.Random(11))  # noqa: S311 - repeatable on purpose

    def __post_init__(self) -> None:
        super().__post_init__()
        schema = (PROJECT / "config" / "schemas" / "order.yaml").read_text() + SCHEMA_LINES
        (self.config / "schemas" / "order.yaml").write_text(
            schema.replace("user_id: {type: string, required: true}", "user_id: {type: string}")
        )
        self.write_file()

    def write_file(self, **changes: Any) -> None:
        wanted = {"kind": "delta_merge", "table": self.name, "key": ["user_id"], "order": "ts", "deleted": "gone", **self.sink}
        super().write_file(**{"sinks": {"lake": wanted}, "reconcile__unique": [], **changes})

    def send_orders(self, count: int, *, deletes: float = 0.1, without_key: int = 0) -> None:
        producer = self.producer()
        for number in range(count + without_key):
            order = {
                "event_id": uuid.UUID(int=self.chance.getrandbits(128)).hex,
                "user_id": f"u{self.chance.randrange(USERS)}" if number < count else None,
                "amount": self.chance.randrange(1, 1000),
                "ts": (FIRST_TIME + timedelta(hours=self.chance.randrange(24))).isoformat(),
                "gone": self.chance.random() < deletes,
            }
            place = number % self.partitions
            producer.produce(self.name, json.dumps(order), self.key, partition=place, on_delivery=self._heard(order))
            producer.poll(0)
        assert producer.flush(30) == 0

    def send_order_of(self, user: str, hour: int, *, gone: bool = False, partition: int = 0) -> Place:
        order = {
            "event_id": uuid.UUID(int=self.chance.getrandbits(128)).hex,
            "user_id": user,
            "amount": 7,
            "ts": (FIRST_TIME + timedelta(hours=hour)).isoformat(),
            "gone": gone,
        }
        producer = self.producer()
        producer.produce(self.name, json.dumps(order), self.key, partition=partition, on_delivery=self._heard(order))
        assert producer.flush(30) == 0
        return next(place for place, one in self.records.items() if one is order)

    def _heard(self, order: dict[str, Any]) -> Any:
        def heard(error: Any, message: Any) -> None:
            assert error is None, error
            self.records[message.partition(), message.offset()] = order

        return heard

    def wait_until_merged(self) -> None:
        sent = len(self.records) + len(self.sent)
        wait_for(f"all that was sent to {self.name} to be merged", lambda: sum(self._tidemark().values()) == sent, 240)

    def _tidemark(self) -> dict[str, int]:
        return next((note["tidemark"]["offsets"] for note in reversed(self.notes()) if note.get("tidemark")), {})

    def wrong_keys(self) -> list[str]:
        return wrong_keys(newest_of(self.records), self.table)

    def booked(self) -> dict[str, int]:
        """The sums of the table's own ledger."""
        lines = [line for note in self.notes() for line in note.get("ledger", [])]
        names = ("read", "delivered", "quarantined", "rejected", "filtered", "superseded")
        return {name: total for name in names if (total := sum(line.get(name, 0) for line in lines))}

    def kept_aside(self) -> list[dict[str, Any]]:
        return rows_of(self.quarantine)


def newest_of(records: Mapping[Place, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for place, order in sorted(records.items(), key=lambda one: (one[1]["ts"], one[0])):
        if order["user_id"] is not None:
            found[order["user_id"]] = {"place": place, "event_id": order["event_id"], "deleted": order["gone"]}
    return found


def wrong_keys(wanted: Mapping[str, dict[str, Any]], table: Path) -> list[str]:
    """Each key that is not as it should be, or is there twice."""
    rows = rows_of(table)
    there = {
        row["user_id"]: {"place": (row["_partition"], row["_offset"]), "event_id": row["event_id"], "deleted": row["_deleted"]}
        for row in rows
    }
    differ = [
        f"{key}: {there.get(key)} instead of {wanted.get(key)}"
        for key in sorted({*wanted, *there})
        if wanted.get(key) != there.get(key)
    ]
    return [*differ, *([f"{len(rows)} rows for {len(there)} keys"] if len(rows) != len(there) else [])]


def rows_of(table: Path) -> list[dict[str, Any]]:
    """Also of a table with deletion vectors, which DeltaTable.to_pyarrow_table does not read."""
    found = QueryBuilder().register("t", DeltaTable(table)).execute("SELECT * FROM t").read_all()
    return [dict(row) for row in pa.table(found).to_pylist()]
