"""Rows that have served their time: which they are, and how a chunk of them is removed. Called by housekeeping alone.

What supervision looks at is never among them. Not here at all, for something still asks them, however old they are: `ledger`
(whether a sink is new, P1.5, and the books of any window), `spec` (levelling makes rows by the one that a sink names), and
the tables of one row per stream or sink.
"""

from dataclasses import dataclass
from datetime import timedelta

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from include.control.drivers import NEWEST


@dataclass(frozen=True)
class Expiring:
    """`find` selects the keys of the rows that may go, from a table called `old`; `delete` removes those of one chunk."""

    find: str
    delete: tuple[str, ...]
    chunk: int = 1_000  # of one transaction: below half a second with 1.5 million rows of progress


JOURNAL = Expiring(
    "SELECT old.id FROM journal old WHERE old.at < now() - %(age)s",
    ("DELETE FROM journal WHERE id = ANY(%(keys)s)",),
)
INCIDENTS = Expiring(
    "SELECT old.id FROM incident old WHERE old.closed_at < now() - %(age)s",
    ("DELETE FROM incident WHERE id = ANY(%(keys)s)",),
)
PROGRESS = Expiring(  # of each stream the newest so many batches stay, by which health is judged
    "SELECT old.ctid::text FROM (SELECT DISTINCT stream FROM generation) each CROSS JOIN LATERAL (SELECT generation, batch"
    " FROM progress WHERE stream = each.stream ORDER BY generation DESC, batch DESC LIMIT 1) last"
    " JOIN progress old ON old.stream = each.stream AND (old.generation, old.batch) <= (last.generation, last.batch - %(newest)s)"
    " WHERE old.finished_at < now() - %(age)s",
    ("DELETE FROM progress WHERE ctid = ANY(%(keys)s::tid[])",),
)
STOP_REQUESTS = Expiring(  # the newest generation may still read its own
    "SELECT old.ctid::text FROM stop_request old WHERE old.asked_at < now() - %(age)s"
    " AND old.generation < (SELECT max(number) FROM generation WHERE stream = old.stream)",
    ("DELETE FROM stop_request WHERE ctid = ANY(%(keys)s::tid[])",),
)
# A launch goes with all that hangs on it, by its last word: asked, seen or ended. One that a runbook asked for stays: should
# its task be cleared, the launch must be found and not repeated. The newest generation stays: the next number is one more.
LAUNCHES = Expiring(
    "SELECT old.id FROM launch old"
    " LEFT JOIN driver_process ON driver_process.launch = old.id LEFT JOIN driver_exit ON driver_exit.launch = old.id"
    " WHERE old.request IS NULL AND greatest(old.asked_at, driver_process.seen_at, driver_exit.ended_at) < now() - %(age)s"
    " AND old.id NOT IN (SELECT DISTINCT ON (stream) launch FROM generation ORDER BY stream, number DESC)"
    " AND old.id NOT IN (SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY stream ORDER BY asked_at DESC) AS nth"
    " FROM launch) AS placed WHERE nth <= %(newest)s)"
    " AND old.id NOT IN (SELECT launch FROM (SELECT launch, row_number() OVER (PARTITION BY stream ORDER BY ended_at DESC) AS nth"
    " FROM driver_exit) AS placed WHERE nth <= %(newest)s)",
    (
        "DELETE FROM driver_process WHERE launch = ANY(%(keys)s::uuid[])",
        "DELETE FROM driver_exit WHERE launch = ANY(%(keys)s::uuid[])",
        "DELETE FROM generation WHERE launch = ANY(%(keys)s::uuid[])",
        "DELETE FROM launch WHERE id = ANY(%(keys)s::uuid[])",
    ),
    chunk=100,  # for each the database looks through all generations
)


def count_expired(cursor: Cursor, rows: Expiring, age: timedelta) -> int:
    counting = sql.SQL("SELECT count(*) FROM ({}) AS found").format(sql.SQL(rows.find))
    cursor.execute(counting, {"age": age, "newest": NEWEST})
    (count,) = cursor.fetchone() or (0,)
    return int(count)


def remove_expired(cursor: Cursor, rows: Expiring, age: timedelta) -> int:
    """One chunk; fewer than that when nothing is left. What another run holds is left to it."""
    finding = sql.SQL("{} LIMIT %(chunk)s FOR UPDATE OF old SKIP LOCKED").format(sql.SQL(rows.find))
    cursor.execute(finding, {"age": age, "newest": NEWEST, "chunk": rows.chunk})
    keys = [key for (key,) in cursor.fetchall()]
    for delete in rows.delete if keys else ():
        cursor.execute(delete, {"keys": keys})
    return len(keys)
