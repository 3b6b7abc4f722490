"""What supervision saw last, and when it last looked: read by `make status`, which needs no Airflow."""

import socket
from dataclasses import dataclass
from datetime import datetime

from psycopg2.extensions import cursor as Cursor


@dataclass(frozen=True)
class StreamState:
    stream: str
    state: str
    detail: str
    lag: int | None
    generation: int | None
    since: datetime
    behind_since: datetime | None
    observed_at: datetime


@dataclass(frozen=True)
class Heartbeat:
    host: str
    run: str
    verdict: str
    age_seconds: float  # by the database's clock, which every host shares


def read_states(cursor: Cursor) -> dict[str, StreamState]:
    cursor.execute(
        "SELECT stream, state, detail, lag, generation, since, behind_since, observed_at FROM stream_state ORDER BY stream"
    )
    return {row[0]: StreamState(*row) for row in cursor.fetchall()}


def write_state(cursor: Cursor, seen: StreamState) -> None:
    cursor.execute(
        "INSERT INTO stream_state (stream, state, detail, lag, generation, since, behind_since, observed_at)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (stream) DO UPDATE SET state = excluded.state,"
        " detail = excluded.detail, lag = excluded.lag, generation = excluded.generation, since = excluded.since,"
        " behind_since = excluded.behind_since, observed_at = excluded.observed_at",
        list(vars(seen).values()),
    )


def beat(cursor: Cursor, run: str, verdict: str) -> None:
    cursor.execute(
        "INSERT INTO supervision (host, run, verdict, seen_at) VALUES (%s, %s, %s, now()) ON CONFLICT (only_one) DO UPDATE"
        " SET host = excluded.host, run = excluded.run, verdict = excluded.verdict, seen_at = excluded.seen_at",
        [socket.gethostname(), run, verdict],
    )


def read_heartbeat(cursor: Cursor) -> Heartbeat | None:
    cursor.execute("SELECT host, run, verdict, extract(epoch FROM now() - seen_at)::float FROM supervision")
    row = cursor.fetchone()
    return Heartbeat(*row) if row else None
