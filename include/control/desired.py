"""What should be: whether each stream runs, who said so, why and since when; and the pause over all of them."""

from dataclasses import dataclass
from datetime import datetime

from psycopg2.extensions import cursor as Cursor

from include.control.journal import EVERY_STREAM, write_journal


@dataclass(frozen=True)
class Desired:
    running: bool
    set_by: str
    reason: str
    since: datetime


@dataclass(frozen=True)
class Pause:
    set_by: str
    reason: str
    since: datetime


def read_desired(cursor: Cursor) -> dict[str, Desired]:
    cursor.execute("SELECT stream, running, set_by, reason, since FROM desired")
    return {stream: Desired(*row) for stream, *row in cursor.fetchall()}


def declare(cursor: Cursor, stream: str, *, running: bool) -> None:
    """A stream file that was never seen before starts as it declares; from then on a person decides."""
    cursor.execute(
        "INSERT INTO desired (stream, running, set_by, reason) VALUES (%s, %s, 'stream file', %s) ON CONFLICT DO NOTHING",
        [stream, running, f"enabled: {str(running).lower()}"],
    )
    if cursor.rowcount:
        write_journal(cursor, stream, "declared", actor="stream file", desired=_word(running))


def set_desired(cursor: Cursor, stream: str, *, running: bool, set_by: str, reason: str) -> None:
    """Also when it is so already: who wants it and since when is news, and failures are counted from then."""
    before = read_desired(cursor).get(stream)
    cursor.execute(
        "INSERT INTO desired (stream, running, set_by, reason) VALUES (%s, %s, %s, %s)"
        " ON CONFLICT (stream) DO UPDATE SET running = excluded.running, set_by = excluded.set_by, reason = excluded.reason,"
        " since = now()",
        [stream, running, set_by, reason],
    )
    was = _word(before.running) if before else None
    write_journal(cursor, stream, "desired", actor=set_by, reason=reason, before=was, after=_word(running))


def read_pause(cursor: Cursor) -> Pause | None:
    cursor.execute("SELECT set_by, reason, since FROM pause")
    row = cursor.fetchone()
    return Pause(*row) if row else None


def pause_all(cursor: Cursor, *, set_by: str, reason: str) -> bool:
    """False if all were paused already: the first word stands."""
    cursor.execute("INSERT INTO pause (set_by, reason) VALUES (%s, %s) ON CONFLICT DO NOTHING", [set_by, reason])
    if changed := cursor.rowcount > 0:
        write_journal(cursor, EVERY_STREAM, "paused", actor=set_by, reason=reason)
    return changed


def resume_all(cursor: Cursor, *, set_by: str, reason: str) -> bool:
    cursor.execute("DELETE FROM pause")
    if changed := cursor.rowcount > 0:
        write_journal(cursor, EVERY_STREAM, "resumed", actor=set_by, reason=reason)
    return changed


def _word(running: bool) -> str:
    return "running" if running else "stopped"
