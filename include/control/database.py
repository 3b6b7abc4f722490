"""Connects to the control database, and brings its schema up to date. Every question has a deadline."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import psycopg2
from psycopg2.extensions import connection as PostgresConnection
from psycopg2.extensions import cursor as Cursor

from include.contract.connections import Connection
from include.contract.errors import TidemarkError
from include.contract.exit_class import ExitClass, StreamFailure
from include.control.kept_connection import KeptConnection

MIGRATIONS = Path(__file__).parent / "migrations"
SCHEMA_LOCK = 7_143_205_118  # any number, as long as every deployment's migrations use the same one
LOCK_LOOK_SECONDS = 0.2
STREAM_LOCKS = 714_320  # the first half of the lock of each stream
WITH_DEADLINES = " ".join(
    f"-c {setting}"
    for setting in (
        "search_path=tidemark",
        "timezone=UTC",
        "statement_timeout=10s",
        "lock_timeout=5s",
        "idle_in_transaction_session_timeout=30s",
        # A host that lost its power must not hold a stream's lock for the two hours of the kernel's default.
        "tcp_keepalives_idle=10",
        "tcp_keepalives_interval=5",
        "tcp_keepalives_count=3",
    )
)
TCP_DEADLINE_MS = 5_000


class ControlDatabaseDown(StreamFailure):
    """The control database gives no answer."""

    exit_class = ExitClass.INFRASTRUCTURE


class StreamBusy(TidemarkError):
    """Another act on the stream is under way."""


class SchemaTooNew(StreamFailure):
    """The database was migrated by a newer version of Tidemark."""

    exit_class = ExitClass.CONFIGURATION


class ControlDatabase:
    def __init__(self, connection: Connection) -> None:
        self.where = connection
        self._kept = KeptConnection(partial(_connect, connection))

    @contextmanager
    def transaction(self) -> Iterator[Cursor]:
        """Committed when the block ends, rolled back when it raises."""
        try:
            with self._kept.lent() as connection, connection.cursor() as cursor:
                yield cursor
        except (psycopg2.OperationalError, psycopg2.InterfaceError) as error:
            raise self._down(error) from error

    @contextmanager
    def lock(self, stream: str, wait_seconds: float = 0) -> Iterator[None]:
        """One act on a stream at a time, by supervision or a runbook. Falls with the connection of whoever dies holding it; that
        is safe, for the newest generation wins whatever is started twice."""
        try:
            with closing(_connect(self.where)) as connection:
                connection.autocommit = True
                if not _take_lock(connection.cursor(), stream, time.monotonic() + wait_seconds):
                    raise StreamBusy(
                        f"Somebody else acts on {stream} at this moment.",
                        state="Nothing was changed.",
                        next_step="Wait for the other runbook to end, then try again.",
                    )
                yield
        except (psycopg2.OperationalError, psycopg2.InterfaceError) as error:
            raise self._down(error) from error

    def migrate(self) -> None:
        """Once per number, in order. Two at once wait for each other."""
        with self.transaction() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [SCHEMA_LOCK])
            cursor.execute("CREATE SCHEMA IF NOT EXISTS tidemark")
            cursor.execute(
                "CREATE TABLE IF NOT EXISTS migration (number integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())"
            )
            cursor.execute("SELECT number FROM migration")
            applied = {number for (number,) in cursor.fetchall()}
            there = {int(file.name.partition("_")[0]): file for file in MIGRATIONS.glob("*.sql")}
            if unknown := applied - set(there):
                raise SchemaTooNew(
                    f"The control database has migration {max(unknown)}, this version of Tidemark ends at {max(there)}.",
                    state="Nothing was changed.",
                    next_step="Run the newer version of Tidemark.",
                )
            for number in sorted(set(there) - applied):
                cursor.execute(there[number].read_text())
                cursor.execute("INSERT INTO migration (number) VALUES (%s)", [number])

    def _down(self, error: Exception) -> ControlDatabaseDown:
        last_line = (str(error).strip().splitlines() or [type(error).__name__])[-1]
        return ControlDatabaseDown(
            f"The control database at {self.where.address} does not answer: {last_line}.",
            state="Streams that run go on; a start waits for it.",
        )


def _connect(where: Connection) -> PostgresConnection:
    return psycopg2.connect(
        host=where.host,
        port=where.port,
        user=where.login,
        password=where.password,
        dbname=where.schema,
        connect_timeout=5,
        application_name="tidemark",
        options=WITH_DEADLINES,
        tcp_user_timeout=TCP_DEADLINE_MS,
    )


def _take_lock(cursor: Cursor, stream: str, deadline: float) -> bool:
    while True:
        cursor.execute("SELECT pg_try_advisory_lock(%s, hashtext(%s))", [STREAM_LOCKS, stream])
        (is_ours,) = cursor.fetchone() or (False,)
        if is_ours or time.monotonic() > deadline:
            return bool(is_ours)
        time.sleep(LOCK_LOOK_SECONDS)
