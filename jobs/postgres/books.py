"""What a PostgreSQL sink writes about itself, in the transaction of the data: its owner, and a commit with a note (P5)."""

import hashlib
from dataclasses import dataclass

from psycopg2.extensions import cursor as Cursor

from include.tidemarks.note import Note, transaction_version
from include.tidemarks.postgres_log import BOOKS, has_books

SCHEMA_LOCK = 7_143_205_119  # any number, as long as every start uses the same one
APPLICATION = "tidemark"


@dataclass(frozen=True)
class Owner:
    generation: int
    owner: str | None
    version: int


def make_books(cursor: Cursor) -> None:
    """Two starts at once wait for each other: IF NOT EXISTS alone does not."""
    if has_books(cursor):
        return
    cursor.execute("SELECT pg_advisory_xact_lock(%s)", [SCHEMA_LOCK])
    cursor.execute(BOOKS)


def lock_owner(cursor: Cursor, target: str) -> Owner:
    """Held until the transaction ends. Everything that is checked under it still holds when the transaction commits."""
    cursor.execute("SELECT generation, owner, version FROM tidemark.sink WHERE target = %s FOR UPDATE", [target])
    return Owner(*(cursor.fetchone() or (0, None, -1)))


def make_owner(cursor: Cursor, target: str) -> None:
    cursor.execute(
        "INSERT INTO tidemark.sink (target, generation, version) VALUES (%s, 0, -1) ON CONFLICT (target) DO NOTHING", [target]
    )


def append_commit(cursor: Cursor, target: str, version: int, note: Note, rows: int) -> None:
    batch = note.tidemark.batch if note.tidemark else None
    cursor.execute(
        "INSERT INTO tidemark.sink_commit (target, version, number, rows, note) VALUES (%s, %s, %s, %s, %s)",
        [target, version, transaction_version(note.generation, batch), rows, note.to_json()],
    )
    cursor.execute(
        "UPDATE tidemark.sink SET generation = %s, owner = %s, version = %s WHERE target = %s",
        [note.generation, note.owner, version, target],
    )


def digest_of(target: str) -> str:
    """Short enough for the names of sessions and tables."""
    return hashlib.sha256(target.encode()).hexdigest()[:12]


def application_name(digest: str, generation: int, what: str) -> str:
    """By which a fence finds the sessions of older generations of the same sink."""
    return f"{APPLICATION}/{digest}/{generation}/{what}"


def end_older_sessions(cursor: Cursor, digest: str, generation: int) -> int:
    """A driver that sleeps in its transaction, on a host that is suspended, would hold the owner's row for ever. How many."""
    cursor.execute(
        "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid() AND application_name ~ %s AND split_part(application_name, '/', 3)::bigint < %s",
        [f"^{APPLICATION}/{digest}/[0-9]+/", generation],
    )
    (ended,) = cursor.fetchone() or (0,)
    return int(ended)
