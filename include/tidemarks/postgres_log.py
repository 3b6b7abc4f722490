"""The commits of a PostgreSQL sink: rows of the schema `tidemark` in the sink's own database, written with the data they tell of
(P5). The log belongs to the table, as Delta's does, so two streams that write one table meet in it.
"""

from collections.abc import Hashable, Iterator
from contextlib import closing, contextmanager, nullcontext
from typing import Any

from psycopg2.extensions import connection as PostgresConnection
from psycopg2.extensions import cursor as Cursor
from psycopg2.sql import SQL, Composable, Identifier

from include.contract.connections import read_connection
from include.contract.identity import transaction_app_id
from include.contract.places import DatabaseTable
from include.tidemarks.commit import Commit, LogUnreadable
from include.tidemarks.note import read_note
from include.tidemarks.postgres_connection import connect, told

BOOKS = """
CREATE SCHEMA IF NOT EXISTS tidemark;
CREATE TABLE IF NOT EXISTS tidemark.sink (
    target text PRIMARY KEY, generation bigint NOT NULL, owner text, version bigint NOT NULL
);
CREATE TABLE IF NOT EXISTS tidemark.sink_commit (
    target text NOT NULL, version bigint NOT NULL, number bigint NOT NULL, rows bigint NOT NULL, note text NOT NULL,
    committed_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (target, version)
);
CREATE TABLE IF NOT EXISTS tidemark.reject (
    target text NOT NULL, topic text NOT NULL, topic_epoch integer NOT NULL, partition integer NOT NULL, "offset" bigint NOT NULL,
    spec_hash text NOT NULL, generation bigint NOT NULL, batch bigint NOT NULL, code text NOT NULL, message text NOT NULL,
    row_as_text jsonb NOT NULL, rejected_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (target, topic_epoch, partition, "offset", spec_hash)
);
"""
READ_WITHIN_SECONDS = 3  # whoever only looks can look again
COMMITS = SQL("SELECT version, number, rows, note FROM tidemark.sink_commit WHERE target = %s AND ")


def target_of(place: DatabaseTable) -> str:
    """The table's name in the books."""
    return f"{place.schema}.{place.name}"


class PostgresLog:
    def __init__(self, place: DatabaseTable) -> None:
        self._place = place
        self._target = target_of(place)
        self._kept: PostgresConnection | None = None

    @property
    def table(self) -> str:
        return str(self._place)

    def newest_version(self) -> int | None:
        return next(iter(self._one("SELECT max(version) FROM tidemark.sink_commit WHERE target = %s") or ()), None)

    def oldest_version(self) -> int:
        found = self._one("SELECT min(version) FROM tidemark.sink_commit WHERE target = %s")
        return int(found[0]) if found and found[0] is not None else 0

    def has(self, version: int) -> bool:
        return self.identity_of(version) is not None

    def identity_of(self, version: int) -> Hashable | None:
        return self._one("SELECT md5(note), committed_at FROM tidemark.sink_commit WHERE target = %s AND version = %s", version)

    def commit(self, version: int) -> Commit:
        found = next(self._select("version = %s", version), None)
        if found is None:
            raise self._unreadable(version)
        return found

    def between(self, after: int, up_to: int) -> Iterator[Commit]:
        expected = after
        for commit in self._select("version > %s AND version <= %s ORDER BY version", after, up_to):
            expected += 1
            if commit.version != expected:
                raise self._unreadable(expected)
            yield commit
        if expected < up_to:
            raise self._unreadable(expected + 1)

    def after(self, version: int) -> Iterator[Commit]:
        yield from self._select("version > %s ORDER BY version", version)

    def standing(self, newest: int) -> Iterator[Commit]:
        """There is no RESTORE: a database that went back has neither the rows nor the commits."""
        expected, least = newest, self.oldest_version()
        while expected >= least:
            page = list(self._select("version <= %s ORDER BY version DESC LIMIT 100", expected))
            if not page:  # the database is another one by now
                raise self._unreadable(expected)
            for commit in page:
                if commit.version != expected:
                    raise self._unreadable(expected)
                yield commit
                expected -= 1
        if least > 0:
            raise self._unreadable(least - 1)

    def restored_version(self, restore: Commit) -> int:
        raise self._unreadable(restore.version)

    def newest_with_transaction(self, app_id: str) -> tuple[int, int | None]:
        newest = self.newest_version() or 0
        of_app = (commit.transactions.get(app_id) for commit in self.standing(newest))
        return newest, next((number for number in of_app if number is not None), None)

    def has_rows(self) -> bool:
        """Of a table that may be looked at: for the lack of that, and for what is no table, a start is refused in other words."""
        with self._cursor() as cursor:
            cursor.execute(
                "SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s"
                " AND c.relkind IN ('r', 'p') AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')",
                [self._place.schema, self._place.name],
            )
            if cursor.fetchone() is None:
                return False
            table = SQL("{}.{}").format(Identifier(self._place.schema), Identifier(self._place.name))
            cursor.execute(SQL("SELECT EXISTS (SELECT 1 FROM {})").format(table))
            return cursor.fetchone() == (True,)

    def _select(self, which: str, *values: object) -> Iterator[Commit]:
        yield from (_commit(row) for row in self._rows(COMMITS + SQL(which), *values))

    def _one(self, query: str, *values: object) -> tuple[Any, ...] | None:
        return next(iter(self._rows(query, *values)), None)

    def _rows(self, query: str | Composable, *values: object) -> list[tuple[Any, ...]]:
        """None where the books were never made."""
        with self._cursor() as cursor:
            if not has_books(cursor):
                return []
            cursor.execute(query, [self._target, *values])
            return cursor.fetchall()

    @contextmanager
    def kept_open(self) -> Iterator[None]:
        """Whatever is asked in the block goes over one connection; otherwise each question has its own, which costs both sides
        more than the answer. Each sees what is committed by then: no transaction is open in between."""
        with closing(self._connect()) as self._kept:
            self._kept.autocommit = True
            try:
                yield
            finally:
                self._kept = None

    @contextmanager
    def _cursor(self) -> Iterator[Cursor]:
        where = read_connection(self._place.connection)
        with (
            told(where, "Nothing was read."),
            nullcontext(self._kept) if self._kept else closing(self._connect()) as connection,
            connection.cursor() as cursor,
        ):
            yield cursor

    def _connect(self) -> PostgresConnection:
        return connect(read_connection(self._place.connection), "tidemark reads", READ_WITHIN_SECONDS)

    def _unreadable(self, version: int) -> LogUnreadable:
        return LogUnreadable(
            f"Commit {version} of {self.table} is missing from tidemark.sink_commit, so what happened there is not known.",
            state="The stream wrote nothing since.",
            next_step="Bring that table back from a backup of the database.",
            version=version,
        )


def has_books(cursor: Cursor) -> bool:
    cursor.execute("SELECT to_regclass('tidemark.reject') IS NOT NULL")
    return cursor.fetchone() == (True,)


def _commit(row: tuple[Any, ...]) -> Commit:
    version, number, rows, text = row
    note = read_note(version, text)
    of = {transaction_app_id(note.stream, note.sink): number} if note else {}
    kind = note.kind.upper() if note else "?"
    return Commit(version, kind, {}, text, of, files_removed=0, rows_added=rows, table_id=None)
