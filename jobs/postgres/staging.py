"""Rows on their way: executors COPY them into an unlogged table of this generation's own, each attempt under a token of its own.

A COPY that was broken off leaves nothing. One whose task is tried again leaves rows under a token that nobody asks for.
"""

import uuid
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain

import psycopg2
import pyarrow as pa
import pyarrow.compute as pc
from psycopg2.extensions import cursor as Cursor
from psycopg2.sql import SQL, Composed, Identifier, Literal
from pyspark.sql import DataFrame

from include.contract.connections import Connection
from include.contract.exit_class import ExitClass, StreamFailure
from include.tidemarks.postgres_connection import connect, told
from jobs.failpoints import Failpoint, reach
from jobs.postgres.copied_texts import Parts, staged_as_csv
from jobs.postgres.partial_totals import RECORDS

CONNECTIONS = 4  # of one batch at a time: more do not make one disk faster, and a database has few hundred for everybody
PLACE_COLUMNS = ("partition", "offset")


class StagedRowsMissing(StreamFailure):
    """The tasks staged more or fewer rows than there are: a restart of the database empties unlogged tables."""

    exit_class = ExitClass.INFRASTRUCTURE


@dataclass(frozen=True)
class Staged:
    """What the tasks of one batch have put there; without places, if a row stands for several records."""

    tokens: list[str]
    rows: int
    records: int
    has_places: bool


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
        return ["token", *PLACE_COLUMNS, "no_text", *(f"c{number}" for number in range(self.width))]

    def make(self, cursor: Cursor) -> None:
        """Autovacuum would hold the table's lock when it is emptied."""
        texts = SQL(", ").join(SQL("{} text").format(Identifier(name)) for name in self.columns[3:])
        cursor.execute(
            SQL(
                'CREATE UNLOGGED TABLE IF NOT EXISTS {} (token text, partition integer, "offset" bigint, {})'
                " WITH (autovacuum_enabled = false)"
            ).format(self.table, texts)
        )

    def write(self, rows: DataFrame, *, has_places: bool = True) -> Staged:
        """`rows`: partition, offset and then the texts."""
        tasks = rows.coalesce(CONNECTIONS).mapInArrow(self._copy, "token string, rows bigint, records bigint").collect()
        tokens = [task["token"] for task in tasks]
        return Staged(tokens, sum(task["rows"] for task in tasks), sum(task["records"] for task in tasks), has_places)

    def rows_of(self, staged: Staged) -> Composed:
        """A query of the rows of these tokens, and of no broken attempt."""
        return SQL("SELECT * FROM {} WHERE token = ANY({})").format(self.table, Literal(staged.tokens))

    def check_rows(self, staged: Staged, there: int) -> None:
        if there != staged.rows:
            raise StagedRowsMissing(
                f"{staged.rows:,} rows were staged in {self.name}, but {there:,} are there.",
                state="Nothing of them was used.",
                next_step="Start the stream again: it stages the batch anew.",
            )

    def _copy(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        """On an executor."""
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return
        token, rows, records = uuid.uuid4().hex, 0, 0

        def parts() -> Iterator[bytes]:
            nonlocal rows, records
            for batch in chain([first], filled):
                rows += batch.num_rows
                records += _records(batch)
                yield staged_as_csv(token, batch)

        with closing(connect(self.where, self.application)) as connection, connection, connection.cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout = 0")  # it would count the time that Spark takes to make the rows
            columns = SQL(", ").join(map(Identifier, self.columns))
            cursor.copy_expert(SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(self.table, columns), Parts(parts()))
            reach(Failpoint.IN_COPY)
        yield pa.record_batch({"token": [token], "rows": [rows], "records": [records]})

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
        with (
            told(self.where, "What was committed before is whole."),
            closing(connect(self.where, self.application)) as connection,
        ):
            cursor = connection.cursor()
            connection.autocommit = True
            cursor.execute("SET lock_timeout = '200ms'")
            try:
                cursor.execute(statement)
            except psycopg2.errors.LockNotAvailable:
                print(f"{self.name} is in use and was left as it is", flush=True)
            except psycopg2.errors.UndefinedTable:
                print(f"{self.name} is gone: a newer generation has dropped it", flush=True)


def _records(batch: pa.RecordBatch) -> int:
    """A row is a record, unless it says of how many it is a total."""
    return int(pc.sum(batch[RECORDS].cast(pa.int64())).as_py()) if RECORDS in batch.schema.names else int(batch.num_rows)
