"""What a driver tells while it runs: finished batches, the ledger copy, its end; and what it is told: to stop."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg2.extensions import cursor as Cursor
from psycopg2.extras import Json, execute_values

from include.contract.exit_class import ExitClass
from include.tidemarks.note import Note

LEDGER_COUNTS = ("read", "delivered", "quarantined", "rejected", "filtered", "superseded", "duplicates", "late", "lost")


@dataclass(frozen=True)
class FinishedBatch:
    batch: int
    read: int
    seconds: float
    lag: int
    finished_at: datetime


def record_batches(cursor: Cursor, stream: str, generation: int, batches: list[FinishedBatch]) -> None:
    rows = [(stream, generation, one.batch, one.read, one.seconds, one.lag, one.finished_at) for one in batches]
    execute_values(
        cursor,
        "INSERT INTO progress (stream, generation, batch, read, seconds, lag, finished_at) VALUES %s ON CONFLICT DO NOTHING",
        rows,
    )


def copied_version(cursor: Cursor, stream: str, sink: str) -> int:
    cursor.execute("SELECT version FROM ledger_copied WHERE stream = %s AND sink = %s", [stream, sink])
    return int(next(iter(cursor.fetchone() or ()), -1))


def copy_ledger(cursor: Cursor, stream: str, sink: str, notes: list[tuple[int, Note]], up_to: int) -> None:
    """What was read of the sink's own log, up to a version. Idempotent: it may be called again, and by another."""
    rows = [
        [
            *(stream, sink, note.generation, note.tidemark.batch, note.tidemark.epoch, line.partition, line.start, line.end),
            *(getattr(line, name) for name in LEDGER_COUNTS),
            *(note.spec_hash, version),
        ]
        for version, note in notes
        if note.tidemark is not None
        for line in note.ledger
    ]
    execute_values(
        cursor,
        'INSERT INTO ledger (stream, sink, generation, batch, epoch, partition, start, "end", read, delivered, quarantined,'
        " rejected, filtered, superseded, duplicates, late, lost, spec_hash, version) VALUES %s ON CONFLICT DO NOTHING",
        rows,
    )
    cursor.execute(
        "INSERT INTO ledger_copied AS there (stream, sink, version) VALUES (%s, %s, %s)"
        " ON CONFLICT (stream, sink) DO UPDATE SET version = greatest(there.version, excluded.version)",
        [stream, sink, up_to],
    )


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


def _plain(text: str) -> str:
    """PostgreSQL holds every character but one, and a record's value may be in the text."""
    return text.replace("\0", "")


def _plain_json(value: object) -> str:
    return json.dumps(value, default=str).replace("\\u0000", "")
