"""Drivers as the control database knows them: each launch with its process and generation, and how the ended ones ended."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from psycopg2.extensions import cursor as Cursor

from include.contract.exit_class import ExitClass
from include.processes.process_record import ProcessRecord

NEWEST = 20  # launches that are looked at; of those that have not ended, only the newest can still matter
CLASSES = {exit_class.title: exit_class for exit_class in ExitClass}


@dataclass(frozen=True)
class DriverProcess:
    host: str
    process: ProcessRecord
    detached: bool  # started by the launcher; otherwise in somebody's terminal
    seen_at: datetime  # the driver's own last word


@dataclass(frozen=True)
class Launched:
    """A launch of which no end is recorded."""

    launch: str
    asked_at: datetime
    process: DriverProcess | None
    generation: int | None
    taken_at: datetime | None
    snapshot: str | None  # what it runs, whatever the file says now
    stop_asked_at: datetime | None
    state_reads: int = 0  # offsets that a stateful stream reads again before its first new batch


@dataclass(frozen=True)
class Ended:
    launch: str
    generation: int | None
    exit_class: ExitClass
    happened: str
    next_step: str
    asked_at: datetime
    ended_at: datetime


@dataclass(frozen=True)
class Batch:
    generation: int
    batch: int
    read: int
    seconds: float
    lag: int
    finished_at: datetime


def record_process(cursor: Cursor, launch: str, host: str, process: ProcessRecord, *, detached: bool) -> None:
    cursor.execute(
        "INSERT INTO driver_process (launch, host, pid, start_ticks, boot, detached) VALUES (%s, %s, %s, %s, %s, %s)"
        " ON CONFLICT DO NOTHING",
        [launch, host, process.pid, process.start_ticks, process.boot, detached],
    )


def mark_seen(cursor: Cursor, launch: str) -> None:
    cursor.execute("UPDATE driver_process SET seen_at = now() WHERE launch = %s", [launch])


def has_ended(cursor: Cursor, launch: str) -> bool:
    cursor.execute("SELECT 1 FROM driver_exit WHERE launch = %s", [launch])
    return cursor.fetchone() is not None


def read_open_launches(cursor: Cursor, stream: str) -> list[Launched]:
    """Newest first."""
    cursor.execute(
        "SELECT l.id, l.asked_at, p.host, p.pid, p.start_ticks, p.boot, p.started_at, p.detached, p.seen_at,"
        " g.number, g.taken_at, spec.snapshot, s.asked_at, coalesce(g.state_reads, 0)"
        " FROM (SELECT * FROM launch WHERE stream = %s ORDER BY asked_at DESC LIMIT %s) l"
        " LEFT JOIN driver_exit e ON e.launch = l.id"
        " LEFT JOIN driver_process p ON p.launch = l.id"
        " LEFT JOIN LATERAL (SELECT * FROM generation WHERE launch = l.id ORDER BY number DESC LIMIT 1) g ON true"
        " LEFT JOIN spec ON spec.stream = l.stream AND spec.spec_hash = g.spec_hash"
        " LEFT JOIN stop_request s ON s.stream = l.stream AND s.generation = g.number"
        " WHERE e.launch IS NULL ORDER BY l.asked_at DESC",
        [stream, NEWEST],
    )
    return [_launched(*row) for row in cursor.fetchall()]


def _launched(
    launch: str,
    asked_at: datetime,
    host: str | None,
    leader: int,
    start_ticks: int,
    boot: str,
    started_at: datetime,
    detached: bool,
    seen_at: datetime,
    *generation: object,
) -> Launched:
    process = None
    if host is not None:
        process = DriverProcess(host, ProcessRecord(leader, start_ticks, boot, started_at.timestamp()), detached, seen_at)
    return Launched(str(launch), asked_at, process, *generation)  # type: ignore[arg-type]


def read_ends(cursor: Cursor, stream: str) -> list[Ended]:
    """Newest first."""
    cursor.execute(
        "SELECT e.launch, e.generation, e.class, e.happened, e.next_step, l.asked_at, e.ended_at"
        " FROM driver_exit e JOIN launch l ON l.id = e.launch WHERE e.stream = %s ORDER BY e.ended_at DESC LIMIT %s",
        [stream, NEWEST],
    )
    return [Ended(str(launch), generation, CLASSES[title], *rest) for launch, generation, title, *rest in cursor.fetchall()]


def read_batches(cursor: Cursor, stream: str) -> list[Batch]:
    """Of the newest generation that finished one, newest first."""
    cursor.execute(
        "SELECT generation, batch, read, seconds, lag, finished_at FROM progress WHERE stream = %s"
        " AND generation = (SELECT max(generation) FROM progress WHERE stream = %s) ORDER BY batch DESC LIMIT %s",
        [stream, stream, NEWEST],
    )
    return [Batch(*row) for row in cursor.fetchall()]


def newest_generation(cursor: Cursor, stream: str) -> int:
    cursor.execute("SELECT coalesce(max(number), 0) FROM generation WHERE stream = %s", [stream])
    (number,) = cursor.fetchone() or (0,)
    return int(number)


def newest_generations(cursor: Cursor) -> dict[str, int]:
    """Of every stream that ever ran."""
    cursor.execute("SELECT stream, max(number) FROM generation GROUP BY stream")
    return {stream: int(number) for stream, number in cursor.fetchall()}


def read_unended(cursor: Cursor, quiet: timedelta, living: Iterable[str]) -> list[tuple[str, str, int | None]]:
    """Stream, launch and generation of those without a recorded end that were heard of within `quiet`, and of `living` ones."""
    cursor.execute(
        "SELECT l.stream, l.id::text, g.number FROM launch l LEFT JOIN generation g ON g.launch = l.id"
        " LEFT JOIN driver_process p ON p.launch = l.id LEFT JOIN driver_exit e ON e.launch = l.id"
        " WHERE l.id::text = ANY(%s) OR (e.launch IS NULL AND greatest(l.asked_at, p.seen_at) > now() - %s)",
        [sorted(living), quiet],
    )
    return cursor.fetchall()
