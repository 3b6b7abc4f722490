"""Compares, inside the database, the values that Kafka's records give for each key with those of a table, at one snapshot (P7.1):
totals, and results of windows.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa
from psycopg2.extensions import cursor as Cursor
from psycopg2.sql import SQL, Composable, Composed, Identifier, Literal
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from jobs.postgres.columns_there import ColumnThere
from jobs.postgres.copied_texts import Parts, as_csv
from jobs.postgres.text_forms import from_text, text_form

ROWS_AT_ONCE = 10_000
TOLD = 5


@dataclass(frozen=True)
class Differing:
    """A key; its values in the table, and by Kafka's records: none where there is no such key."""

    key: Mapping[str, Any]
    there: Mapping[str, Any] | None
    wanted: Mapping[str, Any] | None


@dataclass(frozen=True)
class ValuesByKey:
    """`rows`: a table, or a query in parentheses; `there`: the columns that it has."""

    cursor: Cursor
    rows: Composable
    key: Sequence[str]
    values: Sequence[str]
    there: Mapping[str, ColumnThere]

    def find_differing(self, expected: DataFrame, doubtful: DataFrame) -> tuple[list[Differing], int]:
        """The first of them, and how many there are. `doubtful`: keys that are not compared."""
        self._stage(expected, "expected")
        self._stage(doubtful, "doubtful")
        query = self._differing()
        self.cursor.execute(query + SQL(" LIMIT {}").format(Literal(TOLD)))
        first = [self._as_differing(row) for row in self.cursor.fetchall()]
        self.cursor.execute(SQL("SELECT count(*) FROM ({}) d").format(query))
        return first, (self.cursor.fetchone() or (0,))[0]

    def _stage(self, rows: DataFrame, table: str) -> None:
        """In a temporary table, over the connection of the snapshot, which sees what it has written itself and nothing else that
        is new."""
        as_text = rows.select(*(_as_text(field) for field in rows.schema))
        texts = SQL(", ").join(SQL("{} text").format(Identifier(name)) for name in rows.columns)
        staged, name = Identifier(f"{table}_as_text"), Identifier(table)
        self.cursor.execute(SQL("CREATE TEMP TABLE {} ({}) ON COMMIT DROP").format(staged, texts))
        copy = SQL("COPY {} FROM STDIN (FORMAT csv)").format(staged)
        self.cursor.copy_expert(copy, Parts(_csv(as_text.toLocalIterator(prefetchPartitions=True))))
        typed = SQL(", ").join(
            SQL("{} AS {}").format(from_text(SQL("s.{}").format(Identifier(name)), self.there[name].type), Identifier(name))
            for name in rows.columns
        )
        self.cursor.execute(SQL("CREATE TEMP TABLE {} ON COMMIT DROP AS SELECT {} FROM {} s").format(name, typed, staged))
        self.cursor.execute(SQL("ANALYZE {}").format(name))

    def _differing(self) -> Composed:
        """Key, whether it is in the table and its values there, whether it is expected and its values then."""
        of_table, of_kafka = (_listed(alias + ".{}", self.values) for alias in ("t", "e"))
        return SQL(
            "SELECT {keys}, t.{first} IS NOT NULL, {of_table}, e.{first} IS NOT NULL, {of_kafka} FROM {rows} t"
            " FULL JOIN expected e ON {same} WHERE (t.{first} IS NULL OR e.{first} IS NULL OR {differ})"
            " AND NOT EXISTS (SELECT 1 FROM doubtful d WHERE {is_doubtful}) ORDER BY {keys}"
        ).format(
            keys=_listed("coalesce(t.{0}, e.{0})", self.key),
            first=Identifier(self.key[0]),
            of_table=of_table,
            of_kafka=of_kafka,
            rows=self.rows,
            same=_listed("t.{0} = e.{0}", self.key, " AND "),
            is_doubtful=_listed("d.{0} = coalesce(t.{0}, e.{0})", self.key, " AND "),
            differ=SQL(" OR ").join(self._differ(name) for name in self.values),
        )

    def _differ(self, name: str) -> Composed:
        is_json = self.there[name].type == "json"  # which has no equality of its own
        return SQL("t.{0}::jsonb IS DISTINCT FROM e.{0}::jsonb" if is_json else "t.{0} IS DISTINCT FROM e.{0}").format(
            Identifier(name)
        )

    def _as_differing(self, row: Sequence[Any]) -> Differing:
        key, rest = row[: len(self.key)], row[len(self.key) :]
        is_there, *there = rest[: len(self.values) + 1]
        is_wanted, *wanted = rest[len(self.values) + 1 :]
        return Differing(
            dict(zip(self.key, key, strict=True)),
            dict(zip(self.values, there, strict=True)) if is_there else None,
            dict(zip(self.values, wanted, strict=True)) if is_wanted else None,
        )


def _listed(each: str, names: Sequence[str], between: str = ", ") -> Composed:
    return SQL(between).join(SQL(each).format(Identifier(name)) for name in names)


def _as_text(field: T.StructField) -> Any:
    form = text_form(field.dataType)
    return form.as_text(field.name).alias(field.name) if form else F.col(field.name)


def _csv(rows: Iterator[Any]) -> Iterator[bytes]:
    while chunk := [tuple(row) for row in islice(rows, ROWS_AT_ONCE)]:
        yield as_csv([pa.array(column, pa.string()) for column in zip(*chunk, strict=True)])
