"""A stranger's count: what the broker acknowledged against what the tables hold. Shares no code with the stream: reads Parquet
through deltalake, rows through psycopg2, records through a plain consumer; knows nothing of tidemarks, ledgers or checkpoints.
"""

import json
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from confluent_kafka import Consumer, Message, TopicPartition
from deltalake import DeltaTable, QueryBuilder
from psycopg2.extensions import connection as PostgresConnection
from psycopg2.sql import SQL, Identifier

from include.local_stack.demo.eyes import reader_settings
from include.local_stack.demo.records import Sent

Place = tuple[int, int]
NAMED = 3
ANSWER_SECONDS = 10


@dataclass(frozen=True)
class Count:
    produced: int
    delivered: int
    quarantined: int
    filtered: int
    delivered_twice: int
    lost: int
    superseded: int = 0  # not the newest of its key, where the newest alone is kept
    duplicates: int = 0  # copies beyond the first, where dedupe lets one pass
    late: int = 0
    named: tuple[str, ...] = ()

    @property
    def is_balanced(self) -> bool:
        told = self.delivered + self.quarantined + self.filtered + self.superseded + self.duplicates + self.late
        return not self.named and self.produced == told


def count(sent: Sent, table: Path, quarantine: Path) -> Count:
    """A table of the lake."""
    return count_rows(sent, _places(table, "event_id"), quarantine)


def count_in_database(sent: Sent, connection: PostgresConnection, table: str, quarantine: Path) -> Count:
    with connection.cursor() as cursor:
        cursor.execute(SQL("SELECT _partition, _offset, event_id FROM public.{}").format(Identifier(table)))
        return count_rows(sent, [((partition, offset), value) for partition, offset, value in cursor.fetchall()], quarantine)


def count_in_topic(sent: Sent, address: str, topic: str, quarantine: Path) -> Count:
    """By what a plain consumer of committed records reads: each tells where it came from."""
    rows = []
    with closing(Consumer(reader_settings(address))) as consumer:
        partitions = consumer.list_topics(topic, timeout=ANSWER_SECONDS).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        open_partitions = set(partitions)
        while open_partitions:
            for message in consumer.consume(10_000, timeout=1):
                if message.error() is None:
                    rows.append((_source_of(message), json.loads(message.value() or b"{}")["event_id"]))
                else:
                    open_partitions.discard(message.partition())
    return count_rows(sent, rows, quarantine)


def _source_of(message: Message) -> Place:
    said = dict(message.headers() or [])["tidemark-source"]
    text = said.decode() if isinstance(said, bytes) else str(said)
    _, partition, offset, _ = text.split("/")
    return int(partition), int(offset)


def count_totals(sent: Sent, connection: PostgresConnection, table: str, quarantine: Path) -> Count:
    """Orders that are missing from a user's total are lost, those too many are there twice; and the cents must be right."""
    with connection.cursor() as cursor:
        cursor.execute(SQL("SELECT user_id, orders, amount_cents FROM public.{}").format(Identifier(table)))
        there = {user: (int(orders), int(cents)) for user, orders, cents in cursor.fetchall()}
    wanted = {user: (orders, sent.cents_of[user]) for user, orders in sent.orders_of.items()}
    differ = sorted(user for user in {*there, *wanted} if there.get(user) != wanted.get(user))
    kept = {place for place, _ in _places(quarantine, "_reason")}
    missing = {user: wanted.get(user, (0, 0))[0] - there.get(user, (0, 0))[0] for user in differ}
    shown = "; ".join(f"{user}: {there.get(user)} instead of {wanted.get(user)}" for user in differ[:NAMED])
    return Count(
        produced=sent.total,
        delivered=sum(orders for orders, _ in there.values()),
        quarantined=len(kept & sent.broken),
        filtered=len(sent.filtered - kept),
        delivered_twice=sum(-number for number in missing.values() if number < 0),
        lost=sum(number for number in missing.values() if number > 0),
        named=(f"{len(differ):,} users have other totals (orders, cents): {shown}",) if differ else (),
    )


def count_newest(sent: Sent, table: Path, quarantine: Path) -> Count:
    """A table of the lake that holds the newest order of each user. Read by a query: deltalake's other way knows no rows that are
    marked as deleted."""
    found = (
        QueryBuilder().register("latest", DeltaTable(table)).execute("SELECT user_id, event_id FROM latest WHERE NOT _deleted")
    )
    rows = [(row["user_id"], row["event_id"]) for row in pa.table(found.read_all()).to_pylist()]
    there, wanted = dict(rows), {user: identity for user, (_, _, identity) in sent.newest_of.items()}
    differ = sorted(user for user in {*there, *wanted} if there.get(user) != wanted.get(user))
    kept = {place for place, _ in _places(quarantine, "_reason")}
    shown = "; ".join(f"{user}: {there.get(user)} instead of {wanted.get(user)}" for user in differ[:NAMED])
    return Count(
        produced=sent.total,
        delivered=len(there.items() & wanted.items()),
        quarantined=len(kept & sent.broken),
        filtered=len(sent.filtered - kept),
        delivered_twice=len(rows) - len(there),
        lost=len(differ),
        superseded=len(sent.good) - len(wanted),
        named=(f"{len(differ):,} users have another newest order: {shown}",) if differ or len(rows) > len(there) else (),
    )


def count_rows(sent: Sent, rows: list[tuple[Place, str]], quarantine: Path) -> Count:
    kept = Counter(place for place, _ in _places(quarantine, "_reason"))
    times = Counter(place for place, _ in rows)
    found = {
        "lost": [place for place in sent.good if place not in times] + [place for place in sent.broken if place not in kept],
        "delivered twice": [place for place, number in (times + kept).items() if number > 1],
        "delivered, but never sent so": [place for place in times if place not in sent.good],
        "delivered with another id": [place for place, value in rows if sent.good.get(place, value) != value],
        "quarantined, but not broken": [place for place in kept if place not in sent.broken],
    }
    return Count(
        produced=sent.total,
        delivered=len(times.keys() & sent.good.keys()),
        quarantined=len(kept.keys() & sent.broken),
        filtered=len(sent.filtered - times.keys() - kept.keys()),
        delivered_twice=len(found["delivered twice"]),
        lost=len(found["lost"]),
        named=tuple(_tell(what, places, sent) for what, places in found.items() if places),
    )


def _places(table: Path, column: str) -> list[tuple[Place, str]]:
    read = DeltaTable(table).to_pyarrow_table(columns=["_partition", "_offset", column])
    columns = (read[name].to_pylist() for name in ("_partition", "_offset", column))
    return [((partition, offset), value) for partition, offset, value in zip(*columns, strict=True)]


def _tell(what: str, places: Iterable[Place], sent: Sent) -> str:
    found = sorted(places)
    shown = [
        f"partition {number}, offset {offset:,} ({sent.good.get((number, offset), 'no order')})"
        for number, offset in found[:NAMED]
    ]
    return f"{len(found):,} {what}: {'; '.join(shown)}{'; ...' if len(found) > NAMED else ''}"
