"""Who plays in the demo: the sinks of its streams, in the order in which a batch reaches them; how somebody outside sees the
commits of each, and counts what it holds."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from psycopg2.extensions import connection as PostgresConnection

from include.local_stack.demo.count import Count, count, count_in_database, count_in_topic, count_newest, count_totals
from include.local_stack.demo.count_payments import count_of_users, count_windows
from include.local_stack.demo.eyes import Eye, LakeEye, TopicEye, WarehouseEye
from include.local_stack.demo.payments import SentPayments
from include.local_stack.demo.records import Sent
from include.local_stack.postgres import WAREHOUSE
from include.local_stack.stack import Stack

KILLED, BESIDE, LATEST, ENRICHED = "user_metrics", "orders_to_postgres", "orders_latest", "orders_enriched"
WINDOWS, COUNTS = "payment_totals", "user_event_counts"
FIRST, ADDED, STATEFUL = (KILLED, BESIDE), (LATEST, ENRICHED), (WINDOWS, COUNTS)
OF_ORDERS = (*FIRST, *ADDED)


@dataclass(frozen=True)
class PlayedSink:
    stream: str
    sink: str
    eye: Eye
    count: Callable[[], Count]

    @property
    def name(self) -> str:
        return f"{self.stream}.{self.sink}"


def lake_table(stack: Stack) -> Path:
    return stack.home.lake / "user_orders"


def played_sinks(stack: Stack, sent: Sent, payments: SentPayments) -> list[PlayedSink]:
    return [*_of_orders(stack, sent), *_of_payments(stack, payments)]


def _of_orders(stack: Stack, sent: Sent) -> list[PlayedSink]:
    latest, address = stack.home.lake / "orders_latest", stack.kafka.connection.address
    table, kept = lake_table(stack), {stream: stack.home.lake / "quarantine" / stream for stream in OF_ORDERS}

    def totals(connection: PostgresConnection) -> Count:
        return count_totals(sent, connection, "user_metrics", kept[KILLED])

    def rows(connection: PostgresConnection) -> Count:
        return count_in_database(sent, connection, "orders", kept[BESIDE])

    return [
        PlayedSink(KILLED, "lake", LakeEye(table / "_delta_log"), lambda: count(sent, table, kept[KILLED])),
        _in_warehouse(stack, KILLED, "totals", "user_metrics", totals),
        _in_warehouse(stack, BESIDE, "warehouse", "orders", rows),
        PlayedSink(LATEST, "latest", LakeEye(latest / "_delta_log"), lambda: count_newest(sent, latest, kept[LATEST])),
        PlayedSink(
            ENRICHED, "enriched", TopicEye(address, ENRICHED), lambda: count_in_topic(sent, address, ENRICHED, kept[ENRICHED])
        ),
    ]


def _of_payments(stack: Stack, sent: SentPayments) -> list[PlayedSink]:
    table = stack.home.lake / WINDOWS
    return [
        PlayedSink(WINDOWS, "lake", LakeEye(table / "_delta_log"), lambda: count_windows(sent, table)),
        _in_warehouse(stack, COUNTS, "counts", COUNTS, lambda connection: count_of_users(sent, connection, COUNTS)),
    ]


def _in_warehouse(
    stack: Stack, stream: str, sink: str, table: str, count_it: Callable[[PostgresConnection], Count]
) -> PlayedSink:
    def counted() -> Count:
        with closing(stack.postgres.connect(WAREHOUSE)) as connection:
            return count_it(connection)

    return PlayedSink(stream, sink, WarehouseEye(stack, table), counted)
