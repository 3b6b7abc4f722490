"""Rows on their way: executors COPY them into an unlogged table of this generation's own, each attempt under a token of its own.

A COPY that was broken off leaves nothing. One whose task is tried again leaves rows under a token that nobody asks for.
"""

import io
import uuid
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain

import psycopg2
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from psycopg2.extensions import cursor as Cursor
from psycopg2.sql import SQL, Composed, Identifier, Literal
from pyspark.sql import DataFrame

from include.contract.connections import Connection
from include.tidemarks.postgres_connection import connect, told
from jobs.failpoints import Failpoint, reach

CONNECTIONS = 4  # of one batch at a time: more do not make one disk faster, and a database has few hundred for everybody
PLACE_COLUMNS = ("partition", "offset")
ZERO_BYTE, SHOWN_INSTEAD = "\0", "\N{SYMBOL FOR NULL}"
CSV = pyarrow.csv.WriteOptions(include_header=False, quoting_style="needed")


@dataclass(frozen=True)
class Staged:
    """What the tasks of one batch have put there."""

    tokens: list[str]
    rows: int


@dataclass(frozen=True)
class Staging:
    """One table, of one sink and generation; `width`: how many columns of text a row has."""

    where: Connection
    application: str
    name: str
    width: int

    @property
    def table(self) -> Composed:
        return SQL("tidemark.{}").format(Identifier(self.name))

    @property
    def columns(self) -> list[str]:
        return ["token", *PLACE_COLUMNS, "zero_byte_in", *(f"c{number}" for number in range(self.width))]

    def make(self, cursor: Cursor) -> None:
        """Autovacuum would hold the table's lock when it is emptied."""
        texts = SQL(", ").join(SQL("{} text").format(Identifier(name)) for name in self.columns[3:])
        cursor.execute(
            SQL(
                'CREATE UNLOGGED TABLE IF NOT EXISTS {} (token text, partition integer, "offset" bigint, {})'
                " WITH (autovacuum_enabled = false)"
            ).format(self.table, texts)
        )

    def write(self, rows: DataFrame) -> Staged:
        """`rows`: partition, offset and then the texts."""
        staged = rows.coalesce(CONNECTIONS).mapInArrow(self._copy, "token string, rows bigint").collect()  # a row per task
        return Staged([row["token"] for row in staged], sum(row["rows"] for row in staged))

    def rows_of(self, staged: Staged) -> Composed:
        """A query of the rows of these tokens, and of no broken attempt."""
        return SQL("SELECT * FROM {} WHERE token = ANY({})").format(self.table, Literal(staged.tokens))

    def _copy(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        """On an executor."""
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return
        token, rows = uuid.uuid4().hex, 0

        def parts() -> Iterator[bytes]:
            nonlocal rows
            for batch in chain([first], filled):
                rows += batch.num_rows
                yield _staged(token, batch)

        with closing(connect(self.where, self.application)) as connection, connection, connection.cursor() as cursor:
            columns = SQL(", ").join(map(Identifier, self.columns))
            cursor.copy_expert(SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(self.table, columns), Parts(parts()))
            reach(Failpoint.IN_COPY)
        yield pa.record_batch({"token": [token], "rows": [rows]})

    def empty(self) -> None:
        """Best effort, outside of every transaction: what is left is not asked for again."""
        self._try(SQL("TRUNCATE {}").format(self.table))

    def drop(self) -> None:
        self._try(SQL("DROP TABLE IF EXISTS {}").format(self.table))

    def drop_older(self) -> None:
        """Of earlier generations of this sink. One into which a zombie still copies is left for the next start."""
        prefix, _, generation = self.name.rpartition("_")
        with closing(connect(self.where, self.application)) as connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace('tidemark') AND relkind = 'r'"
                " AND starts_with(relname, %s)",
                [f"{prefix}_"],
            )
            names = [name for (name,) in cursor.fetchall()]
        for name in names:
            if int(name.rpartition("_")[2]) >= int(generation):
                continue  # a newer one's, if this driver was slow
            self._try(SQL("DROP TABLE IF EXISTS tidemark.{}").format(Identifier(name)))

    def _try(self, statement: Composed) -> None:
        with told(self.where, "The batch is whole."), closing(connect(self.where, self.application)) as connection:
            cursor = connection.cursor()
            connection.autocommit = True
            cursor.execute("SET lock_timeout = '200ms'")
            try:
                cursor.execute(statement)
            except psycopg2.errors.LockNotAvailable:
                print(f"{self.name} is in use and was left as it is", flush=True)
            except psycopg2.errors.UndefinedTable:
                print(f"{self.name} is gone: a newer generation has dropped it", flush=True)


class Parts(io.RawIOBase):
    """A file that is made as it is read."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        super().__init__()
        self._parts = parts
        self._left = b""

    def read(self, size: int = -1) -> bytes:
        if not self._left:
            self._left = next(self._parts, b"")
        size = len(self._left) if size < 0 else size
        now, self._left = self._left[:size], self._left[size:]
        return now


def as_csv(columns: list[pa.Array]) -> bytes:
    out = io.BytesIO()
    pyarrow.csv.write_csv(pa.RecordBatch.from_arrays(columns, [str(number) for number in range(len(columns))]), out, CSV)
    return out.getvalue()


def _staged(token: str, batch: pa.RecordBatch) -> bytes:
    zero_byte_in, texts = _without_zero_bytes(batch.columns[2:])
    return as_csv([pa.repeat(token, batch.num_rows), *batch.columns[:2], zero_byte_in, *texts])


def _without_zero_bytes(texts: list[pa.Array]) -> tuple[pa.Array, list[pa.Array]]:
    """PostgreSQL has no text with a zero byte, and would break the COPY off: the number of such a column is sent instead, and
    the row is refused later like any other."""
    found = pa.nulls(len(texts[0]), pa.string())
    clean = []
    for number, column in enumerate(texts):
        has_zero = pc.fill_null(pc.match_substring(column, ZERO_BYTE), False)
        if pc.any(has_zero).as_py():
            found = pc.if_else(has_zero, str(number), found)
            column = pc.replace_substring(column, ZERO_BYTE, SHOWN_INSTEAD)
        clean.append(column)
    return found, clean
