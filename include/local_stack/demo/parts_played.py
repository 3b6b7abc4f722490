"""Who plays in the demo: the sinks of its streams, in the order in which a batch reaches them; how somebody outside sees the
commits of each, and counts what it holds."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from psycopg2.extensions import connection as PostgresConnection

from include.local_stack.demo.count import Count, count, count_in_database, count_in_topic, count_newest, count_totals
from include.local_stack.demo.eyes import Eye, LakeEye, TopicEye, WarehouseEye
from include.local_stack.demo.records import Sent
from include.local_stack.postgres import WAREHOUSE
from include.local_stack.stack import Stack

KILLED, BESIDE, LATEST, ENRICHED = "user_metrics", "orders_to_postgres", "orders_latest", "orders_enriched"
FIRST, ADDED = (KILLED, BESIDE), (LATEST, ENRICHED)
STREAMS = (*FIRST, *ADDED)
InDatabase = Callable[[Sent, PostgresConnection, str, Path], Count]


@dataclass(frozen=True)
class PlayedSink:
    stream: str
    sink: str
    eye: Eye
    count: Callable[[Sent], Count]

    @property
    def name(self) -> str:
        return f"{self.stream}.{self.sink}"


def lake_table(stack: Stack) -> Path:
    return stack.home.lake / "user_orders"


def played_sinks(stack: Stack) -> list[PlayedSink]:
    latest, address = stack.home.lake / "orders_latest", stack.kafka.connection.address
    table, kept = lake_table(stack), {stream: stack.home.lake / "quarantine" / stream for stream in STREAMS}
    return [
        PlayedSink(KILLED, "lake", LakeEye(table / "_delta_log"), lambda sent: count(sent, table, kept[KILLED])),
        _in_warehouse(stack, KILLED, "totals", "user_metrics", count_totals, kept[KILLED]),
        _in_warehouse(stack, BESIDE, "warehouse", "orders", count_in_database, kept[BESIDE]),
        PlayedSink(LATEST, "latest", LakeEye(latest / "_delta_log"), lambda sent: count_newest(sent, latest, kept[LATEST])),
        PlayedSink(
            ENRICHED,
            "enriched",
            TopicEye(address, ENRICHED),
            lambda sent: count_in_topic(sent, address, ENRICHED, kept[ENRICHED]),
        ),
    ]


def _in_warehouse(stack: Stack, stream: str, sink: str, table: str, count_it: InDatabase, quarantine: Path) -> PlayedSink:
    def counted(sent: Sent) -> Count:
        with closing(stack.postgres.connect(WAREHOUSE)) as connection:
            return count_it(sent, connection, table, quarantine)

    return PlayedSink(stream, sink, WarehouseEye(stack, table), counted)
