"""What a driver tells while it runs: finished batches and its end; and what it is told: to stop."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from psycopg2.extensions import cursor as Cursor
from psycopg2.extras import Json, execute_values

from include.contract.exit_class import ExitClass
from include.control.state_health import StateHealth


@dataclass(frozen=True)
class FinishedBatch:
    batch: int
    read: int
    seconds: float
    lag: int
    finished_at: datetime
    state: StateHealth | None = None  # of a stateful stream


def record_batches(cursor: Cursor, stream: str, generation: int, batches: list[FinishedBatch]) -> None:
    """With the time by the database's clock, which every host shares: a driver's own may be wrong."""
    now = datetime.now(UTC)
    rows = [
        (stream, generation, one.batch, one.read, one.seconds, one.lag, now - one.finished_at, _json(one.state))
        for one in batches
    ]
    execute_values(
        cursor,
        "INSERT INTO progress (stream, generation, batch, read, seconds, lag, finished_at, state) VALUES %s"
        " ON CONFLICT DO NOTHING",
        rows,
        template="(%s, %s, %s, %s, %s, %s, now() - %s, %s::jsonb)",
    )


def _json(state: StateHealth | None) -> Json | None:
    return Json(state.to_plain()) if state else None


def request_stop(cursor: Cursor, stream: str, generation: int, *, asked_by: str, reason: str) -> None:
    cursor.execute(
        "INSERT INTO stop_request (stream, generation, asked_by, reason) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING",
        [stream, generation, asked_by, reason],
    )


def is_stop_requested(cursor: Cursor, stream: str, generation: int) -> bool:
    cursor.execute("SELECT 1 FROM stop_request WHERE stream = %s AND generation = %s", [stream, generation])
    return cursor.fetchone() is not None


@dataclass(frozen=True)
class DriverExit:
    exit_class: ExitClass
    happened: str
    state: str
    next_step: str
    evidence: dict[str, Any]


def record_exit(cursor: Cursor, launch: str, stream: str, generation: int | None, ended: DriverExit) -> bool:
    """False if it is recorded already: the first word stands."""
    cursor.execute(
        "INSERT INTO driver_exit (launch, stream, generation, class, exit_code, happened, state, next_step, evidence)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
        [
            *(launch, stream, generation, ended.exit_class.title, ended.exit_class.code),
            *(_plain(ended.happened), ended.state, ended.next_step, Json(ended.evidence, dumps=_plain_json)),
        ],
    )
    return cursor.rowcount > 0


def _plain(value: Any) -> Any:
    """PostgreSQL holds every character but one, and a record's value may be in the text."""
    if isinstance(value, str):
        return value.replace("\0", "")
    if isinstance(value, dict):
        return {_plain(name): _plain(inner) for name, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def _plain_json(value: object) -> str:
    return json.dumps(_plain(value), default=lambda other: _plain(str(other)))
