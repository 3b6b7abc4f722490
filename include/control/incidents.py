"""Incidents: a failure that supervision does not mend by itself, with its class, its numbers and the one next step."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg2.extensions import cursor as Cursor
from psycopg2.extras import Json

from include.control.journal import write_journal


@dataclass(frozen=True)
class Incident:
    id: int
    stream: str
    title: str
    happened: str
    next_step: str
    opened_at: datetime


def open_incident(
    cursor: Cursor, stream: str, title: str, *, happened: str, state: str, next_step: str, evidence: dict[str, Any], actor: str
) -> None:
    """Once: while one of this class is open, another is not news."""
    cursor.execute(
        "INSERT INTO incident (stream, class, happened, state, next_step, evidence) VALUES (%s, %s, %s, %s, %s, %s)"
        " ON CONFLICT DO NOTHING",
        [stream, title, happened, state, next_step, Json(evidence)],
    )
    if cursor.rowcount:
        write_journal(cursor, stream, "incident", actor=actor, incident=title, happened=happened, next_step=next_step)


def close_incidents(cursor: Cursor, stream: str, titles: Iterable[str], *, closed_by: str) -> None:
    cursor.execute(
        "UPDATE incident SET closed_at = now(), closed_by = %s WHERE stream = %s AND class = ANY(%s) AND closed_at IS NULL"
        " RETURNING class",
        [closed_by, stream, list(titles)],
    )
    for (title,) in cursor.fetchall():
        write_journal(cursor, stream, "incident closed", actor=closed_by, incident=title, before="open", after="closed")


def read_open_incidents(cursor: Cursor) -> list[Incident]:
    cursor.execute(
        "SELECT id, stream, class, happened, next_step, opened_at FROM incident WHERE closed_at IS NULL ORDER BY opened_at"
    )
    return [Incident(*row) for row in cursor.fetchall()]
