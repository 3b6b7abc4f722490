"""Launches and the generations they take (P1.1)."""

import os
import socket
import uuid
from dataclasses import dataclass

from psycopg2.errors import UniqueViolation
from psycopg2.extras import Json

from include.contract.exit_class import ExitClass, StreamFailure
from include.control.database import ControlDatabase
from include.control.journal import write_journal


class LaunchUnusable(StreamFailure):
    """A driver was started with a launch id that nobody wrote down, or that was used before."""

    exit_class = ExitClass.CONFIGURATION


@dataclass(frozen=True)
class Generation:
    """One start of a driver: its number fences all lower ones, its owner tells it from an equal number elsewhere."""

    number: int
    owner: str
    deployment: str


@dataclass(frozen=True)
class Launch:
    id: str  # the driver carries it
    is_new: bool  # False if the same request has asked for it before


def write_launch(
    control: ControlDatabase,
    stream: str,
    *,
    asked_by: str,
    reason: str,
    approvals: dict[str, object],
    request: str | None = None,
) -> Launch:
    with control.transaction() as cursor:
        cursor.execute(
            "INSERT INTO launch (stream, asked_by, reason, approvals, request) VALUES (%s, %s, %s, %s, %s)"
            " ON CONFLICT (request) DO NOTHING RETURNING id",
            [stream, asked_by, reason, Json(approvals), request],
        )
        if written := cursor.fetchone():
            write_journal(cursor, stream, "launched", actor=asked_by, reason=reason, launch=str(written[0]))
            return Launch(str(written[0]), is_new=True)
        cursor.execute("SELECT id FROM launch WHERE request = %s", [request])
        (known,) = cursor.fetchone() or ("",)
        return Launch(str(known), is_new=False)


def find_launch(control: ControlDatabase, request: str) -> str | None:
    with control.transaction() as cursor:
        cursor.execute("SELECT id FROM launch WHERE request = %s", [request])
        row = cursor.fetchone()
    return str(row[0]) if row else None


def read_approvals(control: ControlDatabase, launch: str) -> dict[str, object]:
    with control.transaction() as cursor:
        cursor.execute(
            "SELECT approvals, (SELECT max(number) FROM generation WHERE generation.launch = launch.id),"
            " EXISTS (SELECT 1 FROM driver_exit WHERE driver_exit.launch = launch.id) FROM launch WHERE id = %s",
            [launch],
        )
        approvals, generation, has_ended = cursor.fetchone() or (None, None, False)
    if approvals is None or generation is not None or has_ended:
        why = (
            "is not in the control database"
            if approvals is None
            else f"was used by generation {generation} already"
            if generation is not None
            else "was given up before it began"
        )
        raise LaunchUnusable(
            f"Launch {launch} {why}.",
            state="Nothing was started.",
            next_step="Start the stream again: a launch is written before each start, and its approvals hold for that one.",
        )
    return dict(approvals)


def take_generation(control: ControlDatabase, stream: str, launch: str, spec_hash: str, highest_known: int) -> Generation:
    """One more than the highest known to this database and, as `highest_known`, to every sink."""
    owner = str(uuid.uuid4())
    while True:
        try:
            with control.transaction() as cursor:
                cursor.execute(
                    "INSERT INTO generation (stream, number, owner, launch, spec_hash, host, pid)"
                    " SELECT %(stream)s, 1 + greatest(%(known)s, coalesce(max(number), 0)), %(owner)s, %(launch)s, %(hash)s,"
                    " %(host)s, %(pid)s FROM generation WHERE stream = %(stream)s"
                    " RETURNING number, (SELECT id FROM deployment)",
                    {
                        "stream": stream,
                        "known": highest_known,
                        "owner": owner,
                        "launch": launch,
                        "hash": spec_hash,
                        "host": socket.gethostname(),
                        "pid": os.getpid(),
                    },
                )
                number, deployment = cursor.fetchone() or (0, "")
            return Generation(number, owner, str(deployment))
        except UniqueViolation:  # another start took the number between our look and our insert
            continue


def note_state_reads(control: ControlDatabase, stream: str, generation: int, offsets: int) -> None:
    with control.transaction() as cursor:
        cursor.execute("UPDATE generation SET state_reads = %s WHERE stream = %s AND number = %s", [offsets, stream, generation])


def keep_spec(control: ControlDatabase, stream: str, spec_hash: str, snapshot: str) -> None:
    """The newest of those that make the same rows: sizes, health and connections may differ."""
    with control.transaction() as cursor:
        cursor.execute(
            "INSERT INTO spec (stream, spec_hash, snapshot) VALUES (%s, %s, %s)"
            " ON CONFLICT (stream, spec_hash) DO UPDATE SET snapshot = excluded.snapshot",
            [stream, spec_hash, snapshot],
        )


def read_spec(control: ControlDatabase, stream: str, spec_hash: str) -> str | None:
    """The snapshot that was kept, or None."""
    with control.transaction() as cursor:
        cursor.execute("SELECT snapshot FROM spec WHERE stream = %s AND spec_hash = %s", [stream, spec_hash])
        return next(iter(cursor.fetchone() or ()), None)


def knows_sink(control: ControlDatabase, stream: str, sink: str) -> bool:
    """Whether a batch of this sink was ever seen: then a sink without a tidemark is not new (P1.5)."""
    with control.transaction() as cursor:
        cursor.execute("SELECT 1 FROM ledger WHERE stream = %s AND sink = %s LIMIT 1", [stream, sink])
        return cursor.fetchone() is not None
